"""First in, first out: each host has one queue out and one queue in, of fixed capacity, drop-tail.

A message is an event when it reaches the receiver's queue and another when it has come through, so that order is
kept whatever the sizes: a short datagram never overtakes a long one, which a sender would take for a loss.
"""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.sim.links.base import CAPACITY_BPS, Deliver, Port
from runtime.sim.wheel import WORLD, Wheel


class _Link(msgspec.Struct):
    """When the last bit now queued will have left, out and in."""

    out_free_at: float = 0.0
    in_free_at: float = 0.0


class _Arrival(msgspec.Struct, eq=False):
    link: _Link
    through_s: float
    arrived: Deliver
    dropped: Deliver
    arg: Any


class Fifo:
    def __init__(
        self, out_bps: float = CAPACITY_BPS, in_bps: float = CAPACITY_BPS, queue_s_max: float | None = None
    ) -> None:
        """`queue_s_max` bounds each queue by the time it takes to empty; None leaves it to the network."""
        if not (out_bps > 0.0 and in_bps > 0.0):
            raise ValueError("out_bps and in_bps must be positive")
        self._out_byte_s = 8.0 / out_bps
        self._in_byte_s = 8.0 / in_bps
        self._queue_s_max = queue_s_max

    def attach(self, wheel: Wheel, queue_s_max: float) -> None:
        self._wheel = wheel
        self._limit_s = self._queue_s_max if self._queue_s_max is not None else queue_s_max

    def carry(
        self,
        sender: Port,
        receiver: Port,
        size: int,
        latency_s: float,
        arrived: Deliver,
        dropped: Deliver,
        arg: Any,
    ) -> None:
        wheel = self._wheel
        if sender is receiver:
            wheel.call_at(wheel.now + latency_s, arrived, arg, WORLD)
            return
        link = sender.link or _attach(sender)
        start_at = max(wheel.now, link.out_free_at)
        if start_at - wheel.now > self._limit_s:
            dropped(arg)
            return
        link.out_free_at = left_at = start_at + size * self._out_byte_s
        through_s = size * self._in_byte_s
        arrival = _Arrival(receiver.link or _attach(receiver), through_s, arrived, dropped, arg)
        wheel.call_at(left_at + latency_s, self._reached, arrival, WORLD)

    def _reached(self, arrival: _Arrival) -> None:
        now = self._wheel.now
        link = arrival.link
        start_at = max(now, link.in_free_at)
        if start_at - now > self._limit_s:
            arrival.dropped(arrival.arg)
            return
        link.in_free_at = start_at + arrival.through_s
        self._wheel.call_at(link.in_free_at, arrival.arrived, arrival.arg, WORLD)


def _attach(port: Port) -> _Link:
    port.link = link = _Link()
    return link
