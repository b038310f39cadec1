"""Sums of integers that never wrap.

Arrow's grouped sum of 64-bit integers wraps silently. Integers are summed as such while their number and
size make an overflow impossible, and as 38-digit decimals otherwise, so a sum is right or an error, never wrong.
Results that fit are 64-bit integers again, whatever way they were computed.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from query.expr.errors import EvalError

WIDE = pa.decimal128(38, 0)
_INT64_MAX = (1 << 63) - 1
_INT64_MIN = -(1 << 63)


def is_summable(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_null(kind)
    )


def summable(column: pa.Array) -> pa.Array:
    """A column whose grouped sums cannot wrap, from one of a summable type."""
    kind = column.type
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_decimal(kind):
        return column.cast(pa.decimal128(38, kind.scale))
    if kind == pa.uint64():
        return column.cast(WIDE)
    column = column.cast(pa.int64())
    extremes = pc.min_max(column)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is None or max(-low, high) * len(column) <= _INT64_MAX:
        return column
    return column.cast(WIDE)


def narrowed(column: pa.Array) -> pa.Array:
    """Whole-number decimals as 64-bit integers where all of them fit."""
    if column.type != WIDE:
        return column
    extremes = pc.min_max(column)
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    if low is None or (low >= _INT64_MIN and high <= _INT64_MAX):
        return column.cast(pa.int64())
    return column


def as_double(column: pa.Array) -> pa.Array:
    """A numeric column as 64-bit floats."""
    try:
        return column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid as error:
        raise EvalError(str(error)) from None
