"""The roster as one node has it: records in, the newest of each member kept; who is expected where comes out.

Pure: the wall clock is passed in. Members lie in order of their ids, so that a stretch of the ring is a slice. The
book knows its own marks, one for each of its parts and one for all, by which two nodes find out in a few bytes whether
their books are the same.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

import msgspec

from overlay.ring import MASK, Arc, closer, from_wire
from overlay.roster.member import MARK_BYTES, Member, Standing
from overlay.roster.messages import BUCKET_BYTES, BUCKETS


class Kept(msgspec.Struct, frozen=True):
    """A record, and since when the member stands so by this node's wall clock."""

    member: Member
    since: float
    mark: bytes


class Book:
    __slots__ = ("_by_mark", "_expected", "_kept", "_lost", "_parts", "_whole", "changes", "refused")

    def __init__(self) -> None:
        self._kept: dict[bytes, Kept] = {}
        self._by_mark: dict[bytes, bytes] = {}
        #: Ids of those that are expected, in order.
        self._expected: list[int] = []
        #: Those of them that their neighbours miss.
        self._lost: dict[bytes, None] = {}
        #: Marks of members, added up bit by bit: of each part, and of all.
        self._parts: list[dict[bytes, None]] = [{} for _ in range(BUCKETS)]
        self._whole = 0
        #: Counts up whenever something has changed.
        self.changes = 0
        #: Members for whom there was no room.
        self.refused = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Kept]:
        return iter(self._kept.values())

    def get(self, node_id: bytes) -> Kept | None:
        return self._kept.get(node_id)

    # -- records in

    def take(self, member: Member, wall: float, members_max: int) -> bool:
        """Keeps a record that is newer than the one at hand. Whether it was."""
        held = self._kept.get(member.id)
        if held is not None and member.rank <= held.member.rank:
            return False
        if held is None and len(self._kept) >= members_max and not self._make_room():
            self.refused += 1
            return False
        if held is not None:
            self._remove(held)
        kept = Kept(
            msgspec.structs.replace(member, age_s=0) if member.age_s else member,
            wall - member.age_s,
            member.mark(),
        )
        self._kept[member.id] = kept
        self._by_mark[kept.mark] = member.id
        self._parts[_part(member.id)][kept.mark] = None
        self._whole ^= int.from_bytes(kept.mark)
        if member.standing.expected:
            insort(self._expected, from_wire(member.id))
        if member.standing is Standing.LOST:
            self._lost[member.id] = None
        self.changes += 1
        return True

    def expire(self, wall: float, keep_s: float) -> int:
        """Forgets whoever has been gone for long. How many they were."""
        old = [
            kept
            for kept in self._kept.values()
            if kept.member.standing is not Standing.HERE and kept.since + keep_s <= wall
        ]
        for kept in old:
            self._remove(kept)
            self.changes += 1
        return len(old)

    def _make_room(self) -> bool:
        """The longest gone leaves, those that nobody expects first."""
        gone = [kept for kept in self._kept.values() if kept.member.standing is not Standing.HERE]
        if not gone:
            return False
        self._remove(min(gone, key=lambda kept: (kept.member.standing.expected, kept.since)))
        return True

    def _remove(self, kept: Kept) -> None:
        member = kept.member
        del self._kept[member.id]
        self._by_mark.pop(kept.mark, None)
        self._lost.pop(member.id, None)
        self._parts[_part(member.id)].pop(kept.mark, None)
        self._whole ^= int.from_bytes(kept.mark)
        if member.standing.expected:
            del self._expected[bisect_left(self._expected, from_wire(member.id))]

    # -- who is expected

    @property
    def expected(self) -> int:
        """How many members are expected, there or not."""
        return len(self._expected)

    def expected_in(self, arc: Arc) -> list[int]:
        """Ids of expected members from the arc's start up to its end."""
        ids = self._expected
        if arc.start == arc.end:
            return list(ids)
        low, high = bisect_left(ids, arc.start), bisect_left(ids, arc.end)
        return ids[low:high] if arc.start < arc.end else ids[low:] + ids[:high]

    def lost(self) -> list[bytes]:
        """Ids of members that are expected and that their neighbours miss."""
        return list(self._lost)

    def expected_owner(self, key: int) -> int | None:
        """Who would own a key if everybody expected were there."""
        ids = self._expected
        if not ids:
            return None
        at = bisect_left(ids, key & MASK)
        below, above = ids[at - 1], ids[at % len(ids)]
        return below if closer(key, below, above) else above

    # -- comparing

    def mark(self) -> bytes:
        return self._whole.to_bytes(MARK_BYTES)

    def part_marks(self) -> bytes:
        return b"".join(map(self._part_mark, self._parts))

    def _part_mark(self, part: dict[bytes, None]) -> bytes:
        total = 0
        for mark in part:
            total ^= int.from_bytes(mark[:BUCKET_BYTES])
        return total.to_bytes(BUCKET_BYTES)

    def marks_in(self, parts: bytes) -> bytes:
        return b"".join(mark for part in parts for mark in self._parts[part])

    def differing(self, part_marks: bytes) -> bytes:
        """The parts whose marks are not the other's, as one byte each."""
        own = self.part_marks()
        size = BUCKET_BYTES
        return bytes(
            part
            for part in range(BUCKETS)
            if own[part * size : (part + 1) * size] != part_marks[part * size : (part + 1) * size]
        )

    def marked(self, marks: bytes) -> list[Kept]:
        """The members with these marks."""
        ids = (self._by_mark.get(marks[at : at + MARK_BYTES]) for at in range(0, len(marks), MARK_BYTES))
        return [self._kept[each] for each in ids if each is not None]

    def compared(self, parts: bytes, marks: bytes) -> tuple[list[Kept], bytes]:
        """What the other lacks of these parts, and the marks that are unknown here."""
        theirs = {marks[at : at + MARK_BYTES] for at in range(0, len(marks), MARK_BYTES)}
        lacking = [
            self._kept[self._by_mark[mark]]
            for part in parts
            for mark in self._parts[part]
            if mark not in theirs
        ]
        return lacking, b"".join(sorted(mark for mark in theirs if mark not in self._by_mark))


def _part(node_id: bytes) -> int:
    """The part of the book that a member is in: by the first bits of its id."""
    return node_id[0] * BUCKETS >> 8
