"""What the states of an epoch stand for: shares of the ring, and whether everything that is stored there was there.

Each object of a published table is shown by the node that answers for its id. Nodes learn of each other's coming and
going one after the other, so in an epoch two may have shown an object, or none. As states come together their shares
are added up: together they are the ring, exactly, when every id was answered for once. Shares are counted in 2^56
steps, between the borders that neighbours have in common, so that no rounding is left over; they cost two numbers.
"""

from __future__ import annotations

from typing import NamedTuple

from overlay.dht.standing import Standing
from overlay.ring import BITS, Arc

_SHIFT = BITS - 56
#: The shares of all nodes together.
RING_STEPS = 1 << 56


class Share(NamedTuple):
    """Of one node, or of several together."""

    #: Shares of the ring, in steps.
    steps: int = 0
    #: Nodes that were not sure of all that is stored in theirs: objects on their way, or gone with their owner.
    doubts: int = 0

    def plus(self, other: Share) -> Share:
        return Share(self.steps + other.steps, self.doubts + other.doubts)

    @property
    def is_whole(self) -> bool:
        """Whether every id was answered for once, with everything that is stored under it."""
        return self.steps == RING_STEPS and self.doubts == 0


def share_of(standing: Standing, doubts: int = 0) -> Share:
    """What one node can answer for; one that the neighbours have not agreed on answers for nothing, and says so."""
    if standing.arc is None:
        return Share(0, 1)
    return Share(_steps(standing.arc), doubts + (not standing.whole))


def _steps(arc: Arc) -> int:
    if arc.start == arc.end:
        return RING_STEPS
    return ((arc.end >> _SHIFT) - (arc.start >> _SHIFT)) % RING_STEPS
