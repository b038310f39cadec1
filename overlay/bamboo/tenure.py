"""Whether this node alone answers for its arc: only on the fresh word of both its neighbours (docs/decisions/0017).

A node that was silent for long enough is given up, and its neighbours answer for its arc. It may live: its process was
stopped, its machine suspended, its loop busy. So nobody takes the own arc for granted. What counts is a neighbour's
answer to a question of this node's, by the time at which the question left: whoever has heard this node then does not
give it up for a while (`BambooConfig.lease_s`), and a node that stood still finds all the words it has too old,
whatever lay in its socket meanwhile. Then it asks again, and what it is asked waits for that. A wall clock that went
another way than the own one says the same: a machine that was suspended may not have counted the time.

The arc is that of `View.place_arc`: a neighbour that is only silent still has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from overlay.bamboo.core import Core
from overlay.bamboo.ownership import Ownership
from overlay.bamboo.peer import Peer
from overlay.bamboo.probes import EXCHANGE, Probes
from overlay.ring import Arc

#: Who may wait for the neighbours' word at a time; beyond that nothing is certain for whoever asks.
WAITING_MAX = 4_096
#: A wall clock that differs from the own one by so much more than before has been set, or the machine stood still.
WALL_JUMP_S = 1.0

Told: TypeAlias = Callable[[Arc | None], None]


class Tenure:
    """The word of the neighbours, as old as it is."""

    __slots__ = ("_core", "_next", "_offset_s", "_ownership", "_probes", "_void_before", "_waiting")

    def __init__(self, core: Core, probes: Probes, ownership: Ownership) -> None:
        self._core = core
        self._probes = probes
        self._ownership = ownership
        self._offset_s = core.runtime.wall() - core.runtime.now()
        #: Words given for questions before this count no more.
        self._void_before = -1.0
        self._waiting: dict[int, Told] = {}
        self._next = 0
        ownership.reviewed.append(self._look_again)

    def certain(self) -> Arc | None:
        """The arc that this node alone answers for now; None where its neighbours have to be asked first."""
        ownership = self._ownership
        if not ownership.both_settled:
            return None
        now = self._core.runtime.now()
        self._compare_clocks(now)
        for peer in ownership.neighbours:
            if not self._has_agreed(peer, now):
                return None
        return ownership.place_arc

    def confirm(self, done: Told, wait_s: float) -> None:
        """Calls done with that arc as soon as it is certain; with None when it is not after so long."""
        arc = self.certain()
        if arc is not None or len(self._waiting) >= WAITING_MAX:
            self._core.runtime.call_later(0.0, done, arc)
            return
        self._next = number = self._next + 1
        self._waiting[number] = done
        self._core.runtime.call_later(wait_s, self._give_up, number)
        self._ask()

    def _give_up(self, number: int) -> None:
        done = self._waiting.pop(number, None)
        if done is not None:
            self._core.count("arc_uncertain")
            done(self.certain())

    def _look_again(self) -> None:
        if not self._waiting:
            return
        arc = self.certain()
        if arc is None:
            self._ask()
            return
        waiting, self._waiting = self._waiting, {}
        for done in waiting.values():
            done(arc)

    def _ask(self) -> None:
        """Asks the neighbours whose word is old. Who is being asked already is not asked again."""
        now = self._core.runtime.now()
        for peer in self._ownership.neighbours:
            if not self._has_agreed(peer, now):
                self._probes.begin(peer.ref, EXCHANGE)

    def _has_agreed(self, peer: Peer, now: float) -> bool:
        return now - peer.agreed_at < self._core.config.lease_s and peer.agreed_at >= self._void_before

    def _compare_clocks(self, now: float) -> None:
        offset_s = self._core.runtime.wall() - now
        if abs(offset_s - self._offset_s) > WALL_JUMP_S:
            self._void_before = now
            self._core.count("clock_jumps")
        self._offset_s = offset_s
