"""Scan, IP: rows that other nodes sent straight to this one (PIER Table 3.3).

What came before the opgraph is caught up with; the end comes when everybody who sends on the channel is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.source import Source
from query.wire import SchemaReceiver, WireError, decode


@register
class ScanIp(Source):
    """Rows from a channel between nodes."""

    TYPE = "scan"
    IMPLEMENTATION = "IP"
    OPTIONS: ClassVar = (Option("channel", "text", "the name that put IP sends to", required=True),)

    def open(self) -> None:
        super().open()
        self._exchange = self.context.services["exchange"]
        self._schemas = SchemaReceiver()
        self._stop: Callable[[], None] | None = None

    def probe(self, probe: Probe) -> None:
        """All kinds of probes get everything; a channel has no past beyond what waits in it."""
        if self._stop is None:
            peers = self.context.services["peers"]
            channel = self.options["channel"]

            def arrived(payload: bytes) -> None:
                self.context.guard(lambda: self._take(payload, probe.tag))

            self._stop = peers.listen(self.context.query_id, channel, arrived)
            if probe.kind is not ProbeKind.STREAM:
                self._exchange.when_complete(
                    f"ip:{channel}", lambda: self.context.guard(lambda: self.deliver_end(probe.tag))
                )

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
        super().close()

    def _take(self, payload: bytes, tag: int) -> None:
        self._exchange.received += 1
        try:
            batch = decode(payload, self._schemas)
        except WireError as error:
            self.drop(1, f"malformed message: {error}", Cause.UNREADABLE)
            return
        if isinstance(batch, Batch):
            self.deliver(batch, tag)
        else:
            self.drop(1, "a message without its schema", Cause.UNREADABLE)
