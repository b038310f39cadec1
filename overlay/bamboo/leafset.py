"""The leaf set: the nodes next to this one on the circle, and among them the owner of a near key.

Peers come in from `view` in any order; out go the two sides, nearest first, and the closest node to a key.
Invariant: each side holds the `per_side` nearest of the usable peers offered since the last rebuild. In a ring
so small that the sides meet, the same peer stands on both, and the set covers the whole circle. A set that is
not full in a ring known to be larger covers nothing but the stretch between its ends: so a newcomer that has met
two neighbours does not take itself for one of three nodes in the world.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import chain, zip_longest

from overlay.bamboo.messages import MARK_BYTES
from overlay.bamboo.peer import Peer
from overlay.ring import HALF, MASK, SPACE


class LeafSet:
    __slots__ = (
        "_marks",
        "_nodes",
        "_offsets",
        "after",
        "before",
        "covers_all",
        "full",
        "marks",
        "me",
        "members",
        "per_side",
    )

    def __init__(self, me: int, per_side: int) -> None:
        self.me = me
        self.per_side = per_side
        #: Clockwise and counter-clockwise neighbours, nearest first.
        self.after: list[Peer] = []
        self.before: list[Peer] = []
        #: Each leaf once, the nearest first, sides in turn. Replaced, never changed.
        self.members: list[Peer] = []
        #: Whether the two sides meet: then nobody else is on the circle.
        self.covers_all = True
        #: Whether both sides have all the leaves they may have, none of them on both.
        self.full = False
        # Offsets from `me`, ascending, and the peers in parallel (None for `me`). Where the set covers all: once
        # round the circle, from `me` at 0 to `me` at SPACE. Else: from the furthest before, below zero, over `me`
        # at 0 to the furthest after.
        self._offsets: list[int] = [0, SPACE]
        self._nodes: list[Peer | None] = [None, None]
        #: A mark for each node, empty for `me`; and all of them in one piece.
        self._marks: list[bytes] = [b"", b""]
        self.marks = b""

    def fits(self, identifier: int) -> bool:
        """Whether a node of this id would stand on one of the sides."""
        return not self.full or self.spans(identifier)

    def between(self, identifier: int, peer: Peer | None, clockwise: bool) -> bool:
        """Whether an id lies between this node and its neighbour on one side."""
        if peer is None:
            return True
        if clockwise:
            return (identifier - self.me) & MASK < (peer.id - self.me) & MASK
        return (self.me - identifier) & MASK < (self.me - peer.id) & MASK

    def offer(self, peer: Peer, large: bool) -> bool:
        """Takes the peer in if it fits; whether it stands in the set now."""
        if not self.fits(peer.id):
            return False
        if peer.suspect or not (self._insert(peer) if self.full else self._append(peer, large)):
            self.rebuild([*self.members, peer], large)
        return True

    def _insert(self, peer: Peer) -> bool:
        """Puts a peer into its place of a full set, whose furthest leaf on that side makes room: what `rebuild` would
        do, for less. False, and nothing done, if somebody of this id is there."""
        offsets, nodes, marks = self._offsets, self._nodes, self._marks
        offset = (peer.id - self.me) & MASK
        clockwise = offset <= offsets[-1]
        if not clockwise:
            offset -= SPACE
        at = bisect_left(offsets, offset)
        if offsets[at] == offset:
            return False
        self._put(at, offset, peer)
        leaver = -1 if clockwise else 0
        del offsets[leaver], nodes[leaver], marks[leaver]
        self._divide()
        return True

    def _append(self, peer: Peer, large: bool) -> bool:
        """Puts a peer into its place of a set that has room for it on either side: what `rebuild` would do, for less.
        False, and nothing done, where sides may meet, would be full or hold somebody beyond their half."""
        offsets = self._offsets
        if self.covers_all or not large or len(self.members) + 1 >= 2 * self.per_side:
            return False
        if offsets[-1] > HALF or offsets[0] <= HALF - SPACE or not self.after or not self.before:
            return False
        offset = (peer.id - self.me) & MASK
        if offset > HALF:
            offset -= SPACE
        at = bisect_left(offsets, offset)
        if at < len(offsets) and offsets[at] == offset:
            return False
        self._put(at, offset, peer)
        self._divide()
        return True

    def _put(self, at: int, offset: int, peer: Peer) -> None:
        self._offsets.insert(at, offset)
        self._nodes.insert(at, peer)
        self._marks.insert(at, mark_of(peer))

    def _divide(self) -> None:
        """The two sides, and what follows from them, of a set in which nobody stands on both."""
        nodes = self._nodes
        here = nodes.index(None)
        self.marks = b"".join(self._marks)
        self.before = [node for node in nodes[:here][::-1] if node is not None]
        self.after = [node for node in nodes[here + 1 :] if node is not None]
        turns = chain.from_iterable(zip_longest(self.after, self.before))
        self.members = [leaf for leaf in turns if leaf is not None]

    def rebuild(self, peers: Iterable[Peer], large: bool) -> None:
        """Chooses anew among all usable peers, each given once or more often. `large`: there are more nodes in the
        ring than a full set holds."""
        me = self.me
        # No two have the same offset, so peers are never compared.
        ranked = sorted(
            {(peer.id - me) & MASK: peer for peer in peers if not peer.suspect and peer.id != me}.items()
        )
        count = len(ranked)
        side = min(self.per_side, count)
        after, before = ranked[:side], ranked[count - side :]
        self.covers_all = count < 2 * self.per_side and not large
        if large and 0 < count < 2 * self.per_side:
            # Not full: everybody stays, each on its nearer side only, and no side is empty.
            half = bisect_right(ranked, HALF, key=_first)
            after, before = ranked[: half or 1], ranked[min(half, count - 1) :]
        self.after = [peer for _, peer in after]
        self.before = [peer for _, peer in reversed(before)]
        turns = chain.from_iterable(zip_longest(self.after, self.before))
        self.members = list({leaf.id: leaf for leaf in turns if leaf is not None}.values())
        self.full = len(self.members) >= 2 * self.per_side
        if self.covers_all:
            self._offsets = [0, *(offset for offset, _ in ranked), SPACE]
            self._nodes = [None, *(peer for _, peer in ranked), None]
        else:
            self._offsets = [*(offset - SPACE for offset, _ in before), 0, *(offset for offset, _ in after)]
            self._nodes = [*(peer for _, peer in before), None, *(peer for _, peer in after)]
        self._marks = [b"" if node is None else mark_of(node) for node in self._nodes]
        self.marks = b"".join(self._marks)

    def holds(self, peer: Peer) -> bool:
        return peer in self.members

    @property
    def successor(self) -> Peer | None:
        return self.after[0] if self.after else None

    @property
    def predecessor(self) -> Peer | None:
        return self.before[0] if self.before else None

    def reach(self) -> tuple[int, int]:
        """How far the set reaches clockwise and counter-clockwise; all the way round where it is not full."""
        if not self.full:
            return MASK, MASK
        return self._offsets[-1], -self._offsets[0]

    def lacking(self, identifier: int, marks: bytes) -> list[Peer]:
        """Who of the leaves nearest to another node, as many on each side as a leaf set holds, has no mark among
        those that the other gave."""
        # A match across two marks is as unlikely as two equal marks, and does no more harm: a later exchange. The
        # empty mark of `me` is in all.
        if not self.full:
            pairs = zip(self._nodes, self._marks, strict=True)
            return [
                node
                for node, mark in pairs
                if mark not in marks and node is not None and node.id != identifier
            ]
        if not self.spans(identifier):
            return []
        offset = (identifier - self.me) & MASK
        if offset > self._offsets[-1]:
            offset -= SPACE
        at = bisect_left(self._offsets, offset)
        there = at < len(self._offsets) and self._offsets[at] == offset
        found = []
        for low, high in ((max(at - self.per_side, 0), at), (at + there, at + there + self.per_side)):
            for mark, node in zip(self._marks[low:high], self._nodes[low:high], strict=True):
                if mark not in marks and node is not None:
                    found.append(node)
        return found

    def spans(self, key: int) -> bool:
        """Whether the owner of key must be this node or a leaf."""
        if self.covers_all:
            return True
        offset = (key - self.me) & MASK
        return offset <= self._offsets[-1] or offset - SPACE >= self._offsets[0]

    def closest(self, key: int) -> Peer | None:
        """The leaf closest to key, or None for this node itself. A key half-way goes clockwise."""
        offset = (key - self.me) & MASK
        offsets = self._offsets
        if offset > offsets[-1] and (offset - SPACE >= offsets[0] or offset > HALF):
            offset -= SPACE
        above = bisect_left(offsets, offset)
        if above == len(offsets):
            return self._nodes[-1]
        if above == 0:
            return self._nodes[0]
        if offsets[above] - offset <= offset - offsets[above - 1]:
            return self._nodes[above]
        return self._nodes[above - 1]


def mark_of(peer: Peer) -> bytes:
    return peer.ref.id[-MARK_BYTES:]


def _first(item: tuple[int, Peer]) -> int:
    return item[0]
