"""The parts of dates, times and intervals by name: what `extract`, `date_trunc` and `date_diff` share.

Everything is counted in UTC on the proleptic Gregorian calendar. A timestamp is microseconds since 1970;
numpy's datetime64 does the calendar.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import DATE, DOUBLE, INT64, TIME, TIMESTAMP
from query.expr.columns import Numbers
from query.expr.errors import BadLiteral, shown, suggestion
from query.expr.nodes import Kernel, Value
from query.expr.reading import MICROS_DAY

DAY_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTH_NAMES = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)

#: Every accepted name of a part, and the part.
PARTS = {
    **dict.fromkeys(("year", "years", "y", "yr", "yrs"), "year"),
    **dict.fromkeys(("month", "months", "mon", "mons"), "month"),
    **dict.fromkeys(("day", "days", "d", "dayofmonth"), "day"),
    **dict.fromkeys(("hour", "hours", "h", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "minutes", "m", "min", "mins"), "minute"),
    **dict.fromkeys(("second", "seconds", "s", "sec", "secs"), "second"),
    **dict.fromkeys(("millisecond", "milliseconds", "ms", "msec", "msecs"), "millisecond"),
    **dict.fromkeys(("microsecond", "microseconds", "us", "usec", "usecs"), "microsecond"),
    **dict.fromkeys(("week", "weeks", "w", "weekofyear"), "week"),
    **dict.fromkeys(("quarter", "quarters"), "quarter"),
    **dict.fromkeys(("decade", "decades", "dec", "decs"), "decade"),
    **dict.fromkeys(("century", "centuries", "cent", "c"), "century"),
    **dict.fromkeys(("millennium", "millennia", "mil"), "millennium"),
    **dict.fromkeys(("dow", "dayofweek", "weekday"), "dow"),
    **dict.fromkeys(("doy", "dayofyear"), "doy"),
    "isodow": "isodow",
    "isoyear": "isoyear",
    "yearweek": "yearweek",
    "epoch": "epoch",
}


def part_named(name: str) -> str:
    """The part of a name; raises BadLiteral."""
    part = PARTS.get(name.lower())
    if part is None:
        raise BadLiteral(f"unknown part of time {shown(name)}{suggestion(name.lower(), PARTS)}")
    return part


def _long(kernel: Callable[[Value], Value]) -> Kernel:
    return lambda v: pc.cast(kernel(v), INT64)


def _second_micros(v: Value) -> Value:
    """Microseconds since the full minute."""
    thousands = pc.add(pc.multiply(pc.second(v), pa.scalar(1000)), pc.millisecond(v))
    return pc.add(pc.multiply(thousands, pa.scalar(1000)), pc.microsecond(v))


def _years(divide: Callable[[Numbers], Numbers]) -> Kernel:
    def run(v: Value) -> Value:
        year = pc.year(v)
        if isinstance(year, pa.Scalar):
            return pa.scalar(None if not year.is_valid else int(divide(np.array([year.as_py()]))[0]), INT64)
        values = divide(year.fill_null(1).to_numpy(zero_copy_only=False))
        return pc.if_else(pc.is_null(year), pa.scalar(None, INT64), pa.array(values.astype(np.int64)))

    return run


def _count_from_one(years: int) -> Callable[[Numbers], Numbers]:
    """Centuries and millennia count from the year 1, and there is none numbered 0."""
    return lambda year: np.where(year > 0, (year - 1) // years + 1, -((-year) // years) - 1)


def _epoch(v: Value) -> Value:
    micros = pc.cast(pc.cast(v, TIMESTAMP), INT64)
    return pc.divide(pc.cast(micros, DOUBLE, safe=False), pa.scalar(1e6))


#: Parts of a date or timestamp.
DATE_PARTS: dict[str, Kernel] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "quarter": pc.quarter,
    "week": pc.iso_week,
    "isoyear": pc.iso_year,
    "dow": lambda v: pc.day_of_week(v, count_from_zero=True, week_start=7),
    "isodow": lambda v: pc.day_of_week(v, count_from_zero=False, week_start=1),
    "doy": pc.day_of_year,
    "yearweek": lambda v: pc.add(pc.multiply(pc.iso_year(v), pa.scalar(100)), pc.iso_week(v)),
    "decade": _years(lambda y: np.trunc(y / 10).astype(np.int64)),
    "century": _years(_count_from_one(100)),
    "millennium": _years(_count_from_one(1000)),
    "epoch": _epoch,
}

#: Parts of a time or timestamp.
CLOCK_PARTS: dict[str, Kernel] = {
    "hour": _long(pc.hour),
    "minute": _long(pc.minute),
    "second": _long(pc.second),
    "millisecond": lambda v: pc.divide(_second_micros(v), pa.scalar(1000)),
    "microsecond": _second_micros,
}


def part_kernel(part: str, kind: pa.DataType) -> Kernel | None:
    """How to take a part of dates, times or timestamps; None when they have no such part."""
    if kind == TIME:
        if part == "epoch":
            return lambda v: pc.divide(pc.cast(pc.cast(v, INT64), DOUBLE), pa.scalar(1e6))
        return CLOCK_PARTS.get(part)
    if part in CLOCK_PARTS and kind == DATE:
        kernel = CLOCK_PARTS[part]
        return lambda v: kernel(pc.cast(v, TIMESTAMP))
    return CLOCK_PARTS.get(part) or DATE_PARTS.get(part)


#: Units that are a fixed time, in microseconds.
UNIT_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": MICROS_DAY,
}
#: Units that are a number of months.
UNIT_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1_200, "millennium": 12_000}


def months_of(micros: Numbers) -> Numbers:
    """Whole months since January 1970."""
    days = np.floor_divide(micros, MICROS_DAY)
    months: Numbers = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    return months


def month_start(months: Numbers) -> Numbers:
    """Microseconds of the first day of months since January 1970."""
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
    start: Numbers = days * MICROS_DAY
    return start


def truncate(micros: Numbers, part: str) -> Numbers:
    """The beginning of the part of the calendar in which each timestamp lies."""
    if part in UNIT_MICROS:
        unit = UNIT_MICROS[part]
        start: Numbers = micros - np.mod(micros, unit)
        return start
    if part in UNIT_MONTHS:
        months, unit = months_of(micros), UNIT_MONTHS[part]
        # Counted from the year 0, not from 1970.
        return month_start(months - np.mod(months + 1970 * 12, unit))
    if part == "week":
        return _monday(micros)
    return _iso_year_start(micros)


_MONDAY = 4 * MICROS_DAY  # 5 January 1970


def _monday(micros: Numbers) -> Numbers:
    start: Numbers = micros - np.mod(micros - _MONDAY, 7 * MICROS_DAY)
    return start


def iso_year(micros: Numbers) -> Numbers:
    """The year to which the week belongs: that of its Thursday."""
    thursday = _monday(micros) + 3 * MICROS_DAY
    year: Numbers = months_of(thursday) // 12 + 1970
    return year


def _iso_year_start(micros: Numbers) -> Numbers:
    fourth = month_start((iso_year(micros) - 1970) * 12) + 3 * MICROS_DAY
    return _monday(fourth)


TRUNCATABLE = (*UNIT_MICROS, *UNIT_MONTHS, "week", "isoyear", "yearweek")


def boundaries(micros: Numbers, part: str) -> Numbers:
    """A count that grows by one at each boundary of the part: the difference of two is what `date_diff` gives."""
    if part in UNIT_MONTHS:
        counted: Numbers = (months_of(micros) + 1970 * 12) // UNIT_MONTHS[part]
    elif part == "isoyear":
        counted = iso_year(micros)
    else:
        counted = micros // UNIT_MICROS[part]
    return counted
