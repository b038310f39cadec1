"""Casts between column types, with DuckDB's rounding, range checks and text forms.

`cast(node, type)` wraps a node; the compiler uses it for literals, for implicit promotions and for the
`cast` function. A value that the target cannot hold is a fault of its row.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import (
    BINARY,
    DATE,
    DOUBLE,
    DURATION,
    FLOAT,
    INTERVAL,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_UTC,
    type_name,
)
from query.expr import reading, writing
from query.expr.columns import INTERVAL_DTYPE, Mask, column_of, map_unique, nulls, numbers, require, whole
from query.expr.errors import EvalError, TypeClash
from query.expr.nodes import FAULTS, Call, Kernel, Literal, Node, Value

#: Every whole number of so many digits is a double.
DOUBLE_DIGITS = 15

t = pa.types


def cast(node: Node, kind: pa.DataType) -> Node:
    """`node` as values of `kind`; the node itself when it has that type. Raises TypeClash."""
    source = node.type
    if source == kind:
        return node
    kernel = cast_kernel(source, kind)
    if kernel is None:
        raise TypeClash(f"cannot cast {type_name(source)} to {type_name(kind)}")
    faults = _text_faults(kind) if source == STRING else None
    call = Call(kind, kernel, [node], faults)
    if node.constant is not None:
        try:
            return Literal(kernel(node.constant))
        except FAULTS:
            return call
    return call


def cast_kernel(source: pa.DataType, kind: pa.DataType) -> Kernel | None:
    """How values of one type become values of another; None when they cannot."""
    if source == NULL:
        return lambda value: pc.cast(value, kind)
    if source == DURATION and kind == STRING:
        as_text = writing.text_kernel(INTERVAL)
        assert as_text is not None
        return lambda value: as_text(duration_to_interval(value))
    if kind == STRING:
        return writing.text_kernel(source)
    if source == STRING:
        return _from_text(kind)
    if t.is_list(source) or t.is_struct(source) or t.is_list(kind) or t.is_struct(kind):
        return None
    if _numeric(source) and _numeric(kind):
        return _numeric_kernel(source, kind)
    return _temporal_kernel(source, kind)


def _numeric(kind: pa.DataType) -> bool:
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind) or t.is_boolean(kind))


def _numeric_kernel(source: pa.DataType, kind: pa.DataType) -> Kernel:
    if t.is_floating(source) and t.is_integer(kind):
        return _float_to_integer(kind)
    if t.is_floating(source) and t.is_decimal(kind):
        return _float_to_decimal(kind)
    if t.is_decimal(source) and (t.is_integer(kind) or t.is_decimal(kind)):
        return _decimal_kernel(source, kind)
    if t.is_decimal(source) and t.is_boolean(kind):
        zero = pa.scalar(Decimal(0), source)
        return lambda value: pc.not_equal(value, zero)
    if t.is_boolean(source) and t.is_decimal(kind):
        return lambda value: pc.cast(pc.cast(value, pa.int8()), kind)
    if t.is_integer(source) and t.is_decimal(kind):
        return _integer_to_decimal(kind)
    if t.is_floating(kind):
        return _to_float(source, kind)
    return lambda value: pc.cast(value, kind)


def _to_float(source: pa.DataType, kind: pa.DataType) -> Kernel:
    if source == DOUBLE and kind == FLOAT:

        def narrow(value: Value) -> Value:
            result = pc.cast(value, FLOAT, safe=False)
            require(pc.equal(pc.is_inf(result), pc.is_inf(value)), "value out of range for float")
            return result

        return narrow
    if t.is_decimal(source):
        exact = _decimal_to_double(source)
        return exact if kind == DOUBLE else lambda value: pc.cast(exact(value), kind, safe=False)
    return lambda value: pc.cast(value, kind, safe=False)


def _decimal_to_double(source: pa.DataType) -> Kernel:
    """The double nearest to a decimal. Arrow's is a bit beside it for one value in eight: 2.8 would not be 2.8."""
    if source.precision > DOUBLE_DIGITS or not 0 <= source.scale <= DOUBLE_DIGITS:
        return lambda value: pc.cast(pc.cast(value, STRING), DOUBLE)
    ten = pa.scalar(10.0**source.scale)

    def run(value: Value) -> Value:
        # Both the digits and the power of ten are doubles exactly, so their quotient is rounded once.
        digits = pc.round(pc.multiply(pc.cast(value, DOUBLE, safe=False), ten))
        return pc.divide(digits, ten)

    return run


def _float_to_integer(kind: pa.DataType) -> Kernel:
    """Rounds halves to even, as the processor does."""
    low, high = _range(kind)

    def run(value: Value) -> Value:
        rounded = pc.round(value, round_mode="half_to_even")
        # The upper bound is not a double for 64 bits, so it is excluded there and nowhere else.
        good = pc.and_(pc.greater_equal(rounded, low), pc.less(rounded, high))
        require(good, f"value out of range for {type_name(kind)}")
        return pc.cast(rounded, kind, safe=False)

    return run


def _range(kind: pa.DataType) -> tuple[pa.Scalar, pa.Scalar]:
    bits = kind.bit_width
    if t.is_signed_integer(kind):
        return pa.scalar(-(2.0 ** (bits - 1))), pa.scalar(2.0 ** (bits - 1))
    return pa.scalar(0.0), pa.scalar(2.0**bits)


