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
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.dataflow.source import Source
from query.engine.exchange import Taking
from query.wire import SchemaReceiver, WireError, decode


@register
class ScanIp(Source):
    """Rows from a channel between nodes."""

    TYPE = "scan"
    IMPLEMENTATION = "IP"
    OPTIONS: ClassVar = (
        Option("channel", "text", "the name that put IP sends to", required=True, most=NAME_CHARS_MAX),
    )

    def open(self) -> None:
        super().open()
        self._exchange = self.context.services["exchange"]
        self._schemas = SchemaReceiver()
        self._stop: Callable[[], None] | None = None
        self._taking: Taking | None = None

    def brings(self) -> bool:
        return False

    def probe(self, probe: Probe) -> None:
        """All kinds of probes get everything; a channel has no past beyond what waits in it."""
        if self._stop is None:
            peers = self.context.services["peers"]
            channel = self.options["channel"]

            def arrived(payload: bytes) -> None:
                self.context.guard(lambda: self._take(payload, probe.tag))

            self._taking = self._exchange.taking(f"ip:{channel}")
            self._stop = peers.listen(self.context.query_id, channel, arrived)
            if probe.kind is not ProbeKind.STREAM:
                self._exchange.when_complete(
                    f"ip:{channel}", lambda: self.context.guard(lambda: self._complete(probe.tag))
                )

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
        super().close()

    def _complete(self, tag: int) -> None:
        assert self._taking is not None, "it listens"
        self._taking.ended = True
        self.deliver_end(tag)

    def _take(self, payload: bytes, tag: int) -> None:
        assert self._taking is not None, "nothing comes before it listens"
        self._taking.batches += 1
        try:
            batch = decode(payload, self._schemas)
        except WireError as error:
            self.drop(1, f"malformed message: {error}", Cause.UNREADABLE)
            return
        if isinstance(batch, Batch):
            self.deliver(batch, tag)
        else:
            self.drop(1, "a message without its schema", Cause.UNREADABLE)
