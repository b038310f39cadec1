"""`chains.Chains` as compiled loops: a linked list of rows for each key."""

from __future__ import annotations

import numpy as np

from query.keys.chains import counted, grown
from query.keys.jit import jit
from query.keys.table import Ids


@jit
def _add(heads, following, counts, ids, first):  # type: ignore[no-untyped-def]
    for place in range(len(ids)):
        following[first + place] = heads[ids[place]]
        heads[ids[place]] = first + place
        counts[ids[place]] += 1


@jit
def _match(heads, following, ids, places, rows):  # type: ignore[no-untyped-def]
    at = 0
    for place in range(len(ids)):
        if 0 <= ids[place] < len(heads):
            row = heads[ids[place]]
            while row >= 0:
                places[at] = place
                rows[at] = row
                at += 1
                row = following[row]


class CompiledChains:
    """Rows by the id of their key, as `Chains`; pairs come in another order."""

    def __init__(self) -> None:
        self.rows = 0
        self._heads: Ids = np.empty(0, dtype=np.int64)
        self._following: Ids = np.empty(0, dtype=np.int64)
        self._counts: Ids = np.empty(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        return int(self._heads.nbytes + self._following.nbytes + self._counts.nbytes)

    def add(self, ids: Ids) -> None:
        if len(ids) == 0:
            return
        first, self.rows = self.rows, self.rows + len(ids)
        self._heads = grown(self._heads, int(ids.max()) + 1, -1)
        self._following = grown(self._following, self.rows)
        self._counts = grown(self._counts, len(self._heads), 0)
        _add(self._heads, self._following, self._counts, ids, first)

    def counts(self, ids: Ids) -> Ids:
        return counted(self._counts, ids)

    def match(self, ids: Ids) -> tuple[Ids, Ids]:
        total = int(self.counts(ids).sum())
        places: Ids = np.empty(total, dtype=np.int64)
        rows: Ids = np.empty(total, dtype=np.int64)
        _match(self._heads, self._following, ids, places, rows)
        return places, rows
