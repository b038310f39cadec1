"""Put, Tree: partial states to the node that was asked, combined at every node on the way. An addition to PIER's
operators: the algorithm DHT-Hi-Optimal of Appendix B, by the tree of the query's own dissemination.

States are taken up by a scan Tree of the same channel at the asker, once all nodes have given theirs or are known to be
gone. When they have grown too large for a tree, scan Overflow takes up each node's own instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from query import plan
from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.engine.trees import OPTIONS, Shape, pack
from query.operators.groupby.calls import GroupSettings


@register
class PutTree(Operator):
    """States up the tree."""

    TYPE = "put"
    IMPLEMENTATION = "Tree"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = OPTIONS

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        GroupSettings.check(options, spec, opgraph)

    def open(self) -> None:
        self._shape = Shape(self.options)
        self._grouping = self._shape.grouping()
        self._rows = self._held_bytes = 0

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        self._shape.add(self._grouping, batch)
        self._rows += batch.num_rows
        self._charge(self._grouping.nbytes)
        return Flow.MORE

    def finish(self, tag: int) -> None:
        exchange = self.context.services["exchange"]
        if self._rows:
            exchange.give(self.options["channel"], self._grouping.states(), pack(self._grouping))
            self.counters.rows_out += self._rows
        self.context.sink_ended(self.name)

    def close(self) -> None:
        self._grouping.clear()
        self._charge(0)

    def _charge(self, size: int) -> None:
        self.context.budget.hold(size - self._held_bytes, self.name)
        self._held_bytes = size
