"""Union, Basic: logically combines all its producers to appear as one (PIER Table 3.3).

Batches pass as they come, whatever their schemas (SQL's UNION puts projections below and a duplicate elimination
above). The end comes when all producers have ended.
"""

from __future__ import annotations

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register


@register
class Union(Operator):
    """Passes on the batches of all of its sources."""

    TYPE = "union"
    IMPLEMENTATION = "Basic"
    SOURCES = (1, None)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.emit(batch, tag)
