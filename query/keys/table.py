"""A hash table from keys of several words to dense ids, worked a column at a time with numpy.

Open addressing with linear probing. All rows of a batch take each step together; the few that met another key's
slot take the next. Rows of equal keys stay together on their way, so the first of them claims the free slot
and the others find it there: no batch has to be made distinct beforehand. The hash starts from a seed of
the query, so that data cannot be made to collide on purpose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from query.keys.encode import Words
from query.keys.large import has_grown

Ids = npt.NDArray[np.int64]
_FREE = -1
#: Slots per key: at half full a search takes 1.5 steps on average.
_SLOTS_A_KEY = 2
_CAPACITY_MIN = 256
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S1, _S2, _S3 = np.uint64(30), np.uint64(27), np.uint64(31)


def hash_words(words: Sequence[Words], seed: int) -> Words:
    """A 64-bit hash of each key: SplitMix64's finaliser over one word after the other."""
    state: Words = np.full(len(words[0]), seed, dtype=np.uint64)
    for word in words:
        state = state ^ word
        state = (state ^ (state >> _S1)) * _M1
        state = (state ^ (state >> _S2)) * _M2
        state ^= state >> _S3
    return state


class KeyTable:
    """Ids of keys of `width` words, counted from zero in no particular order."""

    def __init__(self, width: int, seed: int) -> None:
        self.seed = seed
        self.keys = np.empty((width, _CAPACITY_MIN), dtype=np.uint64)
        self.slots = np.full(_CAPACITY_MIN * _SLOTS_A_KEY, _FREE, dtype=np.int64)
        self.count = 0

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        return int(self.keys.nbytes + self.slots.nbytes)

    def add(self, words: Sequence[Words]) -> tuple[Ids, Ids]:
        """The id of each row's key, and the rows, ascending, whose key was new: the first of each new key."""
        rows = len(words[0])
        self._reserve(rows)
        ids: Ids = np.empty(rows, dtype=np.int64)
        fresh: list[Ids] = []
        waiting: Ids = np.arange(rows)
        mask = len(self.slots) - 1
        slots: Ids = (hash_words(words, self.seed) & np.uint64(mask)).astype(np.int64)
        while len(waiting):
            free = np.flatnonzero(self.slots[slots] == _FREE)
            if len(free):
                fresh.append(self._claim(words, waiting[free], slots[free]))
            found = self.slots[slots]
            same = self._equal(found, words, waiting)
            ids[waiting[same]] = found[same]
            missed = ~same
            waiting = waiting[missed]
            slots = (slots[missed] + 1) & mask
        return ids, np.sort(np.concatenate(fresh)) if fresh else np.empty(0, dtype=np.int64)

    def find(self, words: Sequence[Words]) -> Ids:
        """The id of each row's key, -1 where it is not there."""
        rows = len(words[0])
        ids: Ids = np.full(rows, -1, dtype=np.int64)
        waiting: Ids = np.arange(rows)
        mask = len(self.slots) - 1
        slots: Ids = (hash_words(words, self.seed) & np.uint64(mask)).astype(np.int64)
        while len(waiting):
            found = self.slots[slots]
            taken = found != _FREE
            waiting, slots, found = waiting[taken], slots[taken], found[taken]
            same = self._equal(found, words, waiting)
            ids[waiting[same]] = found[same]
            missed = ~same
            waiting = waiting[missed]
            slots = (slots[missed] + 1) & mask
        return ids

    def widen(self, words: int) -> None:
        """Gives every key so many more words, zero for those already here."""
        more = np.zeros((words, self.keys.shape[1]), dtype=np.uint64)
        self.keys = np.concatenate([self.keys, more])
        self.slots.fill(_FREE)
        self._place_all()

    def _claim(self, words: Sequence[Words], rows: Ids, slots: Ids) -> Ids:
        """Gives free slots to rows; of several that want one slot the first gets it. Returns those that did."""
        # Of equal positions numpy keeps the value assigned last, hence backwards.
        claims = -2 - np.arange(len(rows))
        self.slots[slots[::-1]] = claims[::-1]
        won = self.slots[slots] == claims
        rows, slots = rows[won], slots[won]
        first, self.count = self.count, self.count + len(rows)
        self.slots[slots] = np.arange(first, self.count)
        for number, word in enumerate(words):
            self.keys[number, first : self.count] = word[rows]
        return rows

    def _equal(self, found: Ids, words: Sequence[Words], rows: Ids) -> npt.NDArray[np.bool_]:
        whole = len(rows) == len(words[0])
        same: npt.NDArray[np.bool_] | None = None
        for number, word in enumerate(words):
            here = self.keys[number][found] == (word if whole else word[rows])
            same = here if same is None else same & here
        assert same is not None
        return same

    def _reserve(self, rows: int) -> None:
        """Room for `rows` more keys; growing puts all keys into a table of twice the size."""
        needed = self.count + rows
        if needed <= self.keys.shape[1]:
            return
        capacity = 1 << (needed - 1).bit_length()
        has_grown(capacity)
        keys = np.empty((self.keys.shape[0], capacity), dtype=np.uint64)
        keys[:, : self.count] = self.keys[:, : self.count]
        self.keys = keys
        self.slots = np.full(capacity * _SLOTS_A_KEY, _FREE, dtype=np.int64)
        self._place_all()

    def _place_all(self) -> None:
        waiting: Ids = np.arange(self.count)
        mask = len(self.slots) - 1
        hashes = hash_words(list(self.keys[:, : self.count]), self.seed)
        slots: Ids = (hashes & np.uint64(mask)).astype(np.int64)
        while len(waiting):
            free = self.slots[slots] == _FREE
            self.slots[slots[free]] = waiting[free]
            lost = self.slots[slots] != waiting
            waiting = waiting[lost]
            slots = (slots[lost] + 1) & mask
