"""Channels between nodes: rows that put IP sends here wait for the scan IP that takes them (PIER 3.3.8).

A message may come before the opgraph it is for. It waits, within bounds and for a while; what does not fit is
counted, and its sender has its acknowledgement only from the transport, so the count is in the node's figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from query.engine.messages import PeerBatch
from runtime.api import Clock

#: Messages that wait for an opgraph, over all queries, and for how long.
WAITING_BYTES_MAX = 16 << 20
WAITING_S = 60.0


@dataclass(slots=True)
class _Waiting:
    payloads: list[bytes] = field(default_factory=list)
    bytes: int = 0


class PeerChannels:
    """All channels of one node."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: dict[tuple[str, str], Callable[[bytes], None]] = {}
        self._waiting: dict[tuple[str, str], _Waiting] = {}
        self._waiting_bytes = 0
        self.dropped = 0

    def listen(self, query: str, channel: str, handler: Callable[[bytes], None]) -> Callable[[], None]:
        """Hands over what waits, then what comes; returns what ends it."""
        key = (query, channel)
        self._listeners[key] = handler
        for payload in self._take(key):
            handler(payload)
        return lambda: self._forget(key)

    def arrived(self, message: PeerBatch) -> None:
        key = (message.query, message.channel)
        handler = self._listeners.get(key)
        if handler is not None:
            handler(message.payload)
            return
        size = len(message.payload)
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            self.dropped += 1
            return
        waiting = self._waiting.get(key)
        if waiting is None:
            waiting = self._waiting[key] = _Waiting()
            self._clock.call_later(WAITING_S, self._expired, key)
        waiting.payloads.append(message.payload)
        waiting.bytes += size
        self._waiting_bytes += size

    def _forget(self, key: tuple[str, str]) -> None:
        self._listeners.pop(key, None)

    def _expired(self, key: tuple[str, str]) -> None:
        self.dropped += len(self._take(key))

    def _take(self, key: tuple[str, str]) -> list[bytes]:
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return []
        self._waiting_bytes -= waiting.bytes
        return waiting.payloads