def _float_to_decimal(kind: pa.DataType) -> Kernel:
    """Scaled as a double and then rounded, halves away from zero."""
    scale = pa.scalar(10.0**kind.scale)
    limit = pa.scalar(10.0**kind.precision)
    inner = pa.decimal256(76, 0)

    def run(value: Value) -> Value:
        scaled = pc.round(pc.multiply(pc.cast(value, DOUBLE), scale), round_mode="half_towards_infinity")
        require(pc.less(pc.abs(scaled), limit), f"value out of range for {type_name(kind)}")
        return _unscaled(pc.cast(scaled, inner), kind)

    return run


@whole
def _reinterpret(value: pa.Array, marker: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(marker.type, len(value), value.buffers(), offset=value.offset)


def _unscaled(whole_units: Value, kind: pa.DataType) -> Value:
    """Whole numbers taken as the digits of a decimal of `kind`."""
    plain = pc.cast(whole_units, _digits(kind))
    return _reinterpret(plain, pa.scalar(None, kind))


def _digits(kind: pa.DataType) -> pa.DataType:
    return pa.decimal256(kind.precision, 0) if t.is_decimal256(kind) else pa.decimal128(kind.precision, 0)


def _integer_to_decimal(kind: pa.DataType) -> Kernel:
    wide = pa.decimal256(76, 0)

    def run(value: Value) -> Value:
        return pc.cast(pc.cast(value, wide), kind)

    return run


def _decimal_kernel(source: pa.DataType, kind: pa.DataType) -> Kernel:
    """Between decimals, and to integers: halves away from zero."""
    scale = kind.scale if t.is_decimal(kind) else 0
    wide = pa.decimal256(76, max(scale, source.scale))
    loses = source.scale > scale

    def run(value: Value) -> Value:
        value = pc.cast(value, wide)
        if loses:
            value = pc.round(value, ndigits=scale, round_mode="half_towards_infinity")
        return pc.cast(value, kind)

    return run


def _temporal_kernel(source: pa.DataType, kind: pa.DataType) -> Kernel | None:
    if source == DURATION and kind == INTERVAL:
        return duration_to_interval
    if (source, kind) in _TEMPORAL_PLAIN:
        return lambda value: pc.cast(value, kind, safe=False)
    if (source, kind) == (TIMESTAMP_UTC, TIME):
        return lambda value: pc.cast(pc.cast(value, TIMESTAMP), kind)
    return None


_TEMPORAL_PLAIN = {
    (DATE, TIMESTAMP),
    (DATE, TIMESTAMP_UTC),
    (TIMESTAMP, DATE),
    (TIMESTAMP_UTC, DATE),
    (TIMESTAMP, TIMESTAMP_UTC),
    (TIMESTAMP_UTC, TIMESTAMP),
    (TIMESTAMP, TIME),
}


@whole
def duration_to_interval(value: pa.Array) -> pa.Array:
    micros = numbers(value)
    result = np.zeros(len(micros), dtype=INTERVAL_DTYPE)
    if np.any(np.abs(micros) > (2**63 - 1) // 1000):
        raise EvalError("interval out of range")
    result["nanos"] = micros * 1000
    return column_of(result, INTERVAL, nulls(value))


_READERS: dict[pa.DataType, Callable[[str], Any]] = {
    pa.bool_(): reading.read_bool,
    FLOAT: reading.read_double,
    DOUBLE: reading.read_double,
    DATE: reading.read_date,
    TIME: reading.read_time,
    TIMESTAMP: reading.read_timestamp,
    TIMESTAMP_UTC: reading.read_instant,
    INTERVAL: reading.read_interval,
    BINARY: reading.read_binary,
}


def reader(kind: pa.DataType) -> Callable[[str], Any] | None:
    """How one text becomes a value of `kind`."""
    if t.is_integer(kind):
        bits = kind.bit_width
        low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if t.is_signed_integer(kind) else (0, 2**bits)

        def read(text: str) -> int:
            value = reading.read_integer(text)
            if not low <= value < high:
                raise EvalError(f"{value} is out of range for {type_name(kind)}")
            return value

        return read
    if t.is_decimal(kind):
        return _decimal_reader(kind)
    return _READERS.get(kind)


def _decimal_reader(kind: pa.DataType) -> Callable[[str], Any]:
    limit = 10 ** (kind.precision - kind.scale)

    def read(text: str) -> Any:
        value = reading.read_decimal(text, kind.scale)
        if abs(value) >= limit:
            raise EvalError(f"{value} is out of range for {type_name(kind)}")
        return value

    return read


def _from_text(kind: pa.DataType) -> Kernel | None:
    """Arrow's parser where it agrees with DuckDB's on all it accepts; ours, by distinct value, for the rest."""
    read = reader(kind)
    if read is None:
        return None
    direct = t.is_signed_integer(kind) or t.is_floating(kind) or kind == DATE

    @whole
    def run(value: pa.Array) -> pa.Array:
        if direct:
            try:
                return _arrow_parse(value, kind)
            except pa.ArrowInvalid:
                pass  # Some text is written in a way only our reader knows, or is at fault.
        return map_unique(value, read, kind)

    return run


def _arrow_parse(value: pa.Array, kind: pa.DataType) -> pa.Array:
    if t.is_signed_integer(kind) and pc.any(pc.match_substring(value, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("hexadecimal is read by our own reader: Arrow lets it wrap around")
    return pc.cast(value, kind)


def _text_faults(kind: pa.DataType) -> Callable[..., Mask]:
    """The rows whose text is no value of `kind`."""
    read = reader(kind)
    assert read is not None

    def fails(text: str) -> bool:
        try:
            read(text)
        except EvalError:
            return True
        return False

    def faults(value: Value) -> Mask:
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, 1)
        found: Mask = map_unique(value, fails, pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False)
        return found

    return faults
