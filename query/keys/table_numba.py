"""`table.KeyTable` as compiled loops: one pass over the rows. Used once `kernels.use_numba` was called."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from query.keys.encode import Words
from query.keys.jit import jit
from query.keys.table import Ids, KeyTable, hash_words


@jit
def _add(slots, keys, count, words, hashes, ids, fresh):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    width = words.shape[0]
    news = 0
    for row in range(len(hashes)):
        slot = np.int64(hashes[row] & np.uint64(mask))
        while True:
            found = slots[slot]
            if found < 0:
                slots[slot] = count
                for word in range(width):
                    keys[word, count] = words[word, row]
                ids[row] = count
                fresh[news] = row
                news += 1
                count += 1
                break
            same = True
            for word in range(width):
                if keys[word, found] != words[word, row]:
                    same = False
                    break
            if same:
                ids[row] = found
                break
            slot = (slot + 1) & mask
    return news


@jit
def _find(slots, keys, words, hashes, ids):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    width = words.shape[0]
    for row in range(len(hashes)):
        slot = np.int64(hashes[row] & np.uint64(mask))
        while slots[slot] >= 0:
            found = slots[slot]
            same = True
            for word in range(width):
                if keys[word, found] != words[word, row]:
                    same = False
                    break
            if same:
                ids[row] = found
                break
            slot = (slot + 1) & mask


@jit
def _place(slots, hashes):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    for number in range(len(hashes)):
        slot = np.int64(hashes[number] & np.uint64(mask))
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = number


class CompiledKeyTable(KeyTable):
    """Ids of keys, as `KeyTable`."""

    def add(self, words: Sequence[Words]) -> tuple[Ids, Ids]:
        rows = len(words[0])
        self._reserve(rows)
        ids: Ids = np.empty(rows, dtype=np.int64)
        fresh: Ids = np.empty(rows, dtype=np.int64)
        hashes = hash_words(words, self.seed)
        news = _add(self.slots, self.keys, self.count, np.stack(words), hashes, ids, fresh)
        self.count += news
        return ids, fresh[:news]

    def find(self, words: Sequence[Words]) -> Ids:
        ids: Ids = np.full(len(words[0]), -1, dtype=np.int64)
        _find(self.slots, self.keys, np.stack(words), hash_words(words, self.seed), ids)
        return ids

    def _place_all(self) -> None:
        _place(self.slots, hash_words(list(self.keys[:, : self.count]), self.seed))
