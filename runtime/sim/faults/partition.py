"""Partitions: sets of hosts that cannot reach each other, or can in one direction only."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

#: Cuts in force at once; each message is held against all of them.
CUTS_MAX = 64


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """Nothing gets from a host of `senders` to one of `receivers`; without `one_way`, nor back."""

    senders: frozenset[int]
    receivers: frozenset[int]
    one_way: bool


class Partitions:
    __slots__ = ("cuts",)

    def __init__(self) -> None:
        self.cuts: list[Cut] = []

    def cut(self, senders: Collection[int], receivers: Collection[int], one_way: bool = False) -> Cut:
        """Hosts by index. The cut lasts until `heal`."""
        if len(self.cuts) >= CUTS_MAX:
            raise ValueError(f"more than CUTS_MAX = {CUTS_MAX} partitions at once")
        cut = Cut(frozenset(senders), frozenset(receivers), one_way)
        self.cuts.append(cut)
        return cut

    def heal(self, cut: Cut | None = None) -> None:
        """Ends one cut, or all."""
        self.cuts = [each for each in self.cuts if cut is not None and each is not cut]

    def blocked(self, sender: int, receiver: int) -> bool:
        for cut in self.cuts:
            if sender in cut.senders and receiver in cut.receivers:
                return True
            if not cut.one_way and receiver in cut.senders and sender in cut.receivers:
                return True
        return False
