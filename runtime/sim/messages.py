"""The message-level network: messages in from one node's messenger, objects out at another's (PIER 3.1.4).

What a reliable transport does over a lossy network is modelled, not run: a loss is a delay of the
retransmission timeouts that UdpCC would have waited, a peer that does not answer is a failure notice after
the time UdpCC takes to give up. One event a message, and one more where the sender asked for a notice. Every
message ends in exactly one of the counts: received, or dropped for a reason.

Whether a peer can be reached is decided when a message leaves; a partition that heals, or a host that comes
back within the give-up time does not save what was sent before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import msgspec

from runtime.api import Address, Notice
from runtime.message import Codec, Message
from runtime.sim.host import SimRuntime
from runtime.sim.links import Unlimited
from runtime.sim.retransmission import Retransmission
from runtime.sim.trace import MESSAGE_SENT, NOTICE_DUE
from runtime.sim.wheel import WORLD

if TYPE_CHECKING:
    from runtime.sim.world import World

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class MessageConfig:
    """What the modelled transport costs and waits."""

    #: A message's share of a sealed datagram: IP and UDP 28 bytes, seal and transport header 32.
    header_bytes: int = 60
    #: Payload of one datagram; larger messages pay the header once per datagram.
    payload_bytes: int = 1_200
    retransmission: Retransmission = field(default_factory=Retransmission)


class Flight(msgspec.Struct, eq=False):
    """One message under way."""

    sender: SimRuntime
    receiver: SimRuntime
    message: Message
    notice: Notice | None
    size: int
    sent_at: float


class SimMessenger:
    """One incarnation's messages."""

    __slots__ = ("_network", "_runtime")

    def __init__(self, network: MessageNetwork, runtime: SimRuntime) -> None:
        self._network = network
        self._runtime = runtime
        runtime.handlers = {}

    def on(self, kind: type[M], handler: Callable[[Address, M], None]) -> None:
        self._runtime.handlers[kind] = handler

    def send(self, to: Address, message: Message, notice: Notice | None = None) -> None:
        if self._runtime.alive:
            self._network.send(self._runtime, to, message, notice)


class MessageNetwork:
    """All messages of one world."""

    def __init__(self, world: World, codec: Codec, config: MessageConfig, serialise: bool) -> None:
        self._world = world
        self._wheel = world.wheel
        self._faults = world.faults
        self._latency_s = world.topology.latency_s
        #: None where links are unlimited: most messages of most runs, and nothing to ask.
        self._carry = None if isinstance(world.links, Unlimited) else world.links.carry
        self._hosts = world.by_address
        self._trace = world.trace
        self._codec = codec
        self._encode = codec.encode
        self._config = config
        self._header_bytes = config.header_bytes
        self._payload_bytes = config.payload_bytes
        self._serialise = serialise

    def send(self, sender: SimRuntime, to: Address, message: Message, notice: Notice | None) -> None:
        encoded = self._encode(message)
        length = len(encoded)
        packets = 1 + length // self._payload_bytes
        size = length + self._header_bytes * packets
        counters = sender.counters
        counters.messages_out += 1
        counters.bytes_out += size
        host = self._hosts.get(to)
        here = sender.index
        there = -1 if host is None else host.index
        if self._trace is not None:
            self._trace.message(MESSAGE_SENT, here, there, encoded)
        now = self._wheel.now
        if host is None or not host.alive:
            self._fail(sender, notice, "absent" if host is None else "dead", now)
            return
        faults = self._faults
        if faults.partitions.cuts and faults.partitions.blocked(here, there):
            self._fail(sender, notice, "partitioned", now)
            return
        latency_s = self._latency_s(here, there)
        wait_s = latency_s + host.lag_s
        if faults.loss.active or faults.reordering.rate > 0.0:
            delay_s = self._delay_s(here, there, packets, latency_s)
            if delay_s is None:
                self._fail(sender, notice, "lost", now)
                return
            wait_s += delay_s
        if self._serialise:
            message = self._codec.decode(encoded)
        flight = Flight(sender, host.runtime, message, notice, size, now)
        if self._carry is None:
            self._wheel.call_at(now + wait_s, self._arrived, flight, WORLD)
        else:
            self._carry(sender.host, host, size, wait_s, self._arrived, self._congested, flight)

    def _delay_s(self, sender: int, receiver: int, packets: int, latency_s: float) -> float | None:
        """What loss and reordering add; None where the transport gives up."""
        faults = self._faults
        delay_s: float | None = 0.0
        if faults.loss.active:
            losses = faults.loss.losses(sender, receiver, packets)
            delay_s = self._config.retransmission.delay_s(losses, 2.0 * latency_s)
        if delay_s is not None and faults.reordering.rate > 0.0:
            delay_s += faults.reordering.held_s()
        return delay_s

    def _arrived(self, flight: Flight) -> None:
        receiver = flight.receiver
        if self._trace is not None:
            self._trace.log(receiver.index)
        if not receiver.alive:
            self._fail(flight.sender, flight.notice, "dead", flight.sent_at)
            return
        if not receiver.awake:
            # It lies in the socket until the process goes on; the sender's patience may end before.
            self._wheel.call_at(receiver.frozen_until, self._arrived, flight, WORLD)
            return
        counters = receiver.counters
        counters.bytes_in += flight.size
        if flight.notice is not None:
            self._acknowledge(flight, flight.notice)
        message = flight.message
        handler = receiver.handlers.get(type(message))
        if handler is None:
            counters.drop("unhandled")
            return
        counters.messages_in += 1
        handler(flight.sender.address, message)

    def _congested(self, flight: Flight) -> None:
        self._fail(flight.sender, flight.notice, "congested", flight.sent_at)

    def _acknowledge(self, flight: Flight, notice: Notice) -> None:
        """The acknowledgement may meet the same faults; then the sender is told False of a message that arrived. So it
        is of one that lay at a frozen host for longer than its transport tries."""
        here, there = flight.receiver.index, flight.sender.index
        blocked = self._faults.partitions.cuts and self._faults.partitions.blocked(here, there)
        latency_s = self._latency_s(here, there)
        frozen = self._waited_too_long(flight)
        delay_s = None if blocked or frozen else self._delay_s(here, there, 1, latency_s)
        if delay_s is None:
            flight.sender.host.counters.failed += 1
            self._tell(flight.sender, notice, False, flight.sent_at + self._config.retransmission.give_up_s)
        else:
            self._tell(flight.sender, notice, True, self._wheel.now + latency_s + delay_s)

    def _waited_too_long(self, flight: Flight) -> bool:
        """Whether it arrived at a frozen host, and lay there beyond the sender's patience."""
        frozen_until = flight.receiver.frozen_until
        return (
            frozen_until == self._wheel.now
            and frozen_until - flight.sent_at > self._config.retransmission.give_up_s
        )

    def _fail(self, sender: SimRuntime, notice: Notice | None, reason: str, sent_at: float) -> None:
        sender.host.counters.failed += 1
        sender.host.counters.drop(reason)
        if notice is not None:
            self._tell(sender, notice, False, sent_at + self._config.retransmission.give_up_s)

    def _tell(self, sender: SimRuntime, notice: Notice, success: bool, at: float) -> None:
        if self._trace is not None:
            self._trace.log(NOTICE_DUE + success)
        self._wheel.call_at(max(at, self._wheel.now), notice, success, sender)
