"""Arcs that are this node's and may lack objects: they came to it without being handed over.

A node that is given up takes what it stored with it; so does one that is started again. Its publishers put it again
with their next renewals, which may be minutes away. Until then "nothing there" is not known, and whoever reads the arc
says so. A doubt ends when those that had the arc before say that they gave all of it (`handover`), or when every
publisher of the ring has looked after its objects there (`recall`).

Where objects are made from other objects, as the entries of an index from rows, those whose maker died with them come
back only after the rows have. So a piece that publishers have looked after is unsettled until whoever makes such
objects says so (`settled`); where no node of the ring knows of any such objects, nothing is left to wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.dht.arcs import common, without
from overlay.ring import WHOLE, Arc

#: Pieces in doubt; where there are more, all of the ring is in doubt for this node.
DOUBTS_MAX = 64


class Doubts:
    """Pieces of the circle, each with a number: one that comes again is another."""

    __slots__ = ("_next", "_pieces", "_unsettled", "arose", "ended", "made")

    def __init__(self) -> None:
        self._pieces: dict[int, Arc] = {}
        self._next = 0
        #: Pieces in which nothing published is missing, but what is made from it may be.
        self._unsettled: dict[int, Arc] = {}
        #: Whether there are objects anywhere that are made from others, as far as this node knows. None: nobody at
        #: this node makes any, or would say when they are there again.
        self.made: Callable[[], bool] | None = None
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

    def knows_of_made(self) -> bool:
        return self.made is not None and self.made()

    def cleared(self, numbers: Sequence[int], nothing_made: bool = False) -> None:
        """Nothing is missing any more where these doubts were; with `nothing_made` no node of the ring knows of
        objects that are made from others."""
        if self.made is not None and not nothing_made:
            for number in numbers:
                if number in self._pieces and len(self._unsettled) < DOUBTS_MAX:
                    self._unsettled[number] = self._pieces[number]
                elif number in self._pieces:
                    self._unsettled = {number: WHOLE}
        self._replace({number: piece for number, piece in self._pieces.items() if number not in numbers})

    def unsettled(self) -> dict[int, Arc]:
        return dict(self._unsettled)

    def settled(self, numbers: Sequence[int]) -> None:
        """What is made from objects there is there, too."""
        self._unsettled = {number: each for number, each in self._unsettled.items() if number not in numbers}

    def is_settled(self, identifier: int) -> bool:
        return not any(piece.contains(identifier) for piece in self._unsettled.values())

    def keep_within(self, arc: Arc | None) -> None:
        """What this node has lost is not its concern."""
        kept = {} if arc is None else {n: each for n, each in self._pieces.items() if common(each, arc)}
        left = {n: each for n, each in self._unsettled.items() if arc is not None and common(each, arc)}
        self._unsettled = left
        self._replace(kept)

    def _replace(self, pieces: dict[int, Arc]) -> None:
        changed, self._pieces = pieces != self._pieces, pieces
        if changed:
            for handler in list(self.ended):
                handler()
