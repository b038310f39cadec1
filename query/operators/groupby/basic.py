"""Group-by, Basic: aggregates the answer of a probe and passes the groups on at its end (PIER 3.3.6, first design)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.turns import InTurns
from query.operators.groupby.calls import OPTIONS, Groups, GroupSettings

#: Probes answered at a time; each has groups of its own.
TAGS_MAX = 1_024


@register
class GroupBy(GroupSettings, InTurns):
    """One row per group when the probe ends."""

    TYPE = "groupby"
    IMPLEMENTATION = "Basic"
    OPTIONS: ClassVar = OPTIONS

    def open(self) -> None:
        super().open()
        self._groups: dict[int, Groups] = {}

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        self._of(tag).add(batch)
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self.work(self._results(tag))

    def close(self) -> None:
        super().close()
        for groups in self._groups.values():
            groups.clear()
        self._groups.clear()

    def _results(self, tag: int) -> Iterator[Flow]:
        groups = self._of(tag)
        for batch in groups.take():
            yield self.emit(batch, tag)
        groups.clear()
        del self._groups[tag]
        self.emit_end(tag)

    def _of(self, tag: int) -> Groups:
        groups = self._groups.get(tag)
        if groups is None:
            assert len(self._groups) < TAGS_MAX, "too many open probes"
            groups = self._groups[tag] = Groups(self)
        return groups
