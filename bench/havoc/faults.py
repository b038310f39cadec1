"""What happens to the machines: one thing at a time, drawn from a seed, each undone after a while."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import trio

from bench.havoc.hosts import Machines
from tests.docker.namespaces import Namespaces

#: A pause shorter than this nobody notices; longer ones are deaths to everybody.
PAUSE_LEAST_S, PAUSE_MOST_S = 2.0, 30.0
#: How long a host is away, a pair is cut, a clone lives.
AWAY_LEAST_S, AWAY_MOST_S = 1.0, 20.0
#: Peace between two faults: some follow each other at once, some find a ring at rest.
PEACE_MOST_S = 15.0
CLONE = "n31"
#: A host that was told to leave and starts again joins and is known within this.
HEARD_S = 30.0


@dataclass(slots=True)
class Faults:
    """Draws faults and makes them. `up` are the hosts that can be asked just now."""

    machines: Machines
    #: The same machines where two of them can be cut from each other.
    cuts: Namespaces | None
    names: list[str]
    #: The host that published the tables.
    publisher: str
    rng: random.Random
    say: Callable[[str], None]
    #: Tells the ring that a host's former self does not come back; called with the host that was wiped.
    retire: Callable[[str], Awaitable[None]]
    longest_s: float = PAUSE_MOST_S
    #: Only these of the menu; all when there are none.
    only: tuple[str, ...] = ()
    up: set[str] = field(default_factory=set)
    #: Hosts that left in good order, until everybody should have heard that they are back; with when that is.
    left: dict[str, float] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)

    async def run(self) -> None:
        menu: dict[str, Callable[[], Awaitable[None]]] = {
            "pause": self.pause,
            "kill": self.kill,
            "leave": self.leave,
            "wipe": self.wipe,
            "clone": self.clone,
        }
        cuts = self.cuts
        if cuts is not None:
            menu["cut_pair"] = partial(self.cut_pair, cuts)
        drawn = [name for name in ("pause", *menu) if not self.only or name in self.only]
        while True:
            await menu[self.rng.choice(drawn)]()
            await trio.sleep(self.rng.uniform(0.0, min(PEACE_MOST_S, self.longest_s)))

    def _draw_s(self, least_s: float, most_s: float) -> float:
        """Short ones as often as long ones."""
        most_s = min(most_s, self.longest_s)
        return float(least_s * (max(1.0, most_s / least_s)) ** self.rng.random())

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    def _victim(self, spared: str = "") -> str:
        return self.rng.choice(sorted(self.up - {spared}))

    async def pause(self) -> None:
        name, wait_s = self._victim(), self._draw_s(PAUSE_LEAST_S, PAUSE_MOST_S)
        self._count("pause")
        self.say(f"{name} is paused for {wait_s:.1f} s")
        self.up.discard(name)
        await self.machines.pause(name)
        try:
            await trio.sleep(wait_s)
        finally:
            with trio.CancelScope(shield=True):
                await self.machines.resume(name)
        self.say(f"{name} goes on")
        self.up.add(name)

    async def kill(self) -> None:
        await self._away("is killed", self.machines.kill)

    async def leave(self) -> None:
        async def go(name: str) -> None:
            self.left[name] = math.inf
            await self.machines.leave(name)

        name = await self._away("leaves", go)
        self.left[name] = trio.current_time() + HEARD_S

    def unexpected(self) -> set[str]:
        """Hosts whose rows nobody misses just now."""
        return {name for name, until_s in self.left.items() if trio.current_time() < until_s}

    async def wipe(self) -> None:
        async def kill_and_wipe(name: str) -> None:
            await self.machines.kill(name)
            self.machines.wipe(name)

        # What a host has published goes with its disk: that is nobody's fault.
        name = await self._away("is wiped", kill_and_wipe, spared=self.publisher)
        await self.retire(name)

    async def _away(self, what: str, go: Callable[[str], Awaitable[None]], spared: str = "") -> str:
        name, wait_s = self._victim(spared), self._draw_s(AWAY_LEAST_S, AWAY_MOST_S)
        self._count(what)
        self.say(f"{name} {what}, and starts again after {wait_s:.1f} s")
        self.up.discard(name)
        await go(name)
        await trio.sleep(wait_s)
        await self.machines.start(name)
        self.say(f"{name} starts")
        self.up.add(name)
        return name

    async def clone(self) -> None:
        name, wait_s = self._victim(), self._draw_s(AWAY_LEAST_S, AWAY_MOST_S)
        self._count("clone")
        self.say(f"{name} is cloned for {wait_s:.1f} s")
        await self.machines.clone(name, CLONE)
        await trio.sleep(wait_s)
        if self.machines.runs(CLONE):
            await self.machines.kill(CLONE)
        if not self.machines.runs(name):
            self.say(f"{name} was put out instead of its clone: starts")
            await self.machines.start(name)
        self.say("the clone is gone")

    async def cut_pair(self, cuts: Namespaces) -> None:
        self._count("cut pair")
        one, other = self.rng.sample(self.names, 2)
        wait_s = self._draw_s(AWAY_LEAST_S, AWAY_MOST_S)
        self.say(f"{one} and {other} cannot reach each other for {wait_s:.1f} s")
        await cuts.cut_pair(one, other)
        try:
            await trio.sleep(wait_s)
        finally:
            with trio.CancelScope(shield=True):
                await cuts.mend_pair(one, other)
        self.say(f"{one} and {other} can")
