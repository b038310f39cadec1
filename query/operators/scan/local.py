"""Scan, Local: the rows of a table that lie on this node, in its own sources: logs, files, databases.

A set probe reads what is there now, in turns; a stream probe gets what arrives from now on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from query import plan
from query.batch import Batch
from query.dataflow.context import LocalTable, with_columns, with_losses
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.source import Lies, Source
from query.operators.scan.origin import ORIGIN, Origin, check_origin


@register
class ScanLocal(Source):
    """Rows of the node's own sources."""

    TYPE = "scan"
    IMPLEMENTATION = "Local"
    LIES = Lies.NODE
    OPTIONS: ClassVar = (
        Option("table", "text", "the name under which the node's owner registered the source", required=True),
        Option("columns", "texts", "the columns that are wanted; others may be left unread. All when absent"),
        ORIGIN,
    )

    @classmethod
    def tables(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (options["table"],)

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        check_origin(options)

    def open(self) -> None:
        super().open()
        self._origin = Origin(self.context, self.options)
        self._table: LocalTable | None = self.context.services["tables"].open(self.options["table"])
        self._reading: dict[int, Iterator[Batch]] = {}
        self._stops: list[Callable[[], None]] = []
        self._running = False

    def probe(self, probe: Probe) -> None:
        if self._table is None:
            if probe.kind is not ProbeKind.STREAM:
                self.deliver_end(probe.tag)
        elif probe.kind is ProbeKind.STREAM:
            self._stops.append(self._table.follow(lambda batch: self._arrived(batch, probe.tag)))
        else:
            self._reading[probe.tag] = self._scanned(self._table, probe.keys)
            self._wake()

    def _scanned(self, table: LocalTable, keys: Batch | None) -> Iterator[Batch]:
        columns = self.options["columns"]
        if columns is not None and (columnar := with_columns(table)) is not None:
            return columnar.scan_columns(keys, columns)
        lossy = with_losses(table)
        return table.scan(keys) if lossy is None else lossy.scan_telling(keys, self.drop)

    def idle(self) -> bool:
        return not self._reading and super().idle()

    def resumed(self) -> None:
        self._wake()

    def close(self) -> None:
        for stop in self._stops:
            stop()
        self._reading.clear()
        super().close()

    def _arrived(self, batch: Batch, tag: int) -> None:
        self.context.guard(lambda: self.deliver(self._origin.added(batch), tag))

    def _wake(self) -> None:
        if self._reading and not self._running and not self.paused:
            self._running = True
            self.context.schedule(self._turn)

    def _turn(self) -> bool:
        """Reads one batch for the oldest probe."""
        if not self._reading:
            self._running = False
            return False
        tag, batches = next(iter(self._reading.items()))
        batch = next(batches, None)
        if batch is None or self.deliver(self._origin.added(batch), tag) is Flow.DONE:
            del self._reading[tag]
            self.deliver_end(tag)
            self.context.settle()
        self._running = bool(self._reading) and not self.paused
        return self._running
