"""What of one arc lies outside another, or in both: which ids a change of ownership gained or lost."""

from __future__ import annotations

from collections.abc import Sequence

from overlay.ring import MASK, SPACE, Arc


def difference(arc: Arc, without: Arc | None) -> list[Arc]:
    """The at most two pieces of `arc` that are not in `without`, clockwise."""
    if without is None:
        return [arc]
    width, removed = arc.width(), without.width()
    if removed == SPACE:
        return []
    # Offsets from the start of `arc`; what reaches over the top comes back at the bottom.
    start = (without.start - arc.start) & MASK
    end = start + removed
    if end > SPACE:
        pieces = [(end - SPACE, min(start, width))]
    else:
        pieces = [(0, min(start, width)), (min(end, width), width)]
    return [
        Arc((arc.start + first) & MASK, (arc.start + last) & MASK) for first, last in pieces if first < last
    ]


def common(arc: Arc, other: Arc) -> list[Arc]:
    """The at most two pieces that are in both."""
    if other.width() == SPACE:
        return [arc]
    return difference(arc, Arc(other.end, other.start))


def without(arcs: Sequence[Arc], removed: Arc) -> list[Arc]:
    """What is left of some arcs when one is taken out."""
    return [piece for arc in arcs for piece in difference(arc, removed)]
