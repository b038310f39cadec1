"""Selection, Bloom: keeps the rows whose key may be in a filter that `put Bloom` stored. An addition to PIER's
operators: the other half of its Bloom join.

Rows that come before the filter wait, charged to the query's memory, while their producers are asked to pause. If
there will be no filter, all rows pass: the join above decides.
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
from query.keys.bloom import BloomFilter


@register
class SelectionBloom(InTurns):
    """Drops rows whose key certainly has no partner."""

    TYPE = "selection"
    IMPLEMENTATION = "Bloom"
    OPTIONS: ClassVar = (
        Option("name", "text", "the name of the filter", required=True),
        Option("keys", "expressions", "the key of a row: keys[0] = $address", required=True),
    )

    def open(self) -> None:
        super().open()
        self._keys = Evaluator(self, self.options["keys"])
        self._filter: BloomFilter | None = None
        # Work waits as if the consumer were paused, until the filter is here.
        self._paused = True
        self._ready = False

    def start(self) -> None:
        filters: Filters = self.context.services["bloom"]
        filters.get(self.options["name"], self._arrived)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.work(self._select(batch, tag), batch.num_rows, batch.nbytes)

    def finish(self, tag: int) -> None:
        self.work(self._end(tag))

    def resume(self) -> None:
        if self._ready:
            super().resume()

    def _arrived(self, filter_: BloomFilter | None) -> None:
        self._ready = True
        self._filter = filter_
        if filter_ is None:
            self.context.complain(self.name, f"there is no filter {self.options['name']!r}: all rows pass")
        self.context.guard(super().resume)

    def _select(self, batch: Batch, tag: int) -> Iterator[Flow]:
        if self._filter is None:
            yield self.emit(batch, tag)
            return
        rows, keys = self._keys(batch)
        keep = self._filter.contains(stable_hash(keys, rows.num_rows))
        missing = nulls(*keys)
        if missing is not None:
            keep = np.logical_and(keep, ~missing)
        yield self.emit(rows.take(pa.array(keep)), tag)

    def _end(self, tag: int) -> Iterator[Flow]:
        self.emit_end(tag)
        yield from ()
