"""Rows kept in memory in the order they came, fetched by number: what a join or a cache holds.

Batches of one schema are merged into runs of doubling size, so that a look-up of many rows takes a few kernel calls
whatever the size of the batches that brought them, and each row is copied a logarithmic number of times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from query.batch import Batch, SchemaId, concat
from query.keys.chains import grown
from query.keys.table import Ids

#: Bytes of one run: text columns of Arrow hold 2 GB.
RUN_BYTES_MAX = 256 << 20


@dataclass(slots=True)
class _Group:
    """Rows of one table and schema."""

    runs: list[Batch] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    #: The number of each run's first row within the group.
    starts: list[int] = field(default_factory=list)
    rows: int = 0

    def append(self, batch: Batch) -> None:
        size = batch.nbytes
        self.starts.append(self.rows)
        self.runs.append(batch)
        self.sizes.append(size)
        self.rows += batch.num_rows
        while len(self.runs) > 1 and self._pays():
            last, size = self.runs.pop(), self.sizes.pop()
            self.starts.pop()
            self.runs[-1] = concat([self.runs[-1], last])
            self.sizes[-1] += size

    def _pays(self) -> bool:
        last, before = self.runs[-1], self.runs[-2]
        return 2 * last.num_rows > before.num_rows and self.sizes[-1] + self.sizes[-2] <= RUN_BYTES_MAX


class RowStore:
    """Rows of any schemas, numbered from zero as they come."""

    def __init__(self) -> None:
        self.rows = 0
        self.nbytes = 0
        self._groups: list[_Group] = []
        self._numbers: dict[tuple[str, SchemaId], int] = {}
        #: Group and place in it of each row, once there is more than one group.
        self._group_of: Ids = np.empty(0, dtype=np.int64)
        self._place_of: Ids = np.empty(0, dtype=np.int64)

    def append(self, batch: Batch) -> None:
        number = self._group(batch)
        group = self._groups[number]
        first, self.rows = self.rows, self.rows + batch.num_rows
        if len(self._groups) > 1:
            self._group_of = grown(self._group_of, self.rows)
            self._place_of = grown(self._place_of, self.rows)
            self._group_of[first : self.rows] = number
            self._place_of[first : self.rows] = np.arange(group.rows, group.rows + batch.num_rows)
        group.append(batch)
        self.nbytes += batch.nbytes

    def fetch(self, rows: Ids) -> Iterator[tuple[Ids | None, Batch]]:
        """Batches of the rows wanted, each with the places in `rows` it answers; None: all, in order."""
        if len(self._groups) == 1:
            yield from _fetch(self._groups[0], rows, None)
            return
        groups = self._group_of[rows]
        for number in np.unique(groups):
            places = np.flatnonzero(groups == number)
            yield from _fetch(self._groups[number], self._place_of[rows[places]], places)

    def numbered(self) -> Iterator[tuple[Ids, Batch]]:
        """All rows, schema by schema, with their numbers."""
        for number, group in enumerate(list(self._groups)):
            alone = len(self._groups) == 1
            numbers = np.arange(self.rows) if alone else np.flatnonzero(self._group_of[: self.rows] == number)
            for start, run in zip(list(group.starts), list(group.runs), strict=True):
                yield numbers[start : start + run.num_rows], run

    def _group(self, batch: Batch) -> int:
        key = (batch.table, batch.schema_id)
        number = self._numbers.get(key)
        if number is None:
            if len(self._groups) == 1:
                # From now on rows must say where they are; so far all were in the only group, in order.
                self._group_of = np.zeros(self.rows, dtype=np.int64)
                self._place_of = np.arange(self.rows)
            number = self._numbers[key] = len(self._groups)
            self._groups.append(_Group())
        return number


def _fetch(group: _Group, rows: Ids, places: Ids | None) -> Iterator[tuple[Ids | None, Batch]]:
    if len(group.runs) == 1:
        yield places, taken(group.runs[0], rows)
        return
    run_of = np.searchsorted(np.array(group.starts), rows, side="right") - 1
    for number in np.flatnonzero(np.bincount(run_of, minlength=len(group.runs))):
        here = np.flatnonzero(run_of == number)
        batch = taken(group.runs[number], rows[here] - group.starts[number])
        yield here if places is None else places[here], batch


def taken(batch: Batch, rows: Ids) -> Batch:
    """The rows of a batch by number, in the order asked for."""
    return Batch(batch.table, batch.data.take(pa.array(rows)), batch.schema_id)
