"""The owner cache: answers to lookups, remembered with the arc each node owned when it answered.

In come owners from lookups and from nodes that were asked by mistake; out goes whom to ask for an id without
a lookup. An interval map: arcs never overlap, and a node has one arc. Nothing here is trusted: a node that is
asked wrongly says so, and the entry is corrected (docs/decisions/0011).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from overlay.ring import MASK, Arc, NodeRef
from overlay.router import Owner

#: Remembered owners; beyond a thousand nodes at 300 bytes each the oldest answers go first.
OWNERS_MAX = 4096


class OwnerCache:
    """Disjoint arcs of the ring and who owns them."""

    __slots__ = (
        "_by_start",
        "_limit",
        "_nodes",
        "_starts",
        "evicted",
    )

    def __init__(self, limit: int = OWNERS_MAX) -> None:
        self._limit = limit
        self._starts: list[int] = []
        self._by_start: dict[int, Owner] = {}
        #: Node id to the start of its arc; the order of insertion is the order of forgetting.
        self._nodes: dict[bytes, int] = {}
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._starts)

    def find(self, key: int) -> Owner | None:
        starts = self._starts
        if not starts:
            return None
        # Position -1 is the last arc: the only one that can reach over the top.
        owner = self._by_start[starts[bisect_right(starts, key) - 1]]
        return owner if owner.arc.contains(key) else None

    def learn(self, owner: Owner) -> None:
        """Newer knowledge wins: whatever overlaps it is forgotten."""
        self.forget(owner.node)
        for start in self._overlapping(owner.arc):
            self._remove(start)
        if len(self._starts) >= self._limit:
            self._remove(next(iter(self._nodes.values())))
            self.evicted += 1
        insort(self._starts, owner.arc.start)
        self._by_start[owner.arc.start] = owner
        self._nodes[owner.node.id] = owner.arc.start

    def forget(self, node: NodeRef) -> None:
        start = self._nodes.get(node.id)
        if start is not None:
            self._remove(start)

    def forget_key(self, key: int) -> None:
        owner = self.find(key)
        if owner is not None:
            self._remove(owner.arc.start)

    def clear(self) -> None:
        self._starts.clear()
        self._by_start.clear()
        self._nodes.clear()

    def _overlapping(self, arc: Arc) -> list[int]:
        if arc.start == arc.end:
            return list(self._starts)
        found = []
        before = self.find(arc.start)
        if before is not None:
            found.append(before.arc.start)
        last = (arc.end - 1) & MASK
        if arc.start <= last:
            inside = self._starts[bisect_left(self._starts, arc.start) : bisect_right(self._starts, last)]
        else:
            inside = self._starts[bisect_left(self._starts, arc.start) :]
            inside += self._starts[: bisect_right(self._starts, last)]
        found.extend(start for start in inside if not found or start != found[0])
        return found

    def _remove(self, start: int) -> None:
        owner = self._by_start.pop(start)
        del self._starts[bisect_left(self._starts, start)]
        del self._nodes[owner.node.id]
