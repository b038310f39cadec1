"""The simulated world: hosts, the network between them, and time.

Everything that happens in it follows from the seed, the arguments, and what the caller does between events.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

from runtime.api import Address, Messenger, Timer
from runtime.message import Codec
from runtime.rng import Rng
from runtime.sim.compute import ComputeModel
from runtime.sim.counters import Statistics, snapshot
from runtime.sim.faults.network import Faults
from runtime.sim.host import SimHost, SimRuntime
from runtime.sim.links import Links, Unlimited
from runtime.sim.messages import MessageConfig, MessageNetwork, SimMessenger
from runtime.sim.packets import PacketNetwork
from runtime.sim.pages import HugePages
from runtime.sim.streams import StreamNetwork
from runtime.sim.topology import Topology
from runtime.sim.trace import HOST_ADDED, HOST_CRASHED, HOST_RESTARTED, Trace
from runtime.sim.wheel import PENDING_MAX, WORLD, Wheel

T = TypeVar("T")
#: Builds a host's messenger; without one the message-level network carries the objects.
MessengerFactory: TypeAlias = Callable[[SimRuntime, Codec], Messenger]
#: The longest queue on a link, as time to empty it. Packet level: a router's buffer, 64 kB at 1.5 Mbps. Message
#: level: the sender's transport holds its messages back and loses none, so the bound only ends runaways.
PACKET_QUEUE_S_MAX = 0.35
MESSAGE_QUEUE_S_MAX = 300.0
#: Allocations between collections of each generation while settled: events come and go by the million without
#: forming cycles, so the young are rarely worth a look.
SETTLED_THRESHOLDS = (100_000, 20, 20)
#: Simulated seconds of a settled run after which a growing world's memory is looked at again.
LOOK_AGAIN_S = 2.0


class World:
    """One simulation. `links=None` is no congestion; `messenger` makes it a packet-level simulation."""

    def __init__(
        self,
        *,
        seed: int,
        topology: Topology,
        codec: Codec,
        links: Links | None = None,
        serialise: bool = False,
        trace: bool = True,
        messenger: MessengerFactory | None = None,
        messages: MessageConfig | None = None,
        compute: ComputeModel | None = None,
        pending_max: int = PENDING_MAX,
    ) -> None:
        self.seed = seed
        self.topology = topology
        self.trace = Trace() if trace else None
        self.wheel = Wheel(self.trace, pending_max)
        self.links: Links = links if links is not None else Unlimited()
        self.links.attach(self.wheel, MESSAGE_QUEUE_S_MAX if messenger is None else PACKET_QUEUE_S_MAX)
        self.faults = Faults(seed)
        self.compute = compute or ComputeModel()
        #: Every host there ever was, by index.
        self.hosts: list[SimHost] = []
        self.by_address: dict[Address, SimHost] = {}
        self.packets = PacketNetwork(self)
        config = messages or MessageConfig()
        self.streams = StreamNetwork(self, config.retransmission)
        self._codec = codec
        self._messages = MessageNetwork(self, codec, config, serialise)
        self._messenger: MessengerFactory = messenger or self._message_level
        #: While settled.
        self._pages: HugePages | None = None

    @property
    def now(self) -> float:
        return self.wheel.now

    def rng(self, label: str) -> Rng:
        """A stream of the world's own, for workloads and faults."""
        return Rng.from_label(self.seed, f"world/{label}")

    def add_host(self) -> SimHost:
        host = SimHost(self, len(self.hosts))
        self.hosts.append(host)
        self.by_address[host.address] = host
        self._record(HOST_ADDED, host)
        host.messenger = self._messenger(host.runtime, self._codec)
        return host

    def crash(self, host: SimHost) -> None:
        """Ends the host's incarnation: its timers, its streams and what is under way to it die."""
        if host.alive:
            self._record(HOST_CRASHED, host)
            host.alive = False
            host.runtime.end()
            self.streams.crashed(host.runtime)

    def retire(self, host: SimHost) -> None:
        """Crashes a host that will not come back, and lets go of its node."""
        self.crash(host)
        host.retired = True
        host.runtime.datagrams = host.runtime.listeners = host.link = None
        host.messenger = SimMessenger(self._messages, host.runtime)

    def restart(self, host: SimHost) -> SimHost:
        """A new incarnation at the same address; the caller builds its node again."""
        if host.retired:
            raise ValueError(f"{host.address} is retired")
        self.crash(host)
        self._record(HOST_RESTARTED, host)
        host.incarnation += 1
        host.alive = True
        host.runtime = SimRuntime(self, host)
        host.messenger = self._messenger(host.runtime, self._codec)
        return host

    def call_at(self, at_s: float, fn: Callable[[T], None], arg: T) -> Timer:
        """A call that belongs to no host."""
        return self.wheel.call_at(max(at_s, self.wheel.now), fn, arg, WORLD)

    def run_until(self, until_s: float) -> None:
        wheel, pages = self.wheel, self._pages
        while pages is not None and wheel.now < until_s:
            pages.gather()
            wheel.run_until(min(wheel.now + LOOK_AGAIN_S, until_s))
        wheel.run_until(until_s)

    def run_for(self, duration_s: float) -> None:
        self.run_until(self.wheel.now + duration_s)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Takes what exists out of the garbage collector's sight for the block, and has it look at what is new
        less often: a quarter faster for large worlds, whose nodes live as long as the run; and asks for huge pages.
        It concerns the whole process: one world at a time."""
        thresholds = gc.get_threshold()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*SETTLED_THRESHOLDS)
        self._pages = HugePages()
        try:
            yield
        finally:
            self._pages = None
            gc.set_threshold(*thresholds)
            gc.unfreeze()

    def trace_hash(self) -> str:
        """A hash of every event so far: equal hashes, equal runs."""
        if self.trace is None:
            raise ValueError("the world was made with trace=False")
        return self.trace.hexdigest()

    def statistics(self, host: SimHost | None = None) -> Statistics:
        """Of one host, or of all together."""
        return snapshot([host.counters] if host is not None else [each.counters for each in self.hosts])

    def _record(self, kind: int, host: SimHost) -> None:
        if self.trace is not None:
            self.trace.host(kind, host.index, self.wheel.now)

    def _message_level(self, runtime: SimRuntime, codec: Codec) -> Messenger:
        return SimMessenger(self._messages, runtime)
