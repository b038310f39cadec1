"""Values to text as DuckDB writes it: what `cast(x, "string")`, `concat` and `||` show.

Integers, booleans, dates and decimals have Arrow kernels that agree; floats, times and intervals are
composed here, column by column where a kernel exists and by distinct value where none does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import BINARY, DATE, FLOAT, INTERVAL, STRING, TIME, TIMESTAMP, TIMESTAMP_UTC
from query.expr.columns import map_unique, whole
from query.expr.nodes import Kernel, Value

t = pa.types


def text_kernel(kind: pa.DataType) -> Kernel | None:
    """How values of `kind` become text; None for lists and structs."""
    if kind in _KERNELS:
        return _KERNELS[kind]
    if t.is_integer(kind) or t.is_boolean(kind):
        return lambda value: pc.cast(value, STRING)
    if t.is_decimal(kind):
        return _decimal
    if kind == FLOAT:
        return _float
    if t.is_floating(kind):
        return _double
    return None


@whole
def _decimal(value: pa.Array) -> pa.Array:
    return map_unique(value, lambda v: format(v, "f"), STRING)


@whole
def _double(value: pa.Array) -> pa.Array:
    """Shortest text that reads back the same, which is Python's repr."""
    return map_unique(value, repr, STRING)


@whole
def _float(value: pa.Array) -> pa.Array:
    return map_unique(value, lambda v: _float_text(np.float32(v)), STRING)


def _float_text(value: Any) -> str:
    if not np.isfinite(value):
        return repr(float(value))
    size = abs(value)
    if size != 0 and not 1e-4 <= size < 1e16:
        return np.format_float_scientific(value, unique=True, trim="-", exp_digits=2)
    return np.format_float_positional(value, unique=True, trim="0")


def _date(value: Value) -> Value:
    return pc.cast(value, STRING)


def _timestamp(value: Value) -> Value:
    return _trimmed(pc.cast(pc.cast(value, TIMESTAMP), STRING))


def _timestamp_utc(value: Value) -> Value:
    text = _timestamp(value)
    return pc.binary_join_element_wise(text, pa.scalar("+00"), pa.scalar(""))


def _time(value: Value) -> Value:
    return _trimmed(pc.cast(value, STRING))


def _trimmed(text: Value) -> Value:
    """Without the zeros of the fraction, and without a fraction of zero."""
    return pc.replace_substring_regex(text, pattern=r"(\.\d*[1-9])0+$|\.0+$", replacement=r"\1")


@whole
def _interval(value: pa.Array) -> pa.Array:
    return pa.array([None if v is None else interval_text(v) for v in value.to_pylist()], type=STRING)


def interval_text(value: Any) -> str:
    """`1 year 2 months 3 days 04:05:06.5`; each part keeps its own sign."""
    years, months = _divide(value.months, 12)
    parts = [_counted(years, "year"), _counted(months, "month"), _counted(value.days, "day")]
    micros = _divide(value.nanoseconds, 1000)[0]
    if micros or not any(parts):
        seconds, fraction = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        tail = f".{fraction:06d}".rstrip("0") if fraction else ""
        parts.append(("-" if micros < 0 else "") + clock + tail)
    return " ".join(p for p in parts if p)


def _divide(value: int, by: int) -> tuple[int, int]:
    """Division toward zero."""
    whole_part, rest = divmod(abs(value), by)
    return (-whole_part, -rest) if value < 0 else (whole_part, rest)


def _counted(count: int, unit: str) -> str:
    return "" if count == 0 else f"{count} {unit}" + ("" if abs(count) == 1 else "s")


@whole
def _binary(value: pa.Array) -> pa.Array:
    return map_unique(value, binary_text, STRING)


def binary_text(value: bytes) -> str:
    r"""Printable ASCII as it is, other bytes, quotes and backslashes as `\xAA`."""
    return "".join(chr(b) if 32 <= b <= 126 and b not in _ESCAPED else f"\\x{b:02X}" for b in value)


_ESCAPED = frozenset(b"\\'\"")


_KERNELS: dict[pa.DataType, Kernel] = {
    BINARY: _binary,
    DATE: _date,
    TIME: _time,
    TIMESTAMP: _timestamp,
    TIMESTAMP_UTC: _timestamp_utc,
    INTERVAL: _interval,
}
