"""Values of a column as keys of an index: bytes that compare as the values do, or texts that equal values share.

Whatever the type of a column, and of the constant it is compared with, equal values have one key: floats of both widths
as doubles, both zeros as one, every NaN as one; integers of all widths as one.
"""

from __future__ import annotations

import hashlib
import struct

import numpy as np
import pyarrow as pa

#: Ways to index a column: in order, by a Prefix Hash Tree; or by equality alone.
PHT, HASH = "pht", "hash"
USINGS = (PHT, HASH)
#: Bytes of a text that take part in the order of an index; a query looks at the rows themselves anyway.
TEXT_BYTES_MAX = 256
#: Long enough that no two values ever share a key.
EQUAL_BYTES = 16


def can_index(kind: pa.DataType) -> bool:
    """Whether values of a type have an order that bytes can have."""
    types = pa.types
    return bool(
        (types.is_integer(kind) and kind != pa.uint64())
        or types.is_floating(kind)
        or types.is_string(kind)
        or types.is_boolean(kind)
        or types.is_date(kind)
        or types.is_time(kind)
        or types.is_timestamp(kind)
    )


def ordered_keys(column: pa.Array) -> list[bytes | None]:
    """Keys of a column; None for NULL, which no condition finds."""
    return [None if key is None else key[:TEXT_BYTES_MAX] for key in _whole_keys(column)]


def equal_keys(column: pa.Array) -> list[str | None]:
    """Texts that equal values share and others do not, all of one length however long a value is."""
    return [
        None if key is None else hashlib.blake2b(key, digest_size=EQUAL_BYTES).hexdigest()
        for key in _whole_keys(column)
    ]


def _whole_keys(column: pa.Array) -> list[bytes | None]:
    kind = column.type
    if pa.types.is_string(kind):
        return [None if text is None else text.encode() for text in column.to_pylist()]
    valid = np.asarray(column.is_valid())
    if pa.types.is_floating(kind):
        numbers = _float_words(column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
    else:
        if pa.types.is_temporal(kind):
            column = column.cast(pa.int32() if kind.bit_width == 32 else pa.int64())
        whole = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        numbers = whole.view(np.uint64) ^ np.uint64(1 << 63)
    return [struct.pack(">Q", n) if there else None for n, there in zip(numbers.tolist(), valid, strict=True)]


def _float_words(values: np.ndarray) -> np.ndarray:
    """Doubles as integers in the same order: -0 is 0, and NaN the largest."""
    values = np.where(values == 0.0, 0.0, np.where(np.isnan(values), np.nan, values))
    words = np.ascontiguousarray(values).view(np.uint64)
    sign = np.uint64(1 << 63)
    return np.where(words & sign, ~words, words | sign)
