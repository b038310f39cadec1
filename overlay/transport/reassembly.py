"""Large messages being put together from fragments, within a bound per peer and one for all.

Segments arrive once each (`Inbound` sees to that), so counting bytes tells when a message is whole. A message that
is abandoned leaves its number behind: a fragment that still comes is refused and not acknowledged, so that
its sender learns that the message failed, however much of it was acknowledged before.
"""

from __future__ import annotations

from overlay.transport.config import TransportConfig
from overlay.transport.ledger import Ledger
from overlay.transport.wire import FRAGMENT

#: Messages of one peer being put together at once, or abandoned: those a window can hold parts of.
PARTIALS_MAX = 1_024
#: Abandoned messages of one session; beyond, the session ends and with it the need to remember them.
ABANDONED_MAX = PARTIALS_MAX // 2


#: In `Partial.missing`.
ABANDONED = -1


class Partial:
    """A message of which some is here, or was."""

    __slots__ = ("buffer", "missing", "touched_at")

    def __init__(self, total: int) -> None:
        self.buffer = bytearray(total)
        self.missing = total
        self.touched_at = 0.0


class Reassembly:
    __slots__ = ("_bytes", "_config", "_ledger", "_partials", "expires_at")

    def __init__(self, config: TransportConfig, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        self._partials: dict[int, Partial] = {}
        self._bytes = 0
        #: When to look for messages that nothing is added to; 0 for never.
        self.expires_at = 0.0

    def add(self, now: float, body: bytes, start: int) -> list[bytes] | None:
        """The message that the fragment at `start` completes, if any; None when it is refused."""
        if len(body) <= start + FRAGMENT.size:
            return self._refuse("malformed")
        message_id, offset, total = FRAGMENT.unpack_from(body, start)
        size = len(body) - start - FRAGMENT.size
        partial = self._partials.get(message_id)
        if partial is None:
            config = self._config
            if total > config.message_bytes_max:
                return self._refuse("message_too_large")
            if self._bytes + total > config.reassembly_bytes_max or len(self._partials) >= PARTIALS_MAX:
                return self._refuse("reassembly_full")
            if self._ledger.reassembly_bytes + total > config.reassembly_total_bytes_max:
                return self._refuse("reassembly_total_full")
        elif partial.missing == ABANDONED:
            return self._refuse("reassembly_idle")
        if offset + size > (total if partial is None else min(total, len(partial.buffer))):
            return self._refuse("malformed")
        if partial is None:
            partial = self._partials[message_id] = Partial(total)
            self._bytes += total
            self.expires_at = self.expires_at or now + self._config.reassembly_idle_s
            self._ledger.reassembly_bytes += total
        partial.buffer[offset : offset + size] = memoryview(body)[start + FRAGMENT.size :]
        if size > partial.missing:
            return self._refuse("malformed")
        partial.missing -= size
        partial.touched_at = now
        if partial.missing > 0:
            return []
        self._release(partial)
        del self._partials[message_id]
        return [bytes(partial.buffer)]

    def _refuse(self, reason: str) -> list[bytes] | None:
        self._ledger.counters.drop(reason)
        return None

    def _release(self, partial: Partial) -> None:
        self._bytes -= len(partial.buffer)
        self._ledger.reassembly_bytes -= len(partial.buffer)

    def expire(self, now: float) -> bool:
        """Abandons what nothing is added to. False when too much was: the session should end."""
        idle_s = self._config.reassembly_idle_s
        self.expires_at = 0.0
        abandoned = 0
        for partial in self._partials.values():
            if partial.missing != ABANDONED and partial.touched_at + idle_s <= now:
                self._ledger.counters.drop("reassembly_idle")
                self._release(partial)
                partial.buffer = bytearray()
                partial.missing = ABANDONED
            if partial.missing == ABANDONED:
                abandoned += 1
            elif not self.expires_at or partial.touched_at + idle_s < self.expires_at:
                self.expires_at = partial.touched_at + idle_s
        return abandoned <= ABANDONED_MAX

    def close(self) -> None:
        for partial in self._partials.values():
            if partial.missing != ABANDONED:
                self._ledger.counters.drop("reassembly_cut")
            self._release(partial)
        self._partials.clear()
