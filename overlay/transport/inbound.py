"""The receiving half of one peer: opened packets in, messages and acknowledgements out.

Packet numbers are remembered as ranges, to acknowledge; segment numbers above a floor, to deliver each
segment once. The floor follows the sender's oldest unsettled segment, so what the sender gave up does not
hold it back, and at most `SPAN_MAX` numbers are held above it.
"""

from __future__ import annotations

from overlay.transport.config import TransportConfig
from overlay.transport.ledger import Ledger
from overlay.transport.reassembly import Reassembly
from overlay.transport.wire import (
    DELAY_UNIT_S,
    IS_FRAGMENT,
    RANGE,
    RANGES_MAX,
    SPAN_MAX,
    U16,
    U32,
    completed,
    parse_messages,
)


class Inbound:
    __slots__ = (
        "_config",
        "_floor",
        "_ledger",
        "_newest_at",
        "_seen",
        "ack_at",
        "newest",
        "pending",
        "ranges",
        "reassembly",
    )

    def __init__(self, config: TransportConfig, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        #: All segments below were delivered or given up; those in `_seen` above it were delivered.
        self._floor = 0
        self._seen: set[int] = set()
        #: Packet numbers received, as [first, last], oldest first; the newest range is the last.
        self.ranges: list[list[int]] = []
        self.newest = -1
        self._newest_at = 0.0
        #: Packets received since the last acknowledgement left, and when it must leave; 0 for never.
        self.pending = 0
        self.ack_at = 0.0
        self.reassembly = Reassembly(config, ledger)

    def receive(
        self, now: float, pn: int, pn_span: int, sn: int, sn_span: int, flags: int, body: bytes, start: int
    ) -> list[bytes] | None:
        """The messages that a packet completes. None, without an acknowledgement: it is malformed, or would
        exceed a bound."""
        newest = self.newest
        floor = self._floor
        if pn == (newest + 1) & U32 and sn == floor & U32 and newest >= 0 and not self._seen:
            # The next packet with the next segment: the rule on a good network.
            if flags & IS_FRAGMENT:
                messages = self.reassembly.add(now, body, start)
            else:
                messages = parse_messages(body, start)
            if messages is None:
                return None if flags & IS_FRAGMENT else self._refuse("malformed")
            self._floor = floor + 1
            self.newest = self.ranges[-1][1] = newest + 1
            self._newest_at = now
        else:
            pn, sn = completed(pn, newest), completed(sn, floor)
            messages = self._receive_otherwise(now, pn, sn, sn_span, flags, body, start)
            if messages is None:
                return None
        if len(self.ranges) > 1:
            self._prune(self.newest - pn_span)
        self.pending += 1
        if not self.ack_at:
            self.ack_at = now + self._config.ack_delay_s
        return messages

    def _receive_otherwise(
        self, now: float, pn: int, sn: int, sn_span: int, flags: int, body: bytes, start: int
    ) -> list[bytes] | None:
        """A packet that is early, late, or repeats a segment."""
        floor, seen = self._floor, self._seen
        if pn < 0 or sn < 0 or sn_span >= SPAN_MAX:
            return self._refuse("malformed")
        messages: list[bytes] | None
        if sn < floor or sn in seen:
            self._ledger.counters.segments_duplicate += 1
            messages = []
        elif flags & IS_FRAGMENT:
            messages = self.reassembly.add(now, body, start)
            if messages is None:
                return None
        else:
            messages = parse_messages(body, start)
            if messages is None:
                return self._refuse("malformed")
        if sn >= floor:
            self._note(sn, sn_span)
        self._insert(now, pn)
        return messages

    def _refuse(self, reason: str) -> list[bytes] | None:
        self._ledger.counters.drop(reason)
        return None

    def _note(self, sn: int, span: int) -> None:
        """Records a segment out of order, and moves the floor up to what the sender still cares for."""
        seen = self._seen
        seen.add(sn)
        floor = self._floor
        low = sn - span
        if low > floor:
            if low - floor > len(seen):
                self._seen = seen = {number for number in seen if number >= low}
            else:
                seen.difference_update(range(floor, low))
            floor = low
        while floor in seen:
            seen.remove(floor)
            floor += 1
        self._floor = floor

    def _insert(self, now: float, pn: int) -> None:
        """Adds a packet number out of order to the ranges; a gap asks for an acknowledgement at once."""
        ranges = self.ranges
        if pn != self.newest + 1:
            self.pending += self._config.ack_every
        if pn > self.newest:
            self.newest = pn
            self._newest_at = now
        at = len(ranges)
        while at and ranges[at - 1][0] > pn:
            at -= 1
        if at and ranges[at - 1][1] >= pn:
            return
        joins_below = at > 0 and ranges[at - 1][1] == pn - 1
        joins_above = at < len(ranges) and ranges[at][0] == pn + 1
        if joins_below and joins_above:
            ranges[at - 1][1] = ranges.pop(at)[1]
        elif joins_below:
            ranges[at - 1][1] = pn
        elif joins_above:
            ranges[at][0] = pn
        else:
            ranges.insert(at, [pn, pn])
            if len(ranges) > RANGES_MAX:
                del ranges[0]

    def _prune(self, low: int) -> None:
        """Forgets packets that the sender no longer waits for: gaps below are never filled, because what is
        sent again has a new number."""
        ranges = self.ranges
        while len(ranges) > 1 and ranges[0][1] < low:
            del ranges[0]

    @property
    def urgent(self) -> bool:
        """An acknowledgement should leave now, even alone."""
        return self.pending >= self._config.ack_every

    def ack_fields(self, now: float) -> tuple[int, int, int]:
        """Newest packet number, delay, run, for the packet header."""
        first, last = self.ranges[-1]
        delay = int((now - self._newest_at) / DELAY_UNIT_S)
        run = last - first
        return last, delay if delay < U16 else U16, run if run < U16 else U16

    def ack_ranges(self) -> bytes:
        """The older ranges, newest first."""
        parts: list[bytes] = []
        above = max(self.ranges[-1][0], self.newest - U16)
        for first, last in reversed(self.ranges[:-1]):
            gap, run = above - last - 1, min(last - first, U16)
            if gap > U16 or len(parts) == RANGES_MAX:
                break
            parts.append(RANGE.pack(gap, run))
            above = last - run
        return b"".join(parts)

    def acknowledged(self) -> None:
        """An acknowledgement has left."""
        self.pending = 0
        self.ack_at = 0.0

    def close(self) -> None:
        self.reassembly.close()
