"""A simulated host and what its node sees of the world.

A `SimHost` is a place: address, counters, access link, clock. A `SimRuntime` is one life of the node there; a
crash ends it with all its timers, a restart begins another at the same address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from runtime.api import Address, DatagramHandler, Datagrams, Messenger, Stream, Timer
from runtime.message import Message
from runtime.rng import Rng
from runtime.sim.clock import TRUE_CLOCK
from runtime.sim.counters import Counters
from runtime.sim.wheel import WORLD

if TYPE_CHECKING:
    from runtime.sim.clock import Clock
    from runtime.sim.stream import SimStream
    from runtime.sim.wheel import Event
    from runtime.sim.world import World

T = TypeVar("T")
A = TypeVar("A")
#: Addresses are 10.x.y.z.
HOSTS_MAX = 1 << 24
#: The port of every node's messages and datagrams.
NODE_PORT = 7000


class SimHost:
    """`runtime` and `messenger` are replaced at each restart; the rest belongs to the place."""

    __slots__ = (
        "address",
        "alive",
        "clock",
        "compute_factor",
        "counters",
        "incarnation",
        "index",
        "lag_s",
        "link",
        "messenger",
        "retired",
        "runtime",
    )

    messenger: Messenger

    def __init__(self, world: World, index: int) -> None:
        self.index = index
        self.address = address_of(index)
        self.alive = True
        #: It crashed and will not come back.
        self.retired = False
        self.incarnation = 0
        self.counters = Counters()
        self.clock = TRUE_CLOCK
        self.compute_factor = 1.0
        self.lag_s = 0.0
        #: State of the link model.
        self.link: Any = None
        self.runtime = SimRuntime(world, self)

    def set_clock(self, clock: Clock) -> None:
        self.clock = self.runtime.clock = clock


def address_of(index: int) -> Address:
    assert index < HOSTS_MAX, f"more than HOSTS_MAX = {HOSTS_MAX} hosts"
    return f"10.{index >> 16 & 255}.{index >> 8 & 255}.{index & 255}:{NODE_PORT}"


class SimRuntime:
    """The runtime interface for one incarnation of one host; owner of its events."""

    __slots__ = (
        "_held",
        "_wheel",
        "address",
        "alive",
        "awake",
        "clock",
        "counters",
        "datagrams",
        "frozen_until",
        "handlers",
        "host",
        "index",
        "listeners",
        "stood_still_s",
        "streams",
        "waiting_datagrams",
        "world",
    )

    def __init__(self, world: World, host: SimHost) -> None:
        self.world = world
        self._wheel = world.wheel
        self.host = host
        self.index = host.index
        self.address: Address = host.address
        self.counters = host.counters
        self.alive = True
        #: Lives and is not frozen; until when it is, and what waits for it (`runtime.sim.faults.pause`).
        self.awake = True
        self.frozen_until = 0.0
        #: How long it has been frozen so far, what is left of the last time included.
        self.stood_still_s = 0.0
        self._held: list[Event] = []
        self.clock = host.clock
        #: What the node's messenger calls for each kind of message, at message level.
        self.handlers: dict[type[Message], Callable[[Address, Any], None]] = {}
        #: The handler of the open socket; listening ports; open streams by number. None until used.
        self.datagrams: DatagramHandler | None = None
        self.waiting_datagrams = 0
        self.listeners: dict[int, Callable[[Stream], None]] | None = None
        self.streams: dict[int, SimStream] | None = None

    def end(self) -> None:
        """The incarnation is over."""
        self.alive = self.awake = False
        self._held = []

    def hold(self, event: Event) -> None:
        self._held.append(event)

    def freeze(self, until: float) -> None:
        """Nothing runs before an instant of the world; then all that fell due runs at once."""
        if self.alive and until > self.frozen_until:
            self.stood_still_s += until - max(self.frozen_until, self._wheel.now)
            self.awake, self.frozen_until = False, until
            self._wheel.call_at(until, self._thaw, until, WORLD)

    def _thaw(self, until: float) -> None:
        if not self.alive or until < self.frozen_until:
            return
        self.awake = True
        held, self._held = self._held, []
        for event in held:
            if event.fn is not None:
                self._wheel.resume(event)

    def now(self) -> float:
        clock = self.clock
        return self._wheel.now * clock.rate + clock.base_s

    def wall(self) -> float:
        return self.clock.wall(self._wheel.now)

    def call_later(self, delay_s: float, fn: Callable[[T], None], arg: T) -> Timer:
        wheel = self._wheel
        delay_s = delay_s if delay_s > 0.0 else 0.0
        clock = self.clock
        at = wheel.now + delay_s if clock is TRUE_CLOCK else clock.after(wheel.now, delay_s)
        return wheel.call_at(at, fn, arg, self)

    def rng(self, label: str) -> Rng:
        return Rng.from_label(self.world.seed, f"{self.index}/{self.host.incarnation}/{label}")

    def compute(self, fn: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Runs `fn` at once; `done` waits for the time that the world's `ComputeModel` charges."""
        result, cost_s = self.world.compute.run(fn)
        at = self._wheel.now + cost_s * self.host.compute_factor
        self._wheel.call_at(at, done, result, self)

    def compute_apart(
        self,
        fn: Callable[[A], T],
        argument: A,
        time_s: float,
        memory_bytes: int,
        done: Callable[[T | Exception], None],
    ) -> None:
        """As `compute`: what a computation takes of time and memory is the business of who simulates."""
        self.compute(lambda: fn(argument), done)

    def open_datagrams(self, handler: DatagramHandler) -> Datagrams:
        return self.world.packets.open(self, handler)

    def listen(self, at: Address, accept: Callable[[Stream], None]) -> Address:
        return self.world.streams.listen(self, at, accept)

    def connect(self, to: Address, done: Callable[[Stream | str], None]) -> None:
        self.world.streams.connect(self, to, done)
