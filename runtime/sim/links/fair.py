"""Fair queuing: each host's link, out and in, serves its peers in equal shares.

Self-clocked fair queuing: a message's tag is where its flow would be had every flow been served bit by bit;
the smallest tag goes next. A flow is a pair of hosts; each flow has its own bounded queue, so one that floods
drops its own.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import msgspec

from runtime.sim.links.base import CAPACITY_BPS, Deliver, Port
from runtime.sim.wheel import WORLD, Wheel


class _Load(msgspec.Struct, eq=False):
    """One message on its way through two servers."""

    flow_out: int
    flow_in: int
    size: int
    latency_s: float
    receiver: Port
    arrived: Deliver
    dropped: Deliver
    arg: Any


class _Server:
    """One direction of one host's link."""

    __slots__ = (
        "_backlog",
        "_byte_s",
        "_limit_bytes",
        "_queue",
        "_sequence",
        "_tags",
        "_virtual",
        "_wheel",
        "next",
    )

    def __init__(self, wheel: Wheel, byte_s: float, limit_s: float, next_hop: Deliver) -> None:
        self._wheel = wheel
        self._byte_s = byte_s
        self._limit_bytes = limit_s / byte_s
        #: Where a message goes when its last bit is through.
        self.next = next_hop
        self._queue: list[tuple[float, int, int, _Load]] = []
        self._tags: dict[int, float] = {}
        self._backlog: dict[int, int] = {}
        self._virtual = 0.0
        self._sequence = 0

    def accept(self, flow: int, load: _Load) -> None:
        waiting = self._backlog.get(flow, 0)
        if waiting > self._limit_bytes:
            load.dropped(load.arg)
            return
        idle = not self._backlog
        self._backlog[flow] = waiting + load.size
        self._tags[flow] = tag = max(self._virtual, self._tags.get(flow, 0.0)) + load.size
        self._sequence += 1
        heappush(self._queue, (tag, self._sequence, flow, load))
        if idle:
            self._serve()

    def _serve(self) -> None:
        tag, _, flow, load = heappop(self._queue)
        self._virtual = tag
        self._wheel.call_at(self._wheel.now + load.size * self._byte_s, self._served, (flow, load), WORLD)

    def _served(self, item: tuple[int, _Load]) -> None:
        flow, load = item
        left = self._backlog[flow] - load.size
        if left > 0:
            self._backlog[flow] = left
        else:
            del self._backlog[flow]
        if self._queue:
            self._serve()
        elif not self._backlog:
            # Idle: a new busy period starts from zero, and no flow is remembered.
            self._virtual = 0.0
            self._tags.clear()
        self.next(load)


class _Link:
    __slots__ = ("into", "out")

    def __init__(self, out: _Server, into: _Server) -> None:
        self.out = out
        self.into = into


class Fair:
    def __init__(
        self, out_bps: float = CAPACITY_BPS, in_bps: float = CAPACITY_BPS, queue_s_max: float | None = None
    ) -> None:
        """`queue_s_max` bounds each flow's queue by its time alone on the link; None leaves it to the network."""
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
        if sender is receiver:
            self._wheel.call_at(self._wheel.now + latency_s, arrived, arg, WORLD)
            return
        link = sender.link or self._attach(sender)
        load = _Load(receiver.index, sender.index, size, latency_s, receiver, arrived, dropped, arg)
        link.out.accept(load.flow_out, load)

    def _attach(self, port: Port) -> _Link:
        out = _Server(self._wheel, self._out_byte_s, self._limit_s, self._left)
        into = _Server(self._wheel, self._in_byte_s, self._limit_s, _through)
        port.link = link = _Link(out, into)
        return link

    def _left(self, load: _Load) -> None:
        self._wheel.call_at(self._wheel.now + load.latency_s, self._reached, load, WORLD)

    def _reached(self, load: _Load) -> None:
        link = load.receiver.link or self._attach(load.receiver)
        link.into.accept(load.flow_in, load)


def _through(load: _Load) -> None:
    load.arrived(load.arg)
