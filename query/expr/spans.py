"""Parts of intervals, cut toward zero as SQL does: -14 months are -1 year and -2 months."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from query.batch.types import DOUBLE, INT64
from query.expr import calendar
from query.expr.columns import Numbers, nulls, whole
from query.expr.errors import BadLiteral, TypeClash
from query.expr.nodes import Kernel
from query.expr.temporal import cut, interval_column, parts

_HOUR, _MINUTE = 3_600_000_000, 60_000_000


def _seconds(months: Numbers, days: Numbers, micros: Numbers) -> Numbers:
    """A year is 365.25 days, the months beyond whole years 30 days each."""
    quarter_days = cut(months, 12) * 1461 + (np.fmod(months, 12) * 30 + days) * 4
    seconds: Numbers = quarter_days * 21_600.0 + micros / 1e6
    return seconds


#: Part of an interval from its months, days and microseconds.
_PARTS: dict[str, Callable[[Numbers, Numbers, Numbers], Numbers]] = {
    "millennium": lambda months, days, micros: cut(months, 12_000),
    "century": lambda months, days, micros: cut(months, 1_200),
    "decade": lambda months, days, micros: cut(months, 120),
    "year": lambda months, days, micros: cut(months, 12),
    "quarter": lambda months, days, micros: cut(np.fmod(months, 12), 3) + 1,
    "month": lambda months, days, micros: np.fmod(months, 12),
    "day": lambda months, days, micros: days,
    "hour": lambda months, days, micros: cut(micros, _HOUR),
    "minute": lambda months, days, micros: cut(np.fmod(micros, _HOUR), _MINUTE),
    "second": lambda months, days, micros: cut(np.fmod(micros, _MINUTE), 1_000_000),
    "millisecond": lambda months, days, micros: cut(np.fmod(micros, _MINUTE), 1_000),
    "microsecond": lambda months, days, micros: np.fmod(micros, _MINUTE),
    "epoch": _seconds,
}


def interval_part(part: str) -> Kernel:
    if part not in _PARTS:
        raise TypeClash(f"interval has no part {part}")
    compute = _PARTS[part]

    @whole
    def run(column: pa.Array) -> pa.Array:
        values = compute(*parts(column))
        return pa.array(values, type=DOUBLE if part == "epoch" else INT64, mask=nulls(column))

    return run


def interval_trunc(part: str) -> Kernel:
    if part in calendar.UNIT_MONTHS:
        unit = calendar.UNIT_MONTHS[part]

        @whole
        def months_only(column: pa.Array) -> pa.Array:
            months, days, micros = parts(column)
            return interval_column([cut(months, unit) * unit, days * 0, micros * 0], nulls(column))

        return months_only
    if part not in (*calendar.UNIT_MICROS, "week"):
        raise BadLiteral(f"no interval is truncated to {part}")

    @whole
    def run(column: pa.Array) -> pa.Array:
        months, days, micros = parts(column)
        if part in ("day", "week"):
            step = 7 if part == "week" else 1
            return interval_column([months, cut(days, step) * step, micros * 0], nulls(column))
        unit = calendar.UNIT_MICROS[part]
        return interval_column([months, days, cut(micros, unit) * unit], nulls(column))

    return run
