"""Where rows go: into partition groups by a hash of their keys, or to the owner of each key (docs/decisions/0011).

Rows that meet inside a query go by group: a few large objects per owner. Rows of a table that others will look
up go by key, as PIER says: the object's partitioning key is the text of its key columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.batch.hashing import hash_columns
from query.batch.key_text import key_column
from query.expr.columns import nulls


def by_group(
    batch: Batch, keys: list[pa.Array], groups: int, meet: str, owners: Sequence[int] | None = None
) -> Iterator[tuple[str, Batch]]:
    """The rows of each partition group, or of all groups of an owner when the owner of each group is given; in order.
    Without keys all rows are one group. Equal keys with the same `meet` are in the same group; another `meet` begins
    elsewhere, so that its rows do not pile up there."""
    shift = zlib.crc32(meet.encode()) % groups
    if not keys:
        yield str(shift if owners is None else owners[shift]), batch
        return
    numbers = ((hash_columns(keys) % np.uint64(groups)).astype(np.int64) + shift) % groups
    if owners is not None:
        numbers = np.asarray(owners, dtype=np.int64)[numbers]
    yield from parts_of(batch, numbers)


def by_key(batch: Batch, keys: list[pa.Array]) -> Iterator[tuple[str, Batch]]:
    """The rows of each key."""
    encoded = key_column(keys).dictionary_encode()
    yield from parts_of(batch, np.asarray(encoded.indices).astype(np.int64), encoded.dictionary.to_pylist())


def without_nulls(batch: Batch, keys: list[pa.Array]) -> tuple[Batch, list[pa.Array]]:
    """The rows that have all their keys: no other can equal anything."""
    missing = nulls(*keys)
    if missing is None:
        return batch, keys
    there = pa.array(~missing)
    return batch.take(there), [key.filter(there) for key in keys]


def parts_of(
    batch: Batch, numbers: np.ndarray, names: list[str] | None = None
) -> Iterator[tuple[str, Batch]]:
    """The rows of each number, under its name; numbers without names are called as they are."""
    order = np.argsort(numbers, kind="stable")
    ordered = Batch(batch.table, batch.data.take(pa.array(order)), batch.schema_id)
    present, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:].tolist(), len(numbers)]
    for number, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True):
        yield str(number) if names is None else names[number], ordered.slice(start, end - start)
