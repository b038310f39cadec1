"""Projection, Heavy: adds a column that says whether a row's key is one of those that very many rows have, by what
`put Heavy` counted on all nodes. An addition to PIER's operators.

Rows wait for the counts as for a Bloom filter. If there will be none, no key is heavy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.dataflow.context import Filters
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns
from query.expr.columns import nulls
from query.keys import stable_hash
from query.keys.heavy import HeavyKeys


@register
class ProjectionHeavy(InTurns):
    """Marks rows of frequent keys."""

    TYPE = "projection"
    IMPLEMENTATION = "Heavy"
    OPTIONS: ClassVar = (
        Option("name", "text", "the name of the summary", required=True),
        Option("keys", "expressions", "the key of a row: keys[0] = $address", required=True),
        Option("column", "text", "the column that is added", "heavy"),
    )

    def open(self) -> None:
        super().open()
        self._keys = Evaluator(self, self.options["keys"])
        self._heavy: HeavyKeys | None = None
        # Work waits as if the consumer were paused, until the counts are here.
        self._paused = True
        self._ready = False

    def start(self) -> None:
        filters: Filters = self.context.services["bloom"]
        filters.take(self.options["name"], self._arrived)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.work(self._mark(batch, tag), batch.num_rows, batch.nbytes)

    def finish(self, tag: int) -> None:
        self.work(self._end(tag))

    def resume(self) -> None:
        if self._ready:
            super().resume()

    def _arrived(self, data: bytes) -> None:
        self._ready = True
        try:
            self._heavy = HeavyKeys.from_bytes(data)
        except ValueError:
            self.context.complain(self.name, f"there are no counts {self.options['name']!r}: no key is heavy")
        self.context.guard(super().resume)

    def _mark(self, batch: Batch, tag: int) -> Iterator[Flow]:
        rows, keys = self._keys(batch)
        marks = np.zeros(rows.num_rows, dtype=np.bool_)
        if self._heavy is not None:
            marks = self._heavy.has(stable_hash(keys, rows.num_rows))
            missing = nulls(*keys)
            if missing is not None:
                marks &= ~missing
        data = rows.data.append_column(self.options["column"], pa.array(marks))
        yield self.emit(Batch(rows.table, data), tag)

    def _end(self, tag: int) -> Iterator[Flow]:
        self.emit_end(tag)
        yield from ()
