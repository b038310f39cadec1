"""Arcs that are this node's and may lack objects: they came to it without being handed over.

A node that is given up takes what it stored with it; so does one that is started again. Its publishers put it again
with their next renewals, which may be minutes away. Until then "nothing there" is not known, and whoever reads the arc
says so. A doubt ends when those that had the arc before say that they gave all of it (`handover`), or when every
publisher of the ring has looked after its objects there (`recall`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.dht.arcs import common, without
from overlay.ring import WHOLE, Arc

#: Pieces in doubt; where there are more, all of the ring is in doubt for this node.
DOUBTS_MAX = 64


class Doubts:
    """Pieces of the circle, each with a number: one that comes again is another."""

    __slots__ = ("_next", "_pieces", "arose", "ended")

    def __init__(self) -> None:
        self._pieces: dict[int, Arc] = {}
        self._next = 0
        #: Called when there is a new doubt, and whenever one has ended.
        self.arose: list[Callable[[], None]] = []
        self.ended: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, arc: Arc) -> None:
        if len(self._pieces) >= DOUBTS_MAX:
            self._pieces.clear()
            arc = WHOLE
        self._next += 1
        self._pieces[self._next] = arc
        for handler in self.arose:
            handler()

    def pieces(self) -> dict[int, Arc]:
        return dict(self._pieces)

    def touch(self, arc: Arc) -> bool:
        """Whether part of an arc is in doubt."""
        return any(common(piece, arc) for piece in self._pieces.values())

    def contain(self, identifier: int) -> bool:
        return any(piece.contains(identifier) for piece in self._pieces.values())

    def vouched(self, arcs: Sequence[Arc]) -> None:
        """Others have given all there is in some arcs."""
        left: dict[int, Arc] = {}
        for number, piece in self._pieces.items():
            rest = [piece]
            for arc in arcs:
                rest = without(rest, arc)
            for part in rest:
                # What is unchanged is the same doubt.
                if part != piece:
                    self._next += 1
                left[number if part == piece else self._next] = part
        self._replace(left)

    def cleared(self, numbers: Sequence[int]) -> None:
        """Nothing is missing any more where these doubts were."""
        self._replace({number: piece for number, piece in self._pieces.items() if number not in numbers})

    def keep_within(self, arc: Arc | None) -> None:
        """What this node has lost is not its concern."""
        kept = {} if arc is None else {n: each for n, each in self._pieces.items() if common(each, arc)}
        self._replace(kept)

    def _replace(self, pieces: dict[int, Arc]) -> None:
        changed, self._pieces = pieces != self._pieces, pieces
        if changed:
            for handler in list(self.ended):
                handler()
