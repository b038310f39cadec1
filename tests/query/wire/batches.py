"""Batches of every type, with extremes and NULLs, for the tests of the wire."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pyarrow as pa

from query.batch import Batch

TYPES: list[pa.DataType] = [
    pa.null(),
    pa.bool_(),
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    pa.float32(),
    pa.float64(),
    pa.decimal128(10, 2),
    pa.decimal128(38, 0),
    pa.decimal256(60, 5),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.duration("us"),
    pa.month_day_nano_interval(),
    pa.list_(pa.string()),
    pa.list_(pa.list_(pa.int64())),
    pa.struct([("x", pa.int64()), ("y", pa.list_(pa.decimal128(5, 1)))]),
]
_TEXTS = ["", "a", "10.1.2.3", "äöü", "日本", "x" * 300, "\x00", "👨‍👩‍👧"]


def value(kind: pa.DataType, rng: random.Random) -> Any:
    t = pa.types
    if t.is_boolean(kind):
        return rng.random() < 0.5
    if t.is_integer(kind) or t.is_date32(kind) or t.is_timestamp(kind) or t.is_duration(kind):
        bits = kind.bit_width
        low, high = (
            (0, 2**bits - 1) if t.is_unsigned_integer(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )
        return rng.choice([low, high, max(low, -1), 0, 1, min(high, rng.randrange(1000))])
    if t.is_time64(kind):
        return rng.choice([0, 1, 86_400_000_000 - 1, rng.randrange(86_400_000_000)])
    if t.is_floating(kind):
        return rng.choice([0.0, -0.0, 1.5, float("inf"), -1e30, rng.randrange(100) / 4])
    if t.is_decimal(kind):
        digits = rng.randrange(1, kind.precision + 1)
        return Decimal(rng.randrange(-(10**digits) + 1, 10**digits)).scaleb(-kind.scale)
    if t.is_string(kind):
        return rng.choice(_TEXTS)
    if t.is_binary(kind):
        return rng.choice(_TEXTS).encode() + bytes([rng.randrange(256)])
    if t.is_list(kind):
        return [maybe(kind.value_type, rng) for _ in range(rng.randrange(4))]
    if t.is_struct(kind):
        return {f.name: maybe(f.type, rng) for f in kind}
    return pa.MonthDayNano(
        [rng.randrange(-5, 5), rng.randrange(-(2**31), 2**31), rng.choice([0, -(2**62), 999])]
    )


def maybe(kind: pa.DataType, rng: random.Random, nulls: float = 0.2) -> Any:
    return None if pa.types.is_null(kind) or rng.random() < nulls else value(kind, rng)


def column(kind: pa.DataType, rows: int, rng: random.Random) -> pa.Array:
    nulls = rng.choice([0.0, 0.2, 1.0])
    values = [maybe(kind, rng, nulls) for _ in range(rows)]
    if pa.types.is_date32(kind):
        return pa.array(values, type=pa.int32()).view(kind)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        return pa.array(values, type=pa.int64()).view(kind)
    return pa.array(values, type=kind)


def random_batch(seed: int, rows: int, columns: int) -> Batch:
    """A slice of a larger batch half of the time, so that offsets are not always zero."""
    rng = random.Random(seed)
    before = rng.choice([0, 0, 3, 9])
    kinds = [rng.choice(TYPES) for _ in range(columns)]
    arrays = [column(k, rows + before + 2, rng) for k in kinds]
    data = pa.RecordBatch.from_arrays(arrays, names=[f"c{i}" for i in range(columns)])
    return Batch(rng.choice(["", "fw", "日本"]), data.slice(before, rows))
