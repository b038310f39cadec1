"""What a node can answer for: its share of the ring, and whether everything that is stored there is there.

Each object is shown by the node that owns its id. Nodes learn of each other's coming and going one after the other, so
for moments two may show an object, or none. Whoever puts their answers together adds up their shares: together they are
the whole ring, exactly, when every id was answered for once. Shares are counted in 2^56 steps of the ring, between the
same borders that neighbours have in common, so that no rounding is left over.
"""

from __future__ import annotations

from typing import NamedTuple

from overlay.ring import BITS, Arc

_SHIFT = BITS - 56
#: The shares of all nodes together.
RING_STEPS = 1 << 56


class Share(NamedTuple):
    """Of one node, or of several together."""

    #: Shares of the ring, in steps.
    steps: int = 0
    #: Parts whose objects may be missing or elsewhere: on their way, or gone with their owner.
    doubts: int = 0

    def plus(self, other: Share) -> Share:
        return Share(self.steps + other.steps, self.doubts + other.doubts)

    @property
    def is_whole(self) -> bool:
        """Whether every id was answered for once, with everything that is stored under it."""
        return self.steps == RING_STEPS and self.doubts == 0


def steps_of(arc: Arc) -> int:
    if arc.start == arc.end:
        return RING_STEPS
    return ((arc.end >> _SHIFT) - (arc.start >> _SHIFT)) % RING_STEPS
