"""One neighbour as this node knows it: where it is, how far, when it was last heard."""

from __future__ import annotations

import math

import msgspec

from overlay.ring import NodeRef


class Distance(msgspec.Struct, gc=False, eq=False):
    """Smoothed round-trip time and its deviation, with TCP's gains. `rtt_s` below zero: never measured."""

    rtt_s: float = -1.0
    deviation_s: float = 0.0

    def sample(self, rtt_s: float, first_deviation: float = 0.5) -> None:
        """Takes a measurement in; the first says nothing of the deviation, so that is a share of it."""
        if self.rtt_s < 0.0:
            self.rtt_s = rtt_s
            self.deviation_s = rtt_s * first_deviation
            return
        error = rtt_s - self.rtt_s
        self.rtt_s += error / 8
        self.deviation_s += (abs(error) - self.deviation_s) / 4


class Peer(Distance, gc=False, eq=False):
    """A node that has answered this one itself."""

    id: int = 0
    ref: NodeRef = NodeRef(bytes(20), "")
    #: When anything last came straight from it.
    heard_at: float = 0.0
    #: When its leaf set was last merged into ours.
    synced_at: float = -1.0
    #: When we sent the last question of ours that it answered, holding us among its leaves: it cannot have given us up
    #: for some time after that.
    agreed_at: float = -math.inf
    #: Whether each of us was told that the other may have it for a leaf.
    met: bool = False
    #: Whether it was told that it was new to us, where we had a place of our own before: see `Ownership.returned`.
    told: bool = True
    #: Possibly down: skipped everywhere until it is heard again or buried.
    suspect: bool = False
    #: Messages it left unacknowledged since it was last heard.
    misses: int = 0
    #: Whether the leaves were told of this silence.
    warned: bool = False

    def heard(self, now: float) -> None:
        self.heard_at = now
        self.misses = 0
        self.warned = False
