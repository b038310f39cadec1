"""Rows found by key: an index over the rows of a store, and the rows of a batch that match some keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.expr import MissingColumn
from query.keys.index import KeyIndex, NullKeys
from query.keys.kernels import new_chains
from query.keys.table import Ids


class Lookup:
    """An index over some columns of the rows of a store."""

    def __init__(self, columns: Sequence[str], seed: int) -> None:
        self.columns = tuple(columns)
        self._index = KeyIndex(len(columns), seed, NullKeys.NEVER)
        self._chains = new_chains()
        #: Row numbers in the store by position in the chains: rows whose key has a NULL are in no chain.
        self._numbers = np.empty(0, dtype=np.int64)
        self._parts: list[Ids] = []

    @property
    def nbytes(self) -> int:
        return self._index.nbytes + self._chains.nbytes + 8 * self._chains.rows

    def add(self, batch: Batch, numbers: Ids) -> None:
        """Adds rows and their numbers in the store. A batch without the columns matches nothing."""
        if any(name not in batch.schema.names for name in self.columns):
            return
        ids, _ = self._index.add([batch.column(name) for name in self.columns], batch.num_rows)
        there = np.flatnonzero(ids >= 0)
        self._chains.add(ids[there])
        self._parts.append(numbers[there])

    def find(self, keys: Batch) -> Ids:
        """The numbers of the rows that equal one of the keys, ascending."""
        if self._parts:
            self._numbers = np.concatenate([self._numbers, *self._parts])
            self._parts.clear()
        ids = self._index.find(key_columns(keys, self.columns), keys.num_rows)
        _, rows = self._chains.match(np.unique(ids))
        return np.sort(self._numbers[rows])


def matching(batch: Batch, keys: Batch, seed: int) -> Batch:
    """The rows of a batch that equal one of the keys in the keys' columns; all columns must be there."""
    names = keys.schema.names
    index = KeyIndex(len(names), seed, NullKeys.NEVER)
    index.add(key_columns(keys, names), keys.num_rows)
    ids = index.find(key_columns(batch, names), batch.num_rows)
    return batch.take(pa.array(ids >= 0))


def key_columns(batch: Batch, names: Sequence[str]) -> list[pa.Array]:
    for name in names:
        if name not in batch.schema.names:
            raise MissingColumn(f"no column {name!r} in {batch.table}", name, batch.schema.names)
    return [batch.column(name) for name in names]
