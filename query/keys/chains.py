"""Which rows have a key: chains of rows by key id, with numpy.

Each row points to the row of the same key that came before it. A look-up follows the chains of all its keys
together, so it takes as many steps as the longest chain is long. Once the steps taken have cost more than sorting
would, all rows are laid out by key, where a look-up takes one step; later rows form chains again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from query.keys.table import Ids

#: Rows that sorting handles in the time of one step of a look-up (measured: 0.1 us and 10 us).
ROWS_A_STEP = 100
#: Ways to link rows of one batch that share a key: so many rows of a key one after the other, then by sorting.
ROUNDS_MAX = 3
_CAPACITY_MIN = 256
_NONE = -1


def grown(array: Ids, size: int, fill: int | None = None) -> Ids:
    """`array` with room for `size` values at least; capacity doubles."""
    if size <= len(array):
        return array
    larger = np.empty(max(_CAPACITY_MIN, 1 << (size - 1).bit_length()), dtype=array.dtype)
    larger[: len(array)] = array
    if fill is not None:
        larger[len(array) :] = fill
    return larger


def counted(counts: Ids, ids: Ids) -> Ids:
    """`counts` of ids, zero for those that are negative or too large."""
    known = (ids >= 0) & (ids < len(counts))
    if known.all():
        return counts[ids]
    found = np.zeros(len(ids), dtype=np.int64)
    found[known] = counts[ids[known]]
    return found


def _nothing() -> npt.NDArray[np.int64]:
    return np.empty(0, dtype=np.int64)


class Chains:
    """Rows, numbered from zero in the order they are added, by the id of their key."""

    def __init__(self) -> None:
        self.rows = 0
        #: The id of each row, the row before it in its chain; the last row and the number of rows of each id.
        self._ids = _nothing()
        self._before = _nothing()
        self._heads = _nothing()
        self._counts = _nothing()
        #: Rows laid out by key: where each id's begin, and how many.
        self._order = _nothing()
        self._starts = _nothing()
        self._lengths = _nothing()
        self._steps = 0

    @property
    def nbytes(self) -> int:
        chained = (self._ids, self._before, self._heads, self._counts)
        return sum(array.nbytes for array in (*chained, self._order, self._starts, self._lengths))

    def add(self, ids: Ids) -> None:
        """Adds a row for each id; no id is negative."""
        if len(ids) == 0:
            return
        first, self.rows = self.rows, self.rows + len(ids)
        self._ids = grown(self._ids, self.rows)
        self._ids[first : self.rows] = ids
        self._before = grown(self._before, self.rows)
        self._heads = grown(self._heads, int(ids.max()) + 1, _NONE)
        self._counts = grown(self._counts, len(self._heads), 0)
        rows: Ids = np.arange(first, self.rows)
        for _ in range(ROUNDS_MAX):
            ids, rows = self._link_one_each(ids, rows)
            if len(ids) == 0:
                return
        self._link_sorted(ids, rows)

    def counts(self, ids: Ids) -> Ids:
        """How many rows have each id."""
        return counted(self._counts, ids)

    def match(self, ids: Ids) -> tuple[Ids, Ids]:
        """All pairs of a position in `ids` and a row with that id; ids may be -1, which no row has."""
        if self._steps * ROWS_A_STEP > self.rows:
            self._lay_out()
        places: list[Ids] = []
        rows: list[Ids] = []
        here = np.flatnonzero((ids >= 0) & (ids < len(self._starts)))
        if len(here):
            lengths = self._lengths[ids[here]]
            places.append(np.repeat(here, lengths))
            rows.append(self._order[_ranges(self._starts[ids[here]], lengths)])
        here = np.flatnonzero((ids >= 0) & (ids < len(self._heads)))
        last = self._heads[ids[here]]
        while True:
            there = last >= 0
            if not there.all():
                here, last = here[there], last[there]
            if len(last) == 0:
                break
            self._steps += 1
            places.append(here)
            rows.append(last)
            last = self._before[last]
        if not places:
            return _nothing(), _nothing()
        return np.concatenate(places), np.concatenate(rows)

    def _link_one_each(self, ids: Ids, rows: Ids) -> tuple[Ids, Ids]:
        """Links one row of each key and returns the others."""
        before = self._heads[ids]
        self._heads[ids] = rows
        linked = self._heads[ids] == rows
        if linked.all():
            self._before[rows] = before
            self._counts[ids] += 1
            return ids[:0], rows[:0]
        self._before[rows[linked]] = before[linked]
        self._counts[ids[linked]] += 1
        return ids[~linked], rows[~linked]

    def _link_sorted(self, ids: Ids, rows: Ids) -> None:
        order = np.argsort(ids, kind="stable")
        ids, rows = ids[order], rows[order]
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        lengths = np.diff(starts, append=len(ids))
        keys = ids[starts]
        self._before[rows[1:]] = rows[:-1]
        self._before[rows[starts]] = self._heads[keys]
        self._heads[keys] = rows[starts + lengths - 1]
        self._counts[keys] += lengths

    def _lay_out(self) -> None:
        self._steps = 0
        ids = self._ids[: self.rows]
        self._order = np.argsort(ids, kind="stable")
        self._lengths = self._counts.copy()
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._heads.fill(_NONE)


def _ranges(starts: Ids, lengths: Ids) -> Ids:
    """start, start + 1, … for each start and length, one after the other."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - ends + lengths, lengths)
