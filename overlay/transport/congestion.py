"""Congestion control: what was acknowledged and what was lost in, bytes that may be under way out.

`NewReno` is the default: slow start, additive increase, multiplicative decrease (PIER 3.1.3; RFC 6582, with
the recovery period of RFC 9002). It also decreases, once a round trip, when its datagrams wait too long in queues:
a full queue makes every message late, and flows that share a queue see it grow together, so they converge in
seconds instead of minutes. Another algorithm is another class with these five members.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from overlay.transport.config import TransportConfig

#: What is left of the window after a loss. 0.7 with an increase of one datagram a round trip keeps the queue
#: of a drop-tail link from draining (utilisation) and still converges (RFC 9438 uses the same factor).
DECREASE = 0.7
#: Time in queues that is tolerated. Below it a link of 1.5 Mbps with a few flows is not kept busy; above it a
#: lookup of several hops feels it.
QUEUE_S_MAX = 0.1


class CongestionControl(Protocol):
    """One peer's window. Times are the machine's `now`."""

    window_bytes: int

    def acknowledged(self, size: int, sent_at: float, in_flight: int) -> None:
        """`size` bytes arrived, the first of them sent at that time; `in_flight` were under way before, so an
        idle sender's window stays."""
        ...

    def lost(self, now: float, sent_at: float) -> None:
        """A datagram sent at that time was lost while later ones arrived."""
        ...

    def delayed(self, now: float, sent_at: float, queue_s: float) -> None:
        """A datagram sent at that time arrived; of late, datagrams wait `queue_s` in queues."""
        ...

    def timed_out(self, now: float) -> None:
        """Nothing was heard for a whole timeout."""
        ...


#: Makes the control of one peer.
CongestionFactory: TypeAlias = Callable[[TransportConfig], CongestionControl]


class NewReno:
    __slots__ = ("_credit", "_datagram", "_max", "_min", "_recovery_at", "_threshold", "window_bytes")

    def __init__(self, config: TransportConfig) -> None:
        self._datagram = config.datagram_bytes_max
        self._min = config.window_min_datagrams * self._datagram
        self._max = config.window_bytes_max
        self.window_bytes = config.window_initial_datagrams * self._datagram
        self._threshold = self._max
        #: Bytes acknowledged towards the next increase.
        self._credit = 0
        #: Losses of what was sent before this belong to a decrease already made.
        self._recovery_at = -1.0

    def acknowledged(self, size: int, sent_at: float, in_flight: int) -> None:
        window = self.window_bytes
        if sent_at <= self._recovery_at or 2 * in_flight < window:
            return
        if window < self._threshold:
            window += size
        else:
            self._credit += size
            if self._credit < window:
                return
            self._credit -= window
            window += self._datagram
        self.window_bytes = window if window < self._max else self._max

    def lost(self, now: float, sent_at: float) -> None:
        if sent_at <= self._recovery_at:
            return
        self._recovery_at = now
        self.window_bytes = self._threshold = max(int(self.window_bytes * DECREASE), self._min)
        self._credit = 0

    def delayed(self, now: float, sent_at: float, queue_s: float) -> None:
        if queue_s > QUEUE_S_MAX:
            self.lost(now, sent_at)

    def timed_out(self, now: float) -> None:
        self._recovery_at = now
        self._threshold = max(int(self.window_bytes * DECREASE), self._min)
        self.window_bytes = self._min
        self._credit = 0
