"""Projection, Repeat: each row as often as an expression says. An addition to PIER's operators, for the bags of SQL:
INTERSECT ALL and EXCEPT ALL count equal rows and give them back that many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch import Batch
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns

#: Rows of a batch that leaves.
OUT_ROWS = 65_536


@register
class Repeat(InTurns):
    """Rows as often as `times` says; not at all for zero, less, or NULL."""

    TYPE = "projection"
    IMPLEMENTATION = "Repeat"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("times", "expression", "how often a row is wanted: times = $n", required=True),
        Option("number", "text", "a column for the number of the copy, from 0; none when absent"),
    )

    def open(self) -> None:
        super().open()
        self._times = Evaluator(self, [self.options["times"]])

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.work(self._repeat(batch, tag), batch.num_rows, batch.nbytes)

    def finish(self, tag: int) -> None:
        self.work(self._end(tag))

    def _repeat(self, batch: Batch, tag: int) -> Iterator[Flow]:
        rows, (times,) = self._times(batch)
        counts = pc.fill_null(times, 0).cast(pa.int64()).to_numpy()
        ends = np.cumsum(np.maximum(counts, 0))
        total = int(ends[-1]) if len(ends) else 0
        for start in range(0, total, OUT_ROWS):
            # Which row the n-th copy is of: the first whose copies end behind n.
            copies = np.arange(start, min(start + OUT_ROWS, total))
            places = np.searchsorted(ends, copies, side="right")
            data = rows.data.take(pa.array(places))
            if self.options["number"] is None:
                yield self.emit(Batch(rows.table, data, rows.schema_id), tag)
            else:
                numbers = copies - (ends[places] - np.maximum(counts[places], 0))
                data = data.append_column(self.options["number"], pa.array(numbers, pa.int64()))
                yield self.emit(Batch(rows.table, data), tag)

    def _end(self, tag: int) -> Iterator[Flow]:
        self.emit_end(tag)
        yield Flow.MORE
