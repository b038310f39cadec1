"""Arithmetic over dates, times, timestamps and intervals.

An interval is months, days and a time, each with its own sign, as SQL has it: a month is added on the
calendar (31 January and a month is the last of February), a day is 24 hours because everything is UTC.
Batches hold it as Arrow's month-day-nano interval; here it is three numpy columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import (
    DATE,
    DOUBLE,
    DURATION,
    INT64,
    INTERVAL,
    NULL,
    TIME,
    TIMESTAMP,
    TIMESTAMP_UTC,
    type_name,
)
from query.expr.casts import cast
from query.expr.coerce import convert, is_number, is_text_literal, want
from query.expr.columns import INTERVAL_DTYPE, Mask, Numbers, column_of, nulls, numbers, whole
from query.expr.errors import EvalError, TypeClash
from query.expr.nodes import Call, Node
from query.expr.reading import MICROS_DAY

_MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_UTC)
_TEMPORAL = (*_MOMENTS, TIME, INTERVAL, DURATION)
_MONTH_MICROS = 30 * MICROS_DAY


def temporal_arithmetic(name: str, args: Sequence[Node]) -> Node | None:
    """The node of an arithmetic call over time; None when no argument is temporal."""
    if not any(a.type in _TEMPORAL for a in args):
        return None
    args = [convert(a, INTERVAL) if a.type == DURATION else a for a in args]
    if name == "negate" and args[0].type == INTERVAL:
        return Call(INTERVAL, _negated, args)
    bound = _BINDERS[name](args) if name in _BINDERS else None
    if bound is None:
        kinds = " and ".join(type_name(a.type) for a in args)
        raise TypeClash(f"{name} does not take {kinds}")
    return bound


def _add(args: Sequence[Node]) -> Node | None:
    left, right = args
    if left.type == INTERVAL and right.type in (*_MOMENTS, TIME):
        left, right = right, left
    if left.type in _MOMENTS and (right.type in (INTERVAL, NULL) or is_text_literal(right)):
        return _shift(left, convert(right, INTERVAL), 1)
    if DATE in (left.type, right.type):
        day, count = (left, right) if left.type == DATE else (right, left)
        return _add_days(day, count, 1)
    return _times_and_intervals(left, right, 1)


def _subtract(args: Sequence[Node]) -> Node | None:
    left, right = args
    if left.type == DATE and right.type == DATE:
        return Call(INT64, lambda x, y: pc.subtract(_days(x), _days(y)), args)
    if left.type in _MOMENTS and right.type in _MOMENTS:
        kind = TIMESTAMP_UTC if TIMESTAMP_UTC in (left.type, right.type) else TIMESTAMP
        return Call(INTERVAL, _difference, [cast(left, kind), cast(right, kind)])
    if left.type in _MOMENTS and right.type == INTERVAL:
        return _shift(left, right, -1)
    if left.type == DATE:
        return _add_days(left, right, -1)
    return _times_and_intervals(left, right, -1)


def _days(value: pa.Array) -> pa.Array:
    return pc.cast(pc.cast(value, pa.int32()), INT64)


def _add_days(day: Node, count: Node, sign: int) -> Node | None:
    if not pa.types.is_integer(count.type):
        return None
    kernel = pc.add_checked if sign > 0 else pc.subtract_checked

    def run(x: pa.Array, y: pa.Array) -> pa.Array:
        return pc.cast(pc.cast(kernel(_days(x), y), pa.int32()), DATE)

    return Call(DATE, run, [day, want(count, INT64, "date arithmetic")])


def _shift(moment: Node, interval: Node, sign: int) -> Node:
    kind = TIMESTAMP_UTC if moment.type == TIMESTAMP_UTC else TIMESTAMP

    @whole
    def run(x: pa.Array, y: pa.Array) -> pa.Array:
        null = nulls(x, y)
        months, days, time = (sign * part for part in parts(y))
        start = _held(numbers(x), null)
        if kind == TIMESTAMP_UTC:
            # With a zone the time of day moves first, as DuckDB's calendar does it.
            zero = np.zeros_like(months)
            return column_of(shift(checked_add(start, time), months, days, zero), kind, null)
        return column_of(shift(start, months, days, time), kind, null)

    return Call(kind, run, [cast(moment, kind), interval])


def _held(values: Numbers, null: Mask | None) -> Numbers:
    """Values with zero where NULL, since a NULL slot holds anything and must not overflow."""
    return values if null is None else np.where(null, 0, values)


def parts(column: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """Months, days and microseconds, zero where NULL."""
    raw = numbers(column, INTERVAL_DTYPE)
    null = nulls(column)
    months, days = raw["months"].astype(np.int64), raw["days"].astype(np.int64)
    micros = raw["nanos"] // 1000
    return _held(months, null), _held(days, null), _held(micros, null)


def shift(micros: Numbers, months: Numbers, days: Numbers, time: Numbers) -> Numbers:
    """Timestamps moved by intervals: months on the calendar first, then days and time."""
    if np.any(months):
        micros = _add_months(micros, months)
    total = checked_add(days * MICROS_DAY if _fits(days) else _overflow(), time)
    return checked_add(micros, total)


def _fits(days: Numbers) -> bool:
    return not days.size or int(np.abs(days).max()) <= (2**63 - 1) // MICROS_DAY


def _overflow() -> Numbers:
    raise EvalError("timestamp or interval out of range")


def checked_add(x: Numbers, y: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        total: Numbers = x + y
    if np.any(((x ^ total) & (y ^ total)) < 0):
        _overflow()
    return total


def _add_months(micros: Numbers, months: Numbers) -> Numbers:
    day, clock = np.divmod(micros, MICROS_DAY)
    dates = day.astype("datetime64[D]")
    start = dates.astype("datetime64[M]")
    of_month = (dates - start.astype("datetime64[D]")).astype(np.int64)
    moved = start + months.astype("timedelta64[M]")
    first = moved.astype("datetime64[D]")
    length = ((moved + np.timedelta64(1, "M")).astype("datetime64[D]") - first).astype(np.int64)
    days = first.astype(np.int64) + np.minimum(of_month, length - 1)
    if not _fits(days):
        _overflow()
    return checked_add(days * MICROS_DAY, clock)


@whole
def _difference(x: pa.Array, y: pa.Array) -> pa.Array:
    """Whole days and the rest, both cut toward zero."""
    null = nulls(x, y)
    apart = checked_add(_held(numbers(x), null), -_held(numbers(y), null))
    days = (np.abs(apart) // MICROS_DAY) * np.sign(apart)
    return interval_column([np.zeros_like(days), days, apart - days * MICROS_DAY], null)


def interval_column(span: Sequence[Numbers], null: Mask | None) -> pa.Array:
    """Months, days and microseconds as a column; raises when a part is out of range."""
    months, days, micros = span
    for part, limit in ((months, 2**31 - 1), (days, 2**31 - 1), (micros, (2**63 - 1) // 1000)):
        if part.size and int(np.abs(part).max()) > limit:
            _overflow()
    result = np.zeros(len(days), dtype=INTERVAL_DTYPE)
    result["months"], result["days"], result["nanos"] = months, days, micros * 1000
    return column_of(result, INTERVAL, null)


def _times_and_intervals(left: Node, right: Node, sign: int) -> Node | None:
    if left.type == TIME and right.type == INTERVAL:
        return Call(TIME, _shift_time(sign), [left, right])
    try:
        args = [want(a, INTERVAL, "interval arithmetic") for a in (left, right)]
    except TypeClash:
        return None

    @whole
    def run(x: pa.Array, y: pa.Array) -> pa.Array:
        sums = [checked_add(a, sign * b) for a, b in zip(parts(x), parts(y), strict=True)]
        return interval_column(sums, nulls(x, y))

    return Call(INTERVAL, run, args)


def _shift_time(sign: int) -> Callable[..., pa.Array]:
    """A clock goes round: only the time of the interval counts."""

    @whole
    def run(x: pa.Array, y: pa.Array) -> pa.Array:
        null = nulls(x, y)
        time = np.mod(_held(numbers(x), null) + sign * np.fmod(parts(y)[2], MICROS_DAY), MICROS_DAY)
        return column_of(time, TIME, null)

    return run


@whole
def _negated(x: pa.Array) -> pa.Array:
    return interval_column([-part for part in parts(x)], nulls(x))


def _multiply(args: Sequence[Node]) -> Node | None:
    left, right = args
    if right.type == INTERVAL:
        left, right = right, left
    if left.type != INTERVAL or not is_number(right.type):
        return None
    if pa.types.is_integer(right.type):
        return Call(INTERVAL, _multiplied, [left, want(right, INT64, "interval arithmetic")])
    return Call(INTERVAL, _scaled, [left, cast(right, DOUBLE)])


@whole
def _multiplied(x: pa.Array, y: pa.Array) -> pa.Array:
    null = nulls(x, y)
    by = _held(numbers(y), null)
    products = []
    for part in parts(x):
        with np.errstate(over="ignore"):
            product = part * by
        if np.any(np.abs(part.astype(np.float64) * by) > float(2**62)):
            _overflow()
        products.append(product)
    return interval_column(products, null)


@whole
def _scaled(x: pa.Array, y: pa.Array) -> pa.Array:
    """By a fraction: what does not make a whole month becomes days, of a day becomes time."""
    null = nulls(x, y)
    return _fraction(parts(x), _held(numbers(y, np.float64), null), null)


def _fraction(span: tuple[Numbers, Numbers, Numbers], by: Numbers, null: Mask | None) -> pa.Array:
    if not np.all(np.isfinite(by)):
        _overflow()
    months, days = span[0] * by, span[1] * by
    whole_months = np.trunc(months)
    more_days = (months - whole_months) * 30
    whole_days = np.trunc(days) + np.trunc(more_days)
    micros = np.round(span[2] * by + (days + more_days - whole_days) * MICROS_DAY)
    for part, limit in ((whole_months, 2.0**31), (whole_days, 2.0**31), (micros, 2.0**53)):
        if part.size and np.abs(part).max() >= limit:
            _overflow()
    return interval_column([p.astype(np.int64) for p in (whole_months, whole_days, micros)], null)


def _divide(args: Sequence[Node]) -> Node | None:
    left, right = args
    if left.type != INTERVAL or not is_number(right.type):
        return None

    @whole
    def run(x: pa.Array, y: pa.Array) -> pa.Array:
        null = nulls(x, y)
        by = _held(numbers(y, np.float64), null)
        zero = by == 0
        null = zero if null is None else null | zero
        return _fraction(parts(x), 1.0 / np.where(zero, 1.0, by), null)

    return Call(INTERVAL, run, [left, cast(right, DOUBLE)])


_BINDERS: dict[str, Callable[[Sequence[Node]], Node | None]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _divide,
}


def order_key(column: pa.Array) -> tuple[Numbers, Numbers, Numbers]:
    """Months, days and time after whole 30 days are counted as months and 24 hours as days: how SQL compares."""
    months, days, micros = parts(column)
    months = months + cut(days, 30) + cut(micros, _MONTH_MICROS)
    days = days - cut(days, 30) * 30
    micros = micros - cut(micros, _MONTH_MICROS) * _MONTH_MICROS
    return months, days + cut(micros, MICROS_DAY), micros - cut(micros, MICROS_DAY) * MICROS_DAY


def cut(value: Numbers, by: int) -> Numbers:
    """Division toward zero."""
    quotient: Numbers = (np.abs(value) // by) * np.sign(value)
    return quotient
