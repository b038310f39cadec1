"""The sending half of one peer: messages in, segments out, acknowledgements in, settled messages out.

A message that fits rides with others in a *segment*, the content of one datagram; a larger one is cut into
segments of its own, cut only when the window has room. A segment keeps its number over all its
transmissions; each transmission has a packet number of its own, so an acknowledgement says exactly what
arrived and when it had left. A packet is lost when a packet three later was acknowledged, or a later one
and 9/8 of a round trip have passed (RFC 9002, 6.1); only silence waits for the timeout.

Invariant: every message added is settled exactly once; every segment is in exactly one of `_ready`,
`_lost`, `_flight`, or resolved.
"""

from __future__ import annotations

from collections import deque

from overlay.transport.backlog import Backlog, Segment
from overlay.transport.config import TransportConfig
from overlay.transport.congestion import CongestionControl
from overlay.transport.ledger import Ledger
from overlay.transport.rtt import RttEstimator
from overlay.transport.wire import SPAN_MAX

#: Later packets acknowledged until an earlier one counts as lost.
REORDERING_PACKETS = 3
#: Packets counted as lost whose late acknowledgement is still understood; a window's worth.
STALE_MAX = 1_024


class Outbound:
    __slots__ = (
        "_config",
        "_flight",
        "_largest_acked",
        "_ledger",
        "_lost",
        "_stale",
        "_unsettled",
        "backlog",
        "control",
        "in_flight_bytes",
        "last_ack",
        "loss_at",
        "pn_low",
        "pn_next",
        "progress_at",
        "rtt",
        "sn_low",
        "sn_next",
        "timeouts",
    )

    def __init__(self, config: TransportConfig, ledger: Ledger, control: CongestionControl) -> None:
        self._config = config
        self._ledger = ledger
        self.control = control
        self.rtt = RttEstimator(config)
        self.backlog = Backlog(config, ledger)
        #: Timeouts since the peer last showed a sign of life.
        self.timeouts = 0
        #: When the timeout began to run.
        self.progress_at = 0.0
        self._start_numbers()

    def _start_numbers(self) -> None:
        self.pn_next = self.sn_next = self.sn_low = self.pn_low = 0
        self._largest_acked = -1
        #: The newest packet number that the last acknowledgement named, as it was on the wire.
        self.last_ack = -1
        self._flight: dict[int, Segment] = {}
        self._stale: dict[int, Segment] = {}
        self._lost: deque[Segment] = deque()
        self._unsettled: set[int] = set()
        self.in_flight_bytes = 0
        #: When the next packet below an acknowledged one counts as lost; 0 for none.
        self.loss_at = 0.0

    @property
    def busy(self) -> bool:
        """Something is waiting or under way."""
        return bool(self._flight or self._lost) or self.backlog.waiting

    @property
    def in_flight(self) -> bool:
        return bool(self._flight)

    def timeout_at(self) -> float:
        return self.progress_at + self.rtt.backed_off_s(self.timeouts)

    # -- sending

    def next_segment(self, now: float, whole: bool) -> Segment | None:
        """The segment to transmit now, numbered; None when the window is full or nothing waits. `whole`
        leaves alone the one being gathered."""
        in_flight = self.in_flight_bytes
        if in_flight and in_flight + self._config.datagram_bytes_max > self.control.window_bytes:
            return None
        segment = None
        while self._lost and segment is None:
            segment = self._lost.popleft()
            if segment.resolved:
                segment = None
        if segment is None:
            if self.sn_next - self.sn_low >= SPAN_MAX:
                return None
            segment = self.backlog.next_segment(whole)
            if segment is None:
                return None
            segment.sn = self.sn_next
            self._unsettled.add(self.sn_next)
            self.sn_next += 1
        else:
            self._ledger.counters.segments_repeated += 1
        if not self._flight:
            self.progress_at = now
        segment.pn = pn = self.pn_next
        self.pn_next = pn + 1
        segment.sent_at = now
        segment.transmissions += 1
        self._flight[pn] = segment
        self.in_flight_bytes = in_flight + segment.size
        self._ledger.counters.segments_sent += 1
        return segment

    # -- acknowledgements

    def acknowledged(self, now: float, ranges: list[tuple[int, int]], delay_s: float) -> bool:
        """`ranges` of packet numbers arrived. False when they were never sent: the peer lies."""
        largest = ranges[0][1]
        if largest >= self.pn_next:
            return False
        flight = self._flight
        before = self.in_flight_bytes
        self.timeouts = 0
        if largest > self._largest_acked:
            self._largest_acked = largest
            segment = flight.get(largest)
            if segment is not None:
                rtt_s = now - segment.sent_at
                rtt = self.rtt
                rtt.sample(now, rtt_s - delay_s if rtt_s > delay_s else rtt_s)
                self.control.delayed(now, segment.sent_at, rtt.queue_s)
        arrived: list[Segment] = []
        for first, last in ranges:
            if first < self.pn_low:
                first = self.pn_low
            for pn in range(first, last + 1):
                segment = flight.pop(pn, None)
                if segment is not None:
                    arrived.append(segment)
        if arrived:
            self.progress_at = now
            size = self._take_in(arrived)
            self.in_flight_bytes = before - size
            self.control.acknowledged(size, arrived[0].sent_at, before)
        if self._stale:
            self._acknowledge_late(ranges)
        self._find_losses(now)
        self._advance()
        return True

    def _take_in(self, arrived: list[Segment]) -> int:
        """Settles segments that arrived; their size in the window."""
        unsettled, backlog = self._unsettled, self.backlog
        size = 0
        for segment in arrived:
            size += segment.size
            if not segment.resolved:
                segment.resolved = True
                unsettled.discard(segment.sn)
                backlog.settle(segment, True)
        return size

    def _acknowledge_late(self, ranges: list[tuple[int, int]]) -> None:
        for pn, segment in list(self._stale.items()):
            if segment.resolved:
                del self._stale[pn]
            elif any(first <= pn <= last for first, last in ranges):
                del self._stale[pn]
                self._resolve(segment, True)

    def _resolve(self, segment: Segment, delivered: bool) -> None:
        if segment.resolved:
            return
        segment.resolved = True
        self._unsettled.discard(segment.sn)
        self.backlog.settle(segment, delivered)

    def _advance(self) -> None:
        low, following = self.pn_low, self.pn_next
        flight = self._flight
        while low < following and low not in flight:
            low += 1
        self.pn_low = low
        low, following = self.sn_low, self.sn_next
        unsettled = self._unsettled
        while low < following and low not in unsettled:
            low += 1
        self.sn_low = low

    # -- losses

    def _find_losses(self, now: float) -> None:
        self.loss_at = 0.0
        flight = self._flight
        wait_s = self.rtt.reordering_s()
        for pn in range(self.pn_low, self._largest_acked):
            segment = flight.get(pn)
            if segment is None:
                continue
            due = segment.sent_at + wait_s
            if pn + REORDERING_PACKETS <= self._largest_acked or due <= now:
                self.control.lost(now, segment.sent_at)
                self._lose(pn, segment)
            else:
                self.loss_at = due
                break

    def _lose(self, pn: int, segment: Segment) -> None:
        del self._flight[pn]
        self.in_flight_bytes -= segment.size
        if segment.resolved:
            return
        given_up = segment.large is not None and segment.large.settled
        if given_up or segment.transmissions >= self._config.transmissions_max:
            self._resolve(segment, False)
            return
        while len(self._stale) >= STALE_MAX:
            del self._stale[next(iter(self._stale))]
        self._stale[pn] = segment
        self._lost.append(segment)

    def handle_losses(self, now: float) -> None:
        """`loss_at` has come."""
        self._find_losses(now)
        self._advance()

    def time_out(self, now: float) -> bool:
        """Silence: all under way counts as lost. False when the peer is to be given up."""
        self._ledger.counters.timeouts += 1
        self.timeouts += 1
        self.progress_at = now
        if self.timeouts >= self._config.timeouts_max:
            return False
        if self._flight:
            self.control.timed_out(now)
            self.recall()
        return True

    def recall(self) -> None:
        """All under way is to be sent again."""
        for pn in sorted(self._flight):
            self._lose(pn, self._flight[pn])
        self.loss_at = 0.0
        self._advance()

    # -- a session's end

    def restart(self, control: CongestionControl, retry: bool) -> None:
        """Begins anew with a peer that has forgotten us: what it may have received is sent again (`retry`:
        it is another life and cannot have delivered it in this one) or fails (it may have)."""
        under_way = {segment.sn: segment for segment in (*self._lost, *self._flight.values())}
        segments = [under_way[sn] for sn in sorted(under_way) if not under_way[sn].resolved]
        self.control = control
        self._start_numbers()
        self.timeouts = 0
        if retry:
            self.backlog.put_back(segments)
        else:
            for segment in segments:
                segment.resolved = True
                self.backlog.settle(segment, False)
            self.backlog.fail_begun()

    def fail_all(self) -> None:
        """The peer is dead."""
        for segment in (*self._lost, *self._flight.values()):
            self._resolve(segment, False)
        self.backlog.fail_waiting()
        self._start_numbers()
