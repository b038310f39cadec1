"""TCP streams in simulation: connections between hosts, opened, refused, lost (PIER Table 3.1).

A connection is two `SimStream`s that hand each other segments over the world's links. This module brings the
two together and tells the survivor when the other side's host is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from runtime.api import Address, Stream
from runtime.sim.host import NODE_PORT, SimHost, SimRuntime
from runtime.sim.retransmission import Retransmission
from runtime.sim.stream import SimStream
from runtime.sim.wheel import WORLD

if TYPE_CHECKING:
    from runtime.sim.world import World

#: Where ports that nobody asked for by number begin.
EPHEMERAL_PORT = 49_152
PORT_MAX = 65_535
#: Open streams of one host: what a process may have of file descriptors.
STREAMS_MAX = 1_024


class _Opening(msgspec.Struct, eq=False):
    """A connection request under way."""

    client: SimRuntime
    host: SimHost | None
    to: Address
    done: Callable[[Stream | str], None]
    started_at: float


class StreamNetwork:
    """All streams of one world."""

    def __init__(self, world: World, retransmission: Retransmission) -> None:
        self._world = world
        self._retransmission = retransmission
        self._opened = 0

    def listen(self, runtime: SimRuntime, at: Address, accept: Callable[[Stream], None]) -> Address:
        """The host part of `at` does not matter: a simulated host has one address."""
        listeners = runtime.listeners = runtime.listeners if runtime.listeners is not None else {}
        port = _port(at)
        if port == 0:
            port = EPHEMERAL_PORT + len(listeners)
            while port in listeners:
                port += 1
        if port in listeners or not 0 < port <= PORT_MAX:
            raise OSError(f"{at}: the port is in use or not a port")
        listeners[port] = accept
        return _at_port(runtime.host, port)

    def connect(self, client: SimRuntime, to: Address, done: Callable[[Stream | str], None]) -> None:
        world = self._world
        host = world.by_address.get(f"{to.rpartition(':')[0]}:{NODE_PORT}")
        opening = _Opening(client, host, to, done, world.now)
        delay_s = self._way_s(client.host, host) if host is not None else None
        if delay_s is None:
            self._timed_out(opening)
        else:
            world.wheel.call_at(world.now + delay_s, self._requested, opening, WORLD)

    def _requested(self, opening: _Opening) -> None:
        """The request is at the listening host."""
        host = opening.host
        assert host is not None
        back_s = self._way_s(host, opening.client.host)
        if not host.alive or back_s is None:
            self._timed_out(opening)
            return
        server = host.runtime
        if not server.awake:
            self._world.wheel.call_at(server.frozen_until, self._requested, opening, WORLD)
            return
        accept = (server.listeners or {}).get(_port(opening.to))
        if (
            accept is None
            or _open_streams(server) >= STREAMS_MAX
            or _open_streams(opening.client) >= STREAMS_MAX
        ):
            self._tell(opening, "connection refused", self._world.now + back_s)
            return
        self._opened += 1
        port = EPHEMERAL_PORT + self._opened % (PORT_MAX - EPHEMERAL_PORT)
        there = SimStream(
            self._world, self._retransmission, server, _at_port(opening.client.host, port), self._opened
        )
        here = SimStream(self._world, self._retransmission, opening.client, opening.to, self._opened)
        here.join(there)
        if not opening.client.alive:
            self._lose(here)
        accept(there)
        self._tell(opening, here, self._world.now + back_s)

    def crashed(self, runtime: SimRuntime) -> None:
        """The peers of a host that vanished learn of it when their keep-alives go unanswered."""
        for stream in list((runtime.streams or {}).values()):
            self._lose(stream)
        runtime.streams = None

    def _lose(self, stream: SimStream) -> None:
        at = self._world.now + self._retransmission.give_up_s
        self._world.wheel.call_at(at, stream.remote.lost, "peer lost", stream.remote.runtime)

    def _way_s(self, here: SimHost, there: SimHost) -> float | None:
        """How long a small segment takes, retransmissions included; None: it does not get through."""
        faults = self._world.faults
        if faults.partitions.cuts and faults.partitions.blocked(here.index, there.index):
            return None
        latency_s = self._world.topology.latency_s(here.index, there.index)
        losses = faults.loss.losses(here.index, there.index, 1) if faults.loss.active else 0
        delay_s = self._retransmission.delay_s(losses, 2.0 * latency_s)
        return None if delay_s is None else latency_s + delay_s + there.lag_s

    def _timed_out(self, opening: _Opening) -> None:
        self._tell(opening, "connection timed out", opening.started_at + self._retransmission.give_up_s)

    def _tell(self, opening: _Opening, result: Stream | str, at: float) -> None:
        wheel = self._world.wheel
        wheel.call_at(max(at, wheel.now), opening.done, result, opening.client)


def _open_streams(runtime: SimRuntime) -> int:
    return len(runtime.streams) if runtime.streams is not None else 0


def _port(address: Address) -> int:
    text = address.rpartition(":")[2]
    return int(text) if text.isdecimal() else -1


def _at_port(host: SimHost, port: int) -> Address:
    return f"{host.address.rpartition(':')[0]}:{port}"
