"""From routing ids to owners: the cache first, then as few lookups as there are owners.

Ids wait sorted; each answer comes with the arc its node owns and settles every waiting id inside it, so a
batch of ten thousand ids over a hundred owners costs about a hundred lookups.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable

from overlay.dht.owners import OwnerCache
from overlay.ring import Arc
from overlay.router import Owner, Router

#: Lookups under way at once: keeps a large batch from flooding the ring with lookups for the same few owners.
LOOKUPS_MAX = 32

Resolved = Callable[[Owner | None], None]


class Resolver:
    """Asks the router for owners, once per arc rather than once per id."""

    __slots__ = (
        "_asked",
        "_cache",
        "_router",
        "_sorted",
        "_waiting",
        "failures",
        "hits",
        "lookups",
    )

    def __init__(self, router: Router, cache: OwnerCache) -> None:
        self._router = router
        self._cache = cache
        self._waiting: dict[int, list[Resolved]] = {}
        self._sorted: list[int] = []
        self._asked: dict[int, None] = {}
        self.lookups = 0
        self.hits = 0
        self.failures = 0

    def find(self, key: int) -> Owner | None:
        """The remembered owner, if any."""
        owner = self._cache.find(key)
        if owner is not None:
            self.hits += 1
        return owner

    def resolve(self, key: int, done: Resolved) -> None:
        """The owner by a fresh lookup, shared with whoever else waits for its arc; None when none was found."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append(done)
            return
        self._waiting[key] = [done]
        insort(self._sorted, key)
        if len(self._asked) < LOOKUPS_MAX:
            self._ask(key)

    def _ask(self, key: int) -> None:
        self._asked[key] = None
        self.lookups += 1
        self._router.lookup(key, lambda owner: self._answered(key, owner))

    def _answered(self, key: int, owner: Owner | None) -> None:
        self._asked.pop(key, None)
        settled: list[Resolved] = []
        if owner is None:
            self.failures += 1
            settled = self._take(key)
        else:
            self._cache.learn(owner)
            # The asked id is settled in any case: the answer may come from a node whose arc just moved.
            for waiting in [*self._inside(owner.arc), key]:
                settled += self._take(waiting)
        self._ask_more()
        for done in settled:
            done(owner)

    def _ask_more(self) -> None:
        # Every n-th waiting id, so that the lookups fall on different owners.
        step = max(1, len(self._sorted) // LOOKUPS_MAX)
        for key in self._sorted[::step]:
            if len(self._asked) >= LOOKUPS_MAX:
                return
            if key not in self._asked:
                self._ask(key)

    def _inside(self, arc: Arc) -> list[int]:
        keys = self._sorted
        low, high = bisect_left(keys, arc.start), bisect_left(keys, arc.end)
        if arc.start < arc.end:
            return keys[low:high]
        return keys[low:] + keys[:high] if arc.start > arc.end else list(keys)

    def _take(self, key: int) -> list[Resolved]:
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return []
        del self._sorted[bisect_left(self._sorted, key)]
        return waiting
