"""Group-by, Single: the one row of each group. An addition to PIER's operators, for SQL's scalar subqueries.

A second row in a group means that the query asks for something that has no single answer: the query ends with an
error. Without keys there is one group, and it has a row of NULLs when no row came.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from query import plan
from query.batch import Batch
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns
from query.keys import KeyIndex
from query.operators.groupby.types import TYPES, check_types, kinds_of, typed

#: Probes answered at a time.
TAGS_MAX = 1_024


class NotSingle(ValueError):
    """A scalar subquery gave several rows."""


@register
class Single(InTurns):
    """Passes rows on; fails the query at the second row of a group."""

    TYPE = "groupby"
    IMPLEMENTATION = "Single"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("keys", "expressions", "what makes a group; none makes one group of all rows", ()),
        Option("columns", "texts", "the columns of the row of NULLs for no rows at all", ()),
        TYPES,
        Option("table", "text", "the table name of the row of NULLs", ""),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        check_types(options)

    def open(self) -> None:
        super().open()
        self._seed = self.context.rng.bits64()
        self._keys = Evaluator(self, self.options["keys"])
        self._seen: dict[int, KeyIndex] = {}
        self._rows: dict[int, int] = {}
        self._held_bytes = 0

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, keys = self._keys(batch)
        seen = self._rows[tag] = self._rows.get(tag, 0) + rows.num_rows
        if not keys:
            distinct = min(seen, 1)
        else:
            index = self._index(tag, len(keys))
            index.add(keys, rows.num_rows)
            distinct = len(index)
            self._charge()
        if distinct < seen:
            raise NotSingle("a subquery used as a value gave more than one row")
        return self.emit(rows, tag)

    def finish(self, tag: int) -> None:
        self.work(self._end(tag))

    def close(self) -> None:
        super().close()
        self._seen.clear()
        self._charge()

    def _end(self, tag: int) -> Iterator[Flow]:
        columns = self.options["columns"]
        if not self._rows.pop(tag, 0) and columns and not self.options["keys"]:
            data = pa.RecordBatch.from_arrays([pa.nulls(1) for _ in columns], names=columns)
            yield self.emit(Batch(self.options["table"], typed(data, kinds_of(self.options))), tag)
        self._seen.pop(tag, None)
        self._charge()
        self.emit_end(tag)

    def _index(self, tag: int, columns: int) -> KeyIndex:
        index = self._seen.get(tag)
        if index is None:
            assert len(self._seen) < TAGS_MAX, "too many open probes"
            index = self._seen[tag] = KeyIndex(columns, self._seed)
        return index

    def _charge(self) -> None:
        size = sum(index.nbytes for index in self._seen.values())
        self.context.budget.hold(size - self._held_bytes, self.name)
        self._held_bytes = size
