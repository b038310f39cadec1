"""What the states of an epoch stand for: shares of the ring, one for every id of it, or the epoch says what is wrong.

Each object of a published table is shown by the node that answers for its id. Nodes learn of each other's coming and
going one after the other, so in an epoch two may have shown an object, or none. As states come together their shares
are added up: together they are the ring, exactly, when every id was answered for once. Shares are counted in 2^56
steps, between the borders that neighbours have in common, so that no rounding is left over; they cost one number.
"""

from __future__ import annotations

from typing import NamedTuple

from overlay.dht.standing import Standing
from overlay.ring import BITS, Arc
from query.causes import Cause, WireCauses

_SHIFT = BITS - 56
#: The shares of all nodes together.
RING_STEPS = 1 << 56
#: More than two rings are as wrong as two.
STEPS_MAX = 2 * RING_STEPS


class Share(NamedTuple):
    """Of one node."""

    steps: int = 0
    #: Parts in which objects may be missing: on their way, gone with their owner, or of an age that is not known well.
    doubts: int = 0


#: Of states that do not come from published tables.
NOTHING = Share()


def share_of(standing: Standing, doubts: int = 0) -> Share:
    """What one node can answer for; one that the neighbours have not agreed on answers for nothing, and says so."""
    if standing.arc is None:
        return Share(0, 1)
    return Share(_steps(standing.arc), doubts + (not standing.whole))


def lacking(steps: int) -> WireCauses:
    """What is wrong with an epoch whose nodes answered for so much; with none of it, no published table is asked."""
    if steps in (0, RING_STEPS):
        return {}
    return {(Cause.UNOWNED if steps < RING_STEPS else Cause.DOUBLED).number: 1}


def _steps(arc: Arc) -> int:
    if arc.start == arc.end:
        return RING_STEPS
    return ((arc.end >> _SHIFT) - (arc.start >> _SHIFT)) % RING_STEPS
