"""Dividing an arc among the neighbours inside it (docs/decisions/0012): an arc in, disjoint parts that cover it out."""

from __future__ import annotations

from collections.abc import Iterable

from overlay.bamboo.peer import Peer
from overlay.ring import MASK, SPACE, Arc, NodeRef


def split_arc(me: int, peers: Iterable[Peer], arc: Arc) -> list[tuple[NodeRef, Arc]]:
    """Borders lie half-way between neighbours on the circle, and at this node itself, which is in no part.

    Then everybody is in the middle of its part and knows the ids around it best, which keeps the tree as
    flat as routing is. Between this node and the end of the arc nothing is handed out where no neighbour is
    inside: whoever were there would be this node's immediate neighbour, and those it knows."""
    start, width = arc.start, arc.width()
    if width == SPACE:
        # Cut the circle here rather than at an arbitrary point, so that both sides of this node are covered.
        start = me
    own = (me - start) & MASK
    within = own < width
    inside = {(peer.id - start) & MASK: peer.ref for peer in peers if not peer.suspect and peer.id != me}
    offsets = sorted(offset for offset in inside if offset < width)
    parts: list[tuple[NodeRef, Arc]] = []
    low = 0
    for index, offset in enumerate(offsets):
        last = index + 1 == len(offsets)
        high = width if last else (offset + offsets[index + 1] + 1) // 2
        if within and own < offset and own >= low:
            low = own + 1
        if within and offset < own < (width if last else offsets[index + 1]):
            high = own
        parts.append((inside[offset], Arc((start + low) & MASK, (start + high) & MASK)))
        low = high
    return parts
