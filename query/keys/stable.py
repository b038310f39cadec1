"""A hash of key columns that is the same on every node and in every version: for Bloom filters and partitions.

It depends on values only, not on how a batch was built, what was seen before, or how wide an integer's column is.
Texts and other values without a fixed width are hashed once for each distinct value of a batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.keys.encode import INTERNED_STATE, Encoder, Words
from query.keys.table import hash_words

#: The start of every hash; changing it makes filters and partitions of other versions unreadable.
SEED = 0x5049_4552


def stable_hash(columns: Sequence[pa.Array], rows: int) -> Words:
    """A 64-bit hash of each row's key. NULLs hash alike."""
    words: list[Words] = []
    for column in columns:
        kind = column.type
        if pa.types.is_decimal(kind) or kind == pa.uint64():
            words += _exact(column, rows)
        elif pa.types.is_primitive(kind) or pa.types.is_null(kind):
            words += _read(column, rows)
        else:
            words.append(_hashed(column))
    return hash_words(words, SEED) if words else np.zeros(rows, dtype=np.uint64)


def _read(column: pa.Array, rows: int) -> list[Words]:
    words, states = Encoder(1).encode([column], rows)
    return words + (states or [np.zeros(rows, dtype=np.uint64)])


def _exact(column: pa.Array, rows: int) -> list[Words]:
    """Numbers that are no 64-bit integer have no word of their own: they are hashed as texts."""
    word, state = _read(column, rows)
    word = word.copy()
    for row in np.flatnonzero(state == INTERNED_STATE):
        value = column[int(row)].as_py()
        word[row] = _digest(str(value.normalize()) if isinstance(value, Decimal) else str(value))
    return [word, state]


def _hashed(column: pa.Array) -> Words:
    if pa.types.is_nested(column.type) or column.type == pa.month_day_nano_interval():
        return np.array([_digest(value) for value in column.to_pylist()], dtype=np.uint64)
    encoded = column.dictionary_encode()
    digests = [_digest(value) for value in encoded.dictionary.to_pylist()]
    table: Words = np.array([*digests, _digest(None)], dtype=np.uint64)
    places = pc.fill_null(encoded.indices, len(digests)).to_numpy(zero_copy_only=False)
    found: Words = table[places]
    return found


def _digest(value: Any) -> int:
    data = value if isinstance(value, bytes) else repr(value).encode() if value is not None else b"\0"
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
