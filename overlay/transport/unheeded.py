"""What a peer said it does not understand: messages of those kinds to it fail at once for a while.

So nodes of different releases work together as far as they can, and whoever sends what the other cannot take is told,
instead of waiting for an answer that never comes.
"""

from __future__ import annotations

from runtime.api import Address, Clock
from runtime.message import Message

#: After so long a kind is tried again: the peer may run another release by then.
UNHEEDED_S = 15.0
#: Pairs of peer and kind that are remembered; the oldest are forgotten.
UNHEEDED_MAX = 512


class Unheeded:
    __slots__ = ("_clock", "until")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: Oldest first. Empty on most nodes at most times, which whoever sends a lot may see for itself.
        self.until: dict[tuple[Address, type[Message]], float] = {}

    def add(self, peer: Address, kind: type[Message]) -> bool:
        """Whether that is news."""
        fresh = self.until.pop((peer, kind), None) is None
        while len(self.until) >= UNHEEDED_MAX:
            del self.until[next(iter(self.until))]
        self.until[peer, kind] = self._clock.now() + UNHEEDED_S
        return fresh

    def refuses(self, peer: Address, kind: type[Message]) -> bool:
        until = self.until.get((peer, kind))
        if until is None:
            return False
        if self._clock.now() < until:
            return True
        del self.until[peer, kind]
        return False
