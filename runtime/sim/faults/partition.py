"""Partitions: sets of hosts, or single pairs, that cannot reach each other, or can in one direction only."""

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

    def blocks(self, sender: int, receiver: int) -> bool:
        if sender in self.senders and receiver in self.receivers:
            return True
        return not self.one_way and receiver in self.senders and sender in self.receivers


@dataclass(frozen=True, slots=True, eq=False)
class PairCut:
    """Nothing gets from the first of a pair to the second; everybody else reaches both."""

    pairs: frozenset[tuple[int, int]]

    def blocks(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self.pairs


class Partitions:
    __slots__ = ("cuts",)

    def __init__(self) -> None:
        self.cuts: list[Cut | PairCut] = []

    def cut(self, senders: Collection[int], receivers: Collection[int], one_way: bool = False) -> Cut:
        """Hosts by index. The cut lasts until `heal`."""
        cut = Cut(frozenset(senders), frozenset(receivers), one_way)
        self._add(cut)
        return cut

    def cut_pairs(self, pairs: Collection[tuple[int, int]]) -> PairCut:
        """The two hosts of each pair, by index, cannot reach each other."""
        cut = PairCut(frozenset([*pairs, *((other, one) for one, other in pairs)]))
        self._add(cut)
        return cut

    def cut_one_way(self, pairs: Collection[tuple[int, int]]) -> PairCut:
        """The first host of each pair is not heard by the second."""
        cut = PairCut(frozenset(pairs))
        self._add(cut)
        return cut

    def _add(self, cut: Cut | PairCut) -> None:
        if len(self.cuts) >= CUTS_MAX:
            raise ValueError(f"more than CUTS_MAX = {CUTS_MAX} partitions at once")
        self.cuts.append(cut)

    def heal(self, cut: Cut | PairCut | None = None) -> None:
        """Ends one cut, or all."""
        self.cuts = [each for each in self.cuts if cut is not None and each is not cut]

    def blocked(self, sender: int, receiver: int) -> bool:
        return any(cut.blocks(sender, receiver) for cut in self.cuts)
