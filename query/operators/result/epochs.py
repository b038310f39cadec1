"""Result, Epochs: the answers of a continuous query to its requester, one epoch after the other. An addition to PIER's
operators.

The rows of an epoch are held until it ends and leave together behind their mark (`query.dataflow.marks`), so that the
asker can tell a finished answer from half of one, and an epoch without rows from none. A client that is behind gets
fewer epochs, not later ones: those it could not be given are counted.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option


@register
class ResultEpochs(Operator):
    """Whole epochs for whoever asked."""

    TYPE = "result"
    IMPLEMENTATION = "Epochs"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("table", "text", "the table name the asker sees; that of the rows when absent"),
    )

    def open(self) -> None:
        self._results = self.context.services["results"]
        self._results.on_ready(self._caught_up)
        self._ready = True
        #: Epochs that the client was too slow for, since the last that it got.
        self._skipped = 0
        #: Rows by tag.
        self._held: dict[int, list[Batch]] = {}

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        self.context.budget.hold(batch.nbytes, self.name)
        self._held.setdefault(tag, []).append(batch)
        return Flow.MORE

    def finish(self, tag: int) -> None:
        mark = self.context.marks.pop(tag, None)
        batches = self._take(tag)
        if mark is None:
            self._results.when_drained(lambda: self.context.sink_ended(self.name))
            return
        rows = sum(batch.num_rows for batch in batches)
        if not self._ready:
            self._skipped += 1
            self.drop(rows, "an epoch that the client was too slow for", Cause.READER_SLOW)
            return
        self.counters.rows_out += rows
        table = self.options["table"]
        named = (batch.with_table(table) if table else batch for batch in batches)
        mark, self._skipped = msgspec.structs.replace(mark, rows=rows, skipped=self._skipped), 0
        for batch in (mark.to_batch(), *named):
            self._ready = self._results.send(batch) and self._ready

    def close(self) -> None:
        for tag in list(self._held):
            self._take(tag)

    def _take(self, tag: int) -> list[Batch]:
        batches = self._held.pop(tag, [])
        self.context.budget.hold(-sum(batch.nbytes for batch in batches), self.name)
        return batches

    def _caught_up(self) -> None:
        self._ready = True
