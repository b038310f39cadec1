"""NullSource: a source without rows; every probe for a set ends at once (PIER Table 3.3)."""

from __future__ import annotations

from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.operator import Operator
from query.dataflow.registry import register


@register
class NullSource(Operator):
    """Answers every probe with nothing."""

    TYPE = "null"
    IMPLEMENTATION = "NullSource"
    SOURCES = (0, 0)

    def probe(self, probe: Probe) -> None:
        if probe.kind is not ProbeKind.STREAM:
            self.emit_end(probe.tag)
