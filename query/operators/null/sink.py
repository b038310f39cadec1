"""NullSink: takes everything, keeps nothing; what it took is in its counters (PIER Table 3.3)."""

from __future__ import annotations

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register


@register
class NullSink(Operator):
    """Consumes and forgets."""

    TYPE = "null"
    IMPLEMENTATION = "NullSink"
    CONSUMERS_MAX = 0

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self.context.sink_ended(self.name)
