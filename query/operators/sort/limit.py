"""Sort, Limit: the first rows in the order in which they come. An addition to PIER's operators, for SQL's LIMIT.

Once it has its rows it tells its producers that nobody wants more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option


@register
class Limit(Operator):
    """Passes `limit` rows after the first `offset`."""

    TYPE = "sort"
    IMPLEMENTATION = "Limit"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("limit", "integer", "how many rows; all when absent", least=0, most=1_000_000_000_000),
        Option("offset", "integer", "how many rows to leave out first", 0, least=0, most=1_000_000_000_000),
    )

    def open(self) -> None:
        #: Rows seen so far, by tag.
        self._seen: dict[int, int] = {}

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        seen = self._seen.get(tag, 0)
        self._seen[tag] = seen + batch.num_rows
        first, limit = self.options["offset"], self.options["limit"]
        start = min(max(0, first - seen), batch.num_rows)
        stop = batch.num_rows if limit is None else min(max(0, first + limit - seen), batch.num_rows)
        flow = self.emit(batch.slice(start, max(0, stop - start)), tag)
        full = limit is not None and self._seen[tag] >= first + limit
        return Flow.DONE if full else flow

    def finish(self, tag: int) -> None:
        self._seen.pop(tag, None)
        self.emit_end(tag)
