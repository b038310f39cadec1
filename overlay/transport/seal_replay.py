"""Which numbers of one sender's one life were already seen."""

from __future__ import annotations

#: Numbers below the highest that are told apart; older ones are refused. A sender's counter runs over all its
#: peers, so reordering among its datagrams to one peer spans more numbers than datagrams.
WINDOW_BITS = 2_048
MASK = (1 << WINDOW_BITS) - 1


class ReplayWindow:
    """A bitmap under the highest number seen, as RFC 4303 has it."""

    __slots__ = ("_floor", "highest", "seen")

    highest: int
    #: Bit n tells whether `highest` - n was seen.
    seen: int

    def __init__(self, floor: int) -> None:
        """Numbers up to and including `floor` are refused."""
        self._floor = floor
        self.highest = floor
        self.seen = 1

    def admissible(self, number: int) -> bool:
        """Whether `number` was not seen yet; asked before the seal is checked, changes nothing."""
        back = self.highest - number
        if back < 0:
            return True
        return back < WINDOW_BITS and number > self._floor and not self.seen >> back & 1

    def admit(self, number: int) -> None:
        """Notes an admissible number whose seal was right."""
        ahead = number - self.highest
        if ahead > 0:
            self.seen = (self.seen << ahead | 1) & MASK if ahead < WINDOW_BITS else 1
            self.highest = number
        else:
            self.seen |= 1 << -ahead
