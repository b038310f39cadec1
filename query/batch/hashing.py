"""Hashes of rows by some columns: the same for equal values on every node, whatever the batch.

Rows that must meet are sent to the same partition group by this hash (docs/decisions/0011), so it may depend on
nothing but the values: not on the process, nor on whether a number came as 16 or 64 bits. One vectorised pass a column.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Hashes: TypeAlias = npt.NDArray[np.uint64]

_NULL = np.uint64(0x6E756C6C)
#: The largest double below 2^63: decimals up to it are exact as 64-bit integers.
_INT64_SAFE = np.nextafter(2.0**63, 0.0)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
#: Odd, so that powers of it differ; the value of FNV's 64-bit prime.
_PRIME = np.uint64(0x100000001B3)


def hash_columns(columns: list[pa.Array]) -> Hashes:
    """A 64-bit hash for each row; no columns hash all rows alike."""
    combined: Hashes | None = None
    for column in columns:
        hashes = _column(column)
        with np.errstate(over="ignore"):
            combined = hashes if combined is None else _mix(combined * _MULTIPLIER + hashes)
    assert combined is not None, "at least one column"
    return combined


def _column(column: pa.Array) -> Hashes:
    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), _mix(np.array([_NULL]))[0])
    valid = None if column.null_count == 0 else np.asarray(column.is_valid())
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashes = _texts(column)
    elif pa.types.is_floating(kind):
        hashes = _floats(column)
    elif pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        hashes = _integers(column)
    elif pa.types.is_decimal(kind):
        hashes = _decimals(column)
    elif pa.types.is_temporal(kind):
        hashes = _integers(column.cast(pa.int32() if kind.bit_width == 32 else pa.int64()))
    else:
        hashes = _others(column)
    return hashes if valid is None else np.where(valid, hashes, _mix(np.array([_NULL]))[0])


def _mix(values: Hashes) -> Hashes:
    """SplitMix64's finaliser."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return values ^ (values >> np.uint64(31))


def _integers(column: pa.Array) -> Hashes:
    wide = column.fill_null(False if pa.types.is_boolean(column.type) else 0)
    if column.type != pa.uint64():
        wide = wide.cast(pa.int64())
    return _mix(np.asarray(wide).view(np.uint64) + np.uint64(1))


def _floats(column: pa.Array) -> Hashes:
    """Whole numbers hash as integers do, so that 2 and 2.0 meet; both zeros and all NaNs are one value each."""
    values = np.asarray(column.fill_null(0.0).cast(pa.float64())) + 0.0
    values = np.where(np.isnan(values), np.nan, values)
    whole = (np.floor(values) == values) & (np.abs(values) < 2.0**62)
    as_integer = np.where(whole, values, 0.0).astype(np.int64).view(np.uint64) + np.uint64(1)
    return _mix(np.where(whole, as_integer, values.view(np.uint64)))


def _decimals(column: pa.Array) -> Hashes:
    """Whole numbers hash as integers do, others as the floating-point number next to them: 2, 2.0 and 2.00 meet."""
    filled = column.fill_null(0)
    near = np.asarray(filled.cast(pa.float64(), safe=False))
    small = np.abs(near) < _INT64_SAFE
    whole = np.zeros(len(filled), np.int64)
    inside = filled.filter(pa.array(small)).cast(pa.decimal256(76, column.type.scale))
    cut = pc.trunc(inside)
    whole[small] = np.asarray(cut.cast(pa.int64(), safe=False))
    is_whole = np.zeros(len(filled), np.bool_)
    is_whole[small] = np.asarray(pc.equal(cut, inside))
    integers = _mix(whole.view(np.uint64) + np.uint64(1))
    return np.where(is_whole, integers, _floats(pa.array(near)))


def _texts(column: pa.Array) -> Hashes:
    """Each distinct text once: columns of logs repeat themselves."""
    encoded = column.dictionary_encode()
    distinct = _polynomials(encoded.dictionary.cast(pa.binary()))
    if len(distinct) == 0:
        return np.zeros(len(column), np.uint64)
    hashes: Hashes = distinct[np.asarray(encoded.indices.fill_null(0))]
    return hashes


def _polynomials(column: pa.Array) -> Hashes:
    """A polynomial over the bytes, computed for all texts at once: sums of byte x power between two offsets."""
    rows = len(column)
    _, offset_buffer, data_buffer = column.buffers()
    if rows == 0:
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(offset_buffer, np.int32, rows + 1 + column.offset)[column.offset :].astype(
        np.int64
    )
    start, end = offsets[0], offsets[-1]
    lengths = np.diff(offsets)
    if end == start:
        return _mix(np.ones(rows, np.uint64))
    data = np.frombuffer(data_buffer, np.uint8)[start:end]
    at = np.arange(end - start) - np.repeat(offsets[:-1] - start, lengths)
    with np.errstate(over="ignore"):
        powers = np.cumprod(np.full(int(lengths.max()) + 1, _PRIME))
        terms = (data.astype(np.uint64) + np.uint64(1)) * powers[at]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms, dtype=np.uint64)])
        hashes = sums[offsets[1:] - start] - sums[offsets[:-1] - start]
        return _mix(hashes + lengths.astype(np.uint64) + np.uint64(1))


def _others(column: pa.Array) -> Hashes:
    """Lists and structs: the distinct values by their text."""
    encoded = column.dictionary_encode()
    distinct = np.array([_text_hash(value) for value in encoded.dictionary.to_pylist()] or [0], np.uint64)
    hashes: Hashes = distinct[np.asarray(encoded.indices.fill_null(0))]
    return hashes


def _text_hash(value: object) -> int:
    normal = getattr(value, "normalize", None)
    text = str(normal() if normal is not None else value)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
