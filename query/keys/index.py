"""Keys as ids: the encoder and the hash table of one operator together."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from query.expr.columns import nulls
from query.keys.encode import Encoder, Words
from query.keys.kernels import new_table
from query.keys.table import Ids

_Call: TypeAlias = Callable[[Sequence[pa.Array], int], tuple[Ids, Ids]]


class NullKeys(enum.Enum):
    """What NULL in a key column means."""

    #: NULL equals NULL, as GROUP BY and DISTINCT say.
    EQUAL = "equal"
    #: A key with a NULL equals nothing, as joins say: its id is -1.
    NEVER = "never"


class KeyIndex:
    """A dense id for each distinct key of some columns."""

    __slots__ = ("_encoder", "_null_keys", "_table", "_wide")

    def __init__(self, columns: int, seed: int, null_keys: NullKeys = NullKeys.EQUAL) -> None:
        self._encoder = Encoder(columns)
        #: Keys have no state words until one needs them.
        self._table = new_table(columns, seed)
        self._wide = False
        self._null_keys = null_keys

    def __len__(self) -> int:
        """Distinct keys so far; ids are below."""
        return len(self._table)

    @property
    def nbytes(self) -> int:
        return self._table.nbytes + self._encoder.interned_bytes

    def add(self, columns: Sequence[pa.Array], rows: int) -> tuple[Ids, Ids]:
        """The id of each row's key, and the rows that brought a new key, ascending."""
        return self._with_nulls(columns, rows, self._add)

    def find(self, columns: Sequence[pa.Array], rows: int) -> Ids:
        """The id of each row's key; -1 where it was never added."""
        # Looking up numbers texts that are in no key; they are few, and counted.
        return self._with_nulls(columns, rows, self._find)[0]

    def _add(self, columns: Sequence[pa.Array], rows: int) -> tuple[Ids, Ids]:
        return self._table.add(self._words(columns, rows))

    def _find(self, columns: Sequence[pa.Array], rows: int) -> tuple[Ids, Ids]:
        found = self._table.find(self._words(columns, rows))
        return found, found[:0]

    def _words(self, columns: Sequence[pa.Array], rows: int) -> list[Words]:
        words, states = self._encoder.encode(columns, rows)
        if states is not None and not self._wide:
            self._wide = True
            self._table.widen(self._encoder.state_words)
        if not self._wide:
            return words
        return words + (states or [np.zeros(rows, dtype=np.uint64)] * self._encoder.state_words)

    def _with_nulls(self, columns: Sequence[pa.Array], rows: int, call: _Call) -> tuple[Ids, Ids]:
        missing = nulls(*columns) if self._null_keys is NullKeys.NEVER else None
        if missing is None:
            return call(columns, rows)
        there = np.flatnonzero(~missing)
        mask = pa.array(~missing)
        ids, fresh = call([column.filter(mask) for column in columns], len(there))
        whole: Ids = np.full(rows, -1, dtype=np.int64)
        whole[there] = ids
        return whole, there[fresh]
