"""Result, NetSend: sends result tuples to the query's requester (PIER Table 3.3).

Rows go straight to the proxy node, which passes them to the client; they do not climb the tree. A client that reads
slowly pauses the query on this node.
"""

from __future__ import annotations

from typing import ClassVar

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option


@register
class NetSend(Operator):
    """Rows for whoever asked."""

    TYPE = "result"
    IMPLEMENTATION = "NetSend"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("table", "text", "the table name the asker sees; that of the rows when absent"),
    )

    def open(self) -> None:
        self._results = self.context.services["results"]
        self._results.on_ready(lambda: self.context.guard(self.resume))

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        table = self.options["table"]
        self.counters.rows_out += batch.num_rows
        more = self._results.send(batch.with_table(table) if table else batch)
        return Flow.MORE if more else Flow.PAUSE

    def finish(self, tag: int) -> None:
        self._results.when_drained(lambda: self.context.sink_ended(self.name))
