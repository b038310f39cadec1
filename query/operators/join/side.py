"""One side of a symmetric hash join under one probe: its rows, which keys they have, which found a partner."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from query.batch import Batch
from query.keys import RowStore
from query.keys.kernels import new_chains
from query.keys.table import Ids

#: Rows of a batch that leaves a join.
OUT_ROWS = 65_536

Mask = npt.NDArray[np.bool_]


class Side:
    """Rows of one input, by key id."""

    def __init__(self, keeps_rows: bool, marks: bool) -> None:
        """`keeps_rows`: rows will be wanted again, not only whether a key has any. `marks`: so will those
        that found no partner."""
        self._keeps_rows = keeps_rows
        self._marks = marks
        self._store = RowStore()
        self._chains = new_chains()
        #: Whether each row has found a partner, with room to grow.
        self._matched: Mask = np.zeros(0, dtype=np.bool_)
        #: Rows whose key has a NULL: they never find one.
        self._keyless: list[Batch] = []
        self._keyless_bytes = 0
        #: What rows of this side look like; None before the first.
        self.sample: Batch | None = None

    @property
    def nbytes(self) -> int:
        return self._store.nbytes + self._chains.nbytes + self._matched.nbytes + self._keyless_bytes

    def emptied(self) -> Side:
        """The same side without rows: the other side has ended, so none will be looked up again."""
        side = Side(self._keeps_rows, self._marks)
        side.sample = self.sample
        return side

    def see(self, batch: Batch) -> None:
        if self.sample is None:
            self.sample = batch.slice(0, 0)

    def add(self, batch: Batch, ids: Ids, matched: Mask) -> None:
        """Keeps rows; -1 is the id of a key with a NULL. `matched` says which have a partner already."""
        there = ids >= 0
        if not there.all():
            if self._marks:
                self._keyless.append(batch.take(pa.array(~there)))
                self._keyless_bytes += self._keyless[-1].nbytes
            batch, ids, matched = batch.take(pa.array(there)), ids[there], matched[there]
        first = self._chains.rows
        self._chains.add(ids)
        if self._keeps_rows:
            self._store.append(batch)
        if self._marks:
            if self._chains.rows > len(self._matched):
                larger = np.zeros(2 * self._chains.rows, dtype=np.bool_)
                larger[:first] = self._matched[:first]
                self._matched = larger
            self._matched[first : self._chains.rows] = matched

    def counts(self, ids: Ids) -> Ids:
        return self._chains.counts(ids)

    def match(self, ids: Ids) -> tuple[Ids, Ids]:
        """Pairs of a place in `ids` and the number of a row here."""
        return self._chains.match(ids)

    def mark(self, rows: Ids) -> Ids:
        """Notes that rows have a partner; returns, each once, those that had none before."""
        if not self._marks:
            return rows[:0]
        fresh = np.unique(rows[~self._matched[rows]])
        self._matched[fresh] = True
        return fresh

    def fetch(self, rows: Ids) -> Iterator[tuple[Ids | None, Batch]]:
        """Rows by number, in batches, each with the places in `rows` it answers."""
        return self._store.fetch(rows)

    def unmatched(self) -> Iterator[Batch]:
        """Rows that have found no partner so far."""
        yield from self._keyless
        rows = np.flatnonzero(~self._matched[: self._chains.rows])
        for start in range(0, len(rows), OUT_ROWS):
            for _, batch in self._store.fetch(rows[start : start + OUT_ROWS]):
                yield batch
