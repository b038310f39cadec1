"""Null: an operator that changes nothing, a place for a tap or for an operator still to come (PIER Table 3.3)."""

from __future__ import annotations

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register


@register
class Null(Operator):
    """Passes everything on unchanged."""

    TYPE = "null"
    IMPLEMENTATION = "Null"

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.emit(batch, tag)
