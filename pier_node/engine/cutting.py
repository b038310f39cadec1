"""Rows by key, cut into objects that an owner takes. Pure: it may run beside the loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.batch.key_text import key_column
from query.wire import encode, encode_parts

#: Rows of one key in one object, and the bytes beyond which an object is halved.
OBJECT_ROWS = 1_024
OBJECT_BYTES = 256 << 10


class Cut(NamedTuple):
    """One object: its key, its number within the key, how many rows it has, and its value."""

    key: str
    number: str
    rows: int
    value: bytes


def objects_of(rows: Batch, keys: Sequence[str]) -> Iterator[Cut]:
    """Rows by key, cut into objects; raises ValueError where a row cannot be one."""
    if rows.num_rows == 0:
        return
    encoded = key_column([rows.column(name) for name in keys]).dictionary_encode()
    names = encoded.dictionary.to_pylist()
    numbers = np.asarray(encoded.indices)
    order = np.argsort(numbers, kind="stable")
    ordered = Batch(rows.table, rows.data.take(pa.array(order)), rows.schema_id)
    present, starts = np.unique(numbers[order], return_index=True)
    ends = [*starts[1:].tolist(), len(order)]
    cuts = [
        (names[number], at - start, at, min(at + OBJECT_ROWS, end))
        for number, start, end in zip(present.tolist(), starts.tolist(), ends, strict=True)
        for at in range(start, end, OBJECT_ROWS)
    ]
    values = encode_parts(ordered, [(start, end) for *_, start, end in cuts])
    for (key, offset, start, end), value in zip(cuts, values, strict=True):
        number = str(offset // OBJECT_ROWS)
        if len(value) <= OBJECT_BYTES or end - start == 1:
            yield Cut(key, number, end - start, value)
        else:
            yield from _halved(key, number, ordered.slice(start, end - start))


def _halved(key: str, number: str, rows: Batch) -> Iterator[Cut]:
    """An object that is too large, in two or more."""
    half = rows.num_rows // 2
    for letter, part in (("a", rows.slice(0, half)), ("b", rows.slice(half))):
        value = encode(part, True)
        if len(value) <= OBJECT_BYTES or part.num_rows == 1:
            yield Cut(key, number + letter, part.num_rows, value)
        else:
            yield from _halved(key, number + letter, part)
