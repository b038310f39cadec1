"""Rows that a cache holds: in the order they came, each with its time, some of them replaced or expired.

Rows leave in the order of their arrival (by age, or to make room) or when a newer one takes their place. What
they occupied is given back when half of the rows are dead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from query.batch import Batch
from query.keys import KeyIndex, Lookup, RowStore
from query.keys.chains import grown
from query.keys.lookup import key_columns
from query.keys.table import Ids

#: Sets of key columns that have an index at a time.
LOOKUPS_MAX = 16
#: Rows below which dead ones are not worth a rebuild.
REBUILD_ROWS_MIN = 4_096
#: Rows of a batch that leaves a cache.
OUT_ROWS = 65_536


class Held:
    """The rows of one cache. With `keys`, of the rows with one key only the newest is alive."""

    def __init__(self, seed: int, keys: Sequence[str] = ()) -> None:
        self._seed = seed
        self._keys = tuple(keys)
        self._clear()

    def _clear(self) -> None:
        self._store = RowStore()
        self._lookups: dict[tuple[str, ...], Lookup] = {}
        self._arrived_s: npt.NDArray[np.float64] = np.empty(0, dtype=np.float64)
        self._dead: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._dead_rows = 0
        self._index = KeyIndex(len(self._keys), self._seed) if self._keys else None
        self._newest: Ids = np.empty(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        lookups = sum(lookup.nbytes for lookup in self._lookups.values())
        index = 0 if self._index is None else self._index.nbytes + self._newest.nbytes
        return self._store.nbytes + self._arrived_s.nbytes + self._dead.nbytes + lookups + index

    @property
    def rows(self) -> int:
        """Rows alive."""
        return self._store.rows - self._dead_rows

    def add(self, batch: Batch, now_s: float) -> None:
        first, end = self._store.rows, self._store.rows + batch.num_rows
        keys = key_columns(batch, self._keys)
        self._reserve(end)
        self._arrived_s[first:end] = now_s
        self._dead[first:end] = False
        self._store.append(batch)
        for lookup in self._lookups.values():
            lookup.add(batch, np.arange(first, end))
        if self._index is not None:
            ids, _ = self._index.add(keys, batch.num_rows)
            self._replace(ids, np.arange(first, end))

    def expire(self, before_s: float) -> int:
        """Rows that arrived before a time leave; returns how many."""
        arrived_s = self._arrived_s[: self._store.rows]
        return self._leave(int(np.searchsorted(arrived_s, before_s, side="left")))

    def make_room(self, bytes_max: int) -> int:
        """The oldest rows leave until the rest fits; returns how many did."""
        left = 0
        while self.rows and self.nbytes > bytes_max:
            alive = self._alive()
            left += self._leave(int(alive[len(alive) // 4]) + 1)
            self._rebuild()
        return left

    def batches(self) -> Iterator[Batch]:
        """The rows that are alive now, even if some leave while the caller takes its time."""
        if self._dead_rows == 0:
            return iter([batch for _, batch in self._store.numbered()])
        return self._fetch(self._alive())

    def matching(self, keys: Batch) -> Iterator[Batch]:
        """The rows alive that equal one of the keys in the keys' columns."""
        names = tuple(keys.schema.names)
        lookup = self._lookups.get(names)
        if lookup is None:
            lookup = Lookup(names, self._seed)
            for numbers, batch in self._store.numbered():
                lookup.add(batch, numbers)
            if len(self._lookups) >= LOOKUPS_MAX:
                del self._lookups[next(iter(self._lookups))]
            self._lookups[names] = lookup
        rows = lookup.find(keys)
        return self._fetch(rows[~self._dead[rows]])

    def _fetch(self, rows: Ids) -> Iterator[Batch]:
        # A rebuild makes a new store and leaves this one as it is.
        store = self._store
        for start in range(0, len(rows), OUT_ROWS):
            for _, batch in store.fetch(rows[start : start + OUT_ROWS]):
                yield batch

    def _alive(self) -> Ids:
        return np.flatnonzero(~self._dead[: self._store.rows])

    def _reserve(self, rows: int) -> None:
        if rows > len(self._dead):
            more = 2 * rows - len(self._dead)
            self._dead = np.append(self._dead, np.zeros(more, dtype=np.bool_))
            self._arrived_s = np.append(self._arrived_s, np.zeros(more))

    def _replace(self, ids: Ids, rows: Ids) -> None:
        """Of the rows with one key only the last stays alive; -1 stands for a key without a row."""
        self._newest = grown(self._newest, int(ids.max(initial=-1)) + 1, -1)
        before = self._newest[ids]
        self._newest[ids] = rows
        older = np.unique(before[before >= 0])
        superseded = rows[self._newest[ids] != rows]
        self._dead_rows += int((~self._dead[older]).sum()) + len(superseded)
        self._dead[older] = True
        self._dead[superseded] = True
        self._rebuild_if_half_dead()

    def _leave(self, first: int) -> int:
        """Rows before `first` leave."""
        leaving = int((~self._dead[:first]).sum())
        self._dead[:first] = True
        self._dead_rows += leaving
        self._rebuild_if_half_dead()
        return leaving

    def _rebuild_if_half_dead(self) -> None:
        if self._dead_rows > REBUILD_ROWS_MIN and 2 * self._dead_rows > self._store.rows:
            self._rebuild()

    def _rebuild(self) -> None:
        alive = self._alive()
        store, arrived_s = self._store, self._arrived_s[alive]
        self._clear()
        for start in range(0, len(alive), OUT_ROWS):
            wanted = alive[start : start + OUT_ROWS]
            for where, batch in store.fetch(wanted):
                places = np.arange(start, start + len(wanted)) if where is None else where + start
                self._take_over(batch, arrived_s[places])

    def _take_over(self, batch: Batch, arrived_s: npt.NDArray[np.float64]) -> None:
        first = self._store.rows
        self.add(batch, 0.0)
        self._arrived_s[first : first + batch.num_rows] = arrived_s
