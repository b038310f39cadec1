"""The packet-level network: datagrams in from one socket, out at another, or not, or twice, or late.

What rides on it is the shipped transport, so congestion control, retransmission and sealing are the real ones
(docs/decisions/0006). A datagram reaches whoever holds the address when it arrives, also after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from runtime.api import Address, DatagramHandler
from runtime.sim.host import SimHost, SimRuntime
from runtime.sim.trace import DATAGRAM_SENT
from runtime.sim.wheel import WORLD

if TYPE_CHECKING:
    from runtime.sim.world import World

#: IP and UDP headers.
HEADER_BYTES = 28
#: Datagrams that wait in the socket of a frozen host; what comes then is lost.
SOCKET_DATAGRAMS_MAX = 1_024
#: The largest UDP payload over IPv4.
PAYLOAD_BYTES_MAX = 65_507


class _Packet(msgspec.Struct, eq=False):
    sender: SimHost
    receiver: SimHost
    data: bytes


class SimDatagrams:
    """One incarnation's socket."""

    __slots__ = ("_network", "_runtime")

    def __init__(self, network: PacketNetwork, runtime: SimRuntime) -> None:
        self._network = network
        self._runtime = runtime

    def send_many(self, to: Address, datagrams: Sequence[bytes]) -> None:
        if self._runtime.alive and self._runtime.datagrams is not None:
            for data in datagrams:
                self._network.send(self._runtime.host, to, data)

    def close(self) -> None:
        self._runtime.datagrams = None


class PacketNetwork:
    """All datagrams of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._faults = world.faults
        self._trace = world.trace

    def open(self, runtime: SimRuntime, handler: DatagramHandler) -> SimDatagrams:
        if runtime.datagrams is not None:
            raise OSError(f"{runtime.address} is in use: a node has one socket")
        runtime.datagrams = handler
        return SimDatagrams(self, runtime)

    def send(self, sender: SimHost, to: Address, data: bytes) -> None:
        counters = sender.counters
        counters.messages_out += 1
        counters.bytes_out += len(data) + HEADER_BYTES
        receiver = self._world.by_address.get(to)
        if self._trace is not None:
            self._trace.message(
                DATAGRAM_SENT, sender.index, receiver.index if receiver is not None else -1, data
            )
        faults = self._faults
        if len(data) > PAYLOAD_BYTES_MAX:
            counters.drop("oversize")
        elif receiver is None:
            counters.drop("absent")
        elif faults.partitions.cuts and faults.partitions.blocked(sender.index, receiver.index):
            counters.drop("partitioned")
        elif faults.loss.active and faults.loss.lost(sender.index, receiver.index):
            counters.drop("lost")
        else:
            self._carry(_Packet(sender, receiver, data), faults.reordering.held_s())
            trail_s = faults.duplication.trail_s()
            if trail_s is not None:
                self._carry(_Packet(sender, receiver, data), trail_s)

    def _carry(self, packet: _Packet, delay_s: float) -> None:
        world = self._world
        sender, receiver = packet.sender, packet.receiver
        latency_s = world.topology.latency_s(sender.index, receiver.index) + delay_s + receiver.lag_s
        size = len(packet.data) + HEADER_BYTES
        world.links.carry(sender, receiver, size, latency_s, self._arrived, _congested, packet)

    def _arrived(self, packet: _Packet) -> None:
        receiver = packet.receiver
        if self._trace is not None:
            self._trace.log(receiver.index)
        runtime = receiver.runtime
        if receiver.alive and not runtime.awake:
            if runtime.waiting_datagrams >= SOCKET_DATAGRAMS_MAX:
                packet.sender.counters.drop("overrun")
                return
            runtime.waiting_datagrams += 1
            self._world.wheel.call_at(runtime.frozen_until, self._read_late, (runtime, packet), WORLD)
            return
        handler = runtime.datagrams if receiver.alive else None
        if handler is None:
            packet.sender.counters.drop("unbound" if receiver.alive else "dead")
            return
        receiver.counters.messages_in += 1
        receiver.counters.bytes_in += len(packet.data) + HEADER_BYTES
        handler([(packet.sender.address, packet.data)])

    def _read_late(self, waiting: tuple[SimRuntime, _Packet]) -> None:
        """A host that was frozen reads what lay in its socket."""
        runtime, packet = waiting
        runtime.waiting_datagrams -= 1
        self._arrived(packet)


def _congested(packet: _Packet) -> None:
    packet.sender.counters.drop("congested")
