"""One end of a simulated TCP connection: bytes in by `write`, out in order at the other end's handler.

Segments are whole writes: they take the link's time, the latency, and the timeouts of their losses, and wait at
the receiver for those before them. A segment is acknowledged when its reader has taken it, so a reader that
pauses fills the writer's buffer up to the high-water mark. The last call to a handler is `closed`, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import msgspec

from runtime.api import Address, StreamHandler
from runtime.sim.host import SimRuntime
from runtime.sim.retransmission import Retransmission
from runtime.sim.trace import SEGMENT_SENT
from runtime.sim.wheel import WORLD

if TYPE_CHECKING:
    from runtime.sim.world import World

T = TypeVar("T")
#: `write` returns False above the one, `drained` is called below the other.
HIGH_WATER_BYTES = 262_144
LOW_WATER_BYTES = 65_536
#: A writer that goes on regardless is cut off here.
BUFFER_BYTES_MAX = 64 << 20
#: IP and TCP headers, and the payload of one packet.
HEADER_BYTES = 40
PAYLOAD_BYTES = 1_460


class _Segment(msgspec.Struct, eq=False):
    """A write, or with `data` None the end of the stream."""

    stream: SimStream
    sequence: int
    data: bytes | None
    first_sent_at: float


class SimStream:
    __slots__ = (
        "_above_high",
        "_buffered",
        "_closing",
        "_early",
        "_expected",
        "_handler",
        "_inbox",
        "_number",
        "_paused",
        "_reason",
        "_retransmission",
        "_sequence",
        "_told",
        "_world",
        "peer",
        "remote",
        "runtime",
    )

    remote: SimStream

    def __init__(
        self, world: World, retransmission: Retransmission, runtime: SimRuntime, peer: Address, number: int
    ) -> None:
        self._world = world
        self._retransmission = retransmission
        self.runtime = runtime
        self.peer = peer
        self._number = number * 2
        self._handler: StreamHandler | None = None
        #: Out: bytes not yet acknowledged, the next segment's number, whether `close` was called.
        self._buffered = 0
        self._sequence = 0
        self._above_high = False
        self._closing = False
        #: In: segments that overtook others, and those in order that the handler has not seen. Both are bounded
        #: by the other side's buffer.
        self._early: dict[int, _Segment] = {}
        self._expected = 0
        self._inbox: list[_Segment] = []
        self._paused = False
        #: Why the stream is over; None while it is not.
        self._reason: str | None = None
        self._told = False

    def join(self, other: SimStream) -> None:
        """Makes two ends one connection."""
        self.remote, other.remote = other, self
        other._number += 1
        for end in (self, other):
            if end.runtime.alive:
                streams = end.runtime.streams = end.runtime.streams if end.runtime.streams is not None else {}
                streams[end._number] = end

    def handle(self, handler: StreamHandler) -> None:
        self._handler = handler
        self._later(0.0, SimStream._read, self)

    def write(self, data: bytes) -> bool:
        if self._closing or self._reason is not None:
            return False
        self._buffered += len(data)
        if self._buffered > BUFFER_BYTES_MAX:
            self._abort(f"write buffer over BUFFER_BYTES_MAX = {BUFFER_BYTES_MAX}")
            return False
        self._send(bytes(data))
        self._above_high = self._above_high or self._buffered > HIGH_WATER_BYTES
        return not self._above_high

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._later(0.0, SimStream._read, self)

    def close(self) -> None:
        """Ends the stream behind what was written; `closed` comes when the other side has it all."""
        if not self._closing and self._reason is None:
            self._closing = True
            self._send(None)

    def lost(self, reason: str) -> None:
        """The stream is over, now. Also called by the network when the other host has vanished."""
        if self._reason is not None:
            return
        self._reason = reason
        self._early.clear()
        if self.runtime.streams is not None:
            self.runtime.streams.pop(self._number, None)
        self._tell_closed(reason)

    def _tell_closed(self, reason: str) -> None:
        if self._handler is not None and not self._told:
            self._told = True
            self._handler.closed(reason)

    def _abort(self, reason: str) -> None:
        """Ends both ends without regard to what is under way."""
        self._answer(self.remote.lost, "connection reset")
        self._later(0.0, self.lost, reason)

    def _later(self, delay_s: float, fn: Callable[[T], None], arg: T) -> None:
        """In the world's time: networks do not follow a host's clock."""
        self._world.wheel.call_at(self._world.now + delay_s, fn, arg, self.runtime)

    def _answer(self, fn: Callable[[T], None], arg: T) -> None:
        """Runs at the other end, one latency from now."""
        remote = self.remote
        remote._later(self._world.topology.latency_s(self.runtime.index, remote.runtime.index), fn, arg)

    # Out.

    def _send(self, data: bytes | None) -> None:
        segment = _Segment(self, self._sequence, data, self._world.now)
        self._sequence += 1
        if self._world.trace is not None:
            self._world.trace.message(
                SEGMENT_SENT, self.runtime.index, self.remote.runtime.index, data or b""
            )
        self._transmit(segment)

    def _transmit(self, segment: _Segment) -> None:
        if self._reason is not None:
            return
        here, there = self.runtime.host, self.remote.runtime.host
        length = len(segment.data or b"")
        packets = 1 + length // PAYLOAD_BYTES
        size = length + HEADER_BYTES * packets
        here.counters.messages_out += 1
        here.counters.bytes_out += size
        faults = self._world.faults
        latency_s = self._world.topology.latency_s(here.index, there.index)
        losses = faults.loss.losses(here.index, there.index, packets) if faults.loss.active else 0
        delay_s = self._retransmission.delay_s(losses, 2.0 * latency_s)
        blocked = faults.partitions.cuts and faults.partitions.blocked(here.index, there.index)
        if blocked or delay_s is None:
            here.counters.drop("partitioned" if blocked else "lost")
            self._retry(segment)
        else:
            latency_s += delay_s + there.lag_s
            self._world.links.carry(here, there, size, latency_s, _arrived, _congested, segment)

    def _retry(self, segment: _Segment) -> None:
        """Sends again after a timeout, until it is too late."""
        if self._world.now - segment.first_sent_at >= self._retransmission.give_up_s:
            self._later(0.0, self.lost, "connection timed out")
        else:
            self._later(self._retransmission.timeout_s_min, self._transmit, segment)

    def _acknowledged(self, length: int) -> None:
        if self._reason is not None:
            return
        self._buffered -= length
        if self._above_high and self._buffered <= LOW_WATER_BYTES:
            self._above_high = False
            if self._handler is not None and not self._closing:
                self._handler.drained()

    # In.

    def _take(self, segment: _Segment) -> None:
        if self._reason is not None or segment.sequence < self._expected:
            return
        self._early[segment.sequence] = segment
        while (ready := self._early.pop(self._expected, None)) is not None:
            self._expected += 1
            self._inbox.append(ready)
        self._read()

    def _read(self) -> None:
        """Hands over what is in order, unless nobody listens."""
        if self._handler is None:
            return
        if self._reason is not None:
            self._tell_closed(self._reason)
            return
        while self._inbox and not self._paused and self._reason is None:
            segment = self._inbox.pop(0)
            if segment.data is None:
                self._ended()
                return
            self._answer(self.remote._acknowledged, len(segment.data))
            if self._closing:
                self.runtime.host.counters.drop("closed")
            else:
                self._handler.received(segment.data)

    def _ended(self) -> None:
        """The other side closed; so does this one."""
        self._answer(self.remote.lost, "")
        self.lost("")


def _arrived(segment: _Segment) -> None:
    receiver = segment.stream.remote
    runtime = receiver.runtime
    if not runtime.alive:
        runtime.host.counters.drop("dead")
        segment.stream._retry(segment)
        return
    if not runtime.awake:
        wheel = segment.stream._world.wheel
        wheel.call_at(runtime.frozen_until, _arrived, segment, WORLD)
        return
    length = len(segment.data or b"")
    runtime.host.counters.messages_in += 1
    runtime.host.counters.bytes_in += length + HEADER_BYTES * (1 + length // PAYLOAD_BYTES)
    receiver._take(segment)


def _congested(segment: _Segment) -> None:
    segment.stream.runtime.host.counters.drop("congested")
    segment.stream._retry(segment)
