"""How a node came by its arc: of which parts it is known that everything stored there came along.

A node that joins is given its arc by those that owned it, and a node that leaves gives its own to its heirs; both say
so when that was all. What falls to a node in any other way, because the owner died or was taken for dead, came without
its objects: copies may have made up for them, and publishers bring the rest with their next renewals, but until then
"nothing there" and "that is all" are guesses. Whoever reads asks here how fresh such a part is.

Invariant: what of the own arc is not doubtful is whole. Doubts of parts that were lost are kept for a moment, since the
new owner asks, and what it was told late counts, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from overlay.dht.arcs import common, difference
from overlay.ring import Arc

#: Doubtful parts that are told apart; beyond it the whole arc is in doubt.
PARTS_MAX = 64
#: How long it is remembered what was given to this node, or owned by it before: the ring settles in less.
GIVEN_S = 30.0
LOST_S = 5.0
#: After this no object can be missing: those that live longest have been renewed twice.
DOUBT_S = 3_600.0


@dataclass(frozen=True, slots=True)
class Part:
    """Ids, and since when this holds of them."""

    arc: Arc
    since_s: float


def _without(parts: Iterable[Part], arc: Arc) -> list[Part]:
    return [Part(piece, part.since_s) for part in parts for piece in difference(part.arc, arc)]


class Provenance:
    """The parts of the own arc that came without their objects."""

    __slots__ = ("_arc", "_doubtful", "_given", "_lost", "_now")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._arc: Arc | None = None
        self._doubtful: list[Part] = []
        #: What others gave whole, which may come before the ring gives it; what was this node's and is another's now.
        self._given: list[Part] = []
        self._lost: list[Part] = []

    def changed(self, old: Arc | None, new: Arc | None, alone: bool) -> None:
        """The arc is another. A node that begins alone begins a ring: nothing can have been there before."""
        now = self._now()
        self._arc = new
        if new is None:
            self._doubtful, self._lost = [], []
            return
        self._lost = _without(self._recent(self._lost, LOST_S), new)
        if old is not None:
            self._lost += [Part(piece, now) for piece in difference(old, new)]
        known = [new, *(each.arc for each in self._lost)]
        self._doubtful = [
            Part(piece, part.since_s)
            for part in self._recent(self._doubtful, DOUBT_S)
            for arc in known
            for piece in common(part.arc, arc)
        ]
        if not (alone and old is None):
            self._doubtful += [Part(piece, now) for piece in difference(new, old)]
            for each in self._recent(self._given, GIVEN_S):
                self._doubtful = _without(self._doubtful, each.arc)
        if len(self._doubtful) > PARTS_MAX:
            self._doubtful = [Part(new, now)]
        del self._lost[:-PARTS_MAX]

    def given(self, arcs: Iterable[Arc]) -> None:
        """Their owner has sent everything that it held of these."""
        now = self._now()
        self._given = self._recent(self._given, GIVEN_S)
        for arc in arcs:
            self._doubtful = _without(self._doubtful, arc)
            self._given.append(Part(arc, now))
        del self._given[:-PARTS_MAX]

    def whole_in(self, arc: Arc) -> list[Arc]:
        """What of an arc this node owns, or owned until a moment ago, with all its objects."""
        own = [] if self._arc is None else common(arc, self._arc)
        lost = [piece for part in self._recent(self._lost, LOST_S) for piece in common(arc, part.arc)]
        return self._sure_of(own + lost)

    def is_doubtful(self, arc: Arc) -> bool:
        return any(common(part.arc, arc) for part in self._doubtful)

    def doubts(self, within_s: float) -> int:
        """Parts that came without their objects within so many seconds."""
        own = self._arc
        return sum(
            1 for part in self._recent(self._doubtful, within_s) if own is not None and common(part.arc, own)
        )

    def doubtful_s(self, identifier: int) -> float | None:
        """How long ago the part in which an id lies came without its objects; None where it is whole."""
        found = [part.since_s for part in self._doubtful if part.arc.contains(identifier)]
        return self._now() - max(found) if found else None

    def _sure_of(self, pieces: list[Arc]) -> list[Arc]:
        for part in self._doubtful:
            pieces = [rest for piece in pieces for rest in difference(piece, part.arc)]
        return pieces

    def _recent(self, parts: list[Part], within_s: float) -> list[Part]:
        now = self._now()
        return [each for each in parts if now - each.since_s < within_s]
