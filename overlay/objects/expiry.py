"""When stored objects end: buckets of one width over time, a heap of the buckets that hold something.

An object sits in exactly one bucket, so the store's bound bounds this too. Renewing touches nothing here: the
object is looked at when its old bucket falls due and put into the right one then.
"""

from __future__ import annotations

import heapq

from overlay.objects.name import Name
from overlay.objects.stored import StoredObject

#: Readers compare the exact instant; this only says how late the memory is given back.
BUCKET_WIDTH_S = 1.0


class ExpiryBuckets:
    """A lazy priority queue of stored objects by the time they end."""

    __slots__ = ("_buckets", "_heap")

    def __init__(self) -> None:
        self._buckets: dict[int, dict[Name, StoredObject]] = {}
        self._heap: list[int] = []

    def add(self, stored: StoredObject) -> None:
        stored.bucket = bucket = int(stored.expires_at / BUCKET_WIDTH_S) + 1
        members = self._buckets.get(bucket)
        if members is None:
            members = self._buckets[bucket] = {}
            heapq.heappush(self._heap, bucket)
        members[stored.name] = stored

    def discard(self, stored: StoredObject) -> None:
        members = self._buckets.get(stored.bucket)
        if members is not None:
            members.pop(stored.name, None)

    def changed(self, stored: StoredObject) -> None:
        """Its end moved: only an earlier end needs another bucket now."""
        if int(stored.expires_at / BUCKET_WIDTH_S) + 1 < stored.bucket:
            self.discard(stored)
            self.add(stored)

    def next_due(self) -> float | None:
        return self._heap[0] * BUCKET_WIDTH_S if self._heap else None

    def take_due(self, now: float, limit: int) -> list[StoredObject]:
        """At most `limit` objects that have ended; those that were renewed meanwhile are put back."""
        ended: list[StoredObject] = []
        while self._heap and self._heap[0] * BUCKET_WIDTH_S <= now and len(ended) < limit:
            members = self._buckets[self._heap[0]]
            while members and len(ended) < limit:
                _, stored = members.popitem()
                if stored.expires_at <= now:
                    ended.append(stored)
                else:
                    self.add(stored)
            if not members:
                del self._buckets[heapq.heappop(self._heap)]
        return ended
