"""Tee, Basic: logically combines all its consumers to appear as one (PIER Table 3.3).

Every consumer gets every batch, whichever of them asked. The probe that starts an opgraph reaches a tee once from
each of its consumers, under one tag; the producer sees it once.
"""

from __future__ import annotations

from typing import ClassVar

from query.batch import Batch
from query.dataflow.flow import Flow, Probe
from query.dataflow.operator import Operator
from query.dataflow.registry import register

#: Consumers of one tee; a plan that wants more chains them.
CONSUMERS_MAX = 64


@register
class Tee(Operator):
    """Passes every batch to all of its consumers."""

    TYPE = "tee"
    IMPLEMENTATION = "Basic"
    CONSUMERS_MAX: ClassVar[int] = CONSUMERS_MAX

    def open(self) -> None:
        #: The newest tag passed on: tags grow, and the copies of one probe come one after the other.
        self._passed_tag = 0

    def probe(self, probe: Probe) -> None:
        if probe.tag > self._passed_tag:
            self._passed_tag = probe.tag
            super().probe(probe)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.emit(batch, tag)
