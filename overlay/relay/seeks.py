"""Searches for somebody who reaches a peer: who was asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.api import Address
from runtime.rng import Rng

#: Peers looked for at once; beyond, nobody is asked.
SEEKS_MAX = 256
#: A search ends after so long; the next may then begin with others.
SEEK_S = 10.0
#: Neighbours asked at each silence, and in one search.
ASKED_EACH = 2
ASKED_MAX = 4


@dataclass(slots=True, eq=False)
class Seek:
    to: Address
    token: int
    since: float
    asked: list[Address] = field(default_factory=list)

    def choose(self, rng: Rng, helpers: Sequence[Address]) -> list[Address]:
        """Whom to ask next."""
        room = min(ASKED_EACH, ASKED_MAX - len(self.asked))
        fresh = [each for each in helpers if each not in self.asked and each != self.to]
        chosen = fresh if len(fresh) <= room else rng.sample(fresh, room)
        self.asked += chosen
        return chosen


class Seeks:
    __slots__ = ("_by_target", "_rng", "_token")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._token = rng.getrandbits(48)
        #: Oldest first.
        self._by_target: dict[Address, Seek] = {}

    def __len__(self) -> int:
        return len(self._by_target)

    def of(self, to: Address, now: float) -> Seek | None:
        """The search for a peer, begun if there is none; None when there are too many."""
        while self._by_target and now - next(iter(self._by_target.values())).since >= SEEK_S:
            del self._by_target[next(iter(self._by_target))]
        seek = self._by_target.get(to)
        if seek is None and len(self._by_target) < SEEKS_MAX:
            self._token += 1
            seek = self._by_target[to] = Seek(to, self._token, now)
        return seek

    def found(self, token: int, helper: Address) -> Seek | None:
        """Ends the search that somebody answers who was asked."""
        for seek in self._by_target.values():
            if seek.token == token and helper in seek.asked:
                del self._by_target[seek.to]
                return seek
        return None

    def end(self, to: Address) -> None:
        self._by_target.pop(to, None)
