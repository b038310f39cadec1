"""Functions between moments: differences, buckets, epochs, names of days, intervals from numbers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import DATE, DOUBLE, INT64, INTERVAL, STRING, TIME, TIMESTAMP, TIMESTAMP_UTC
from query.expr import calendar
from query.expr.casts import cast
from query.expr.coerce import unify, want
from query.expr.columns import Numbers, column_of, nulls, numbers, row_wise, whole
from query.expr.errors import BadLiteral, EvalError, TypeClash
from query.expr.nodes import Call, Kernel, Literal, Node, Value
from query.expr.reading import MICROS_DAY
from query.expr.registry import bind as bind_call
from query.expr.registry import function
from query.expr.temporal import cut
from query.expr.times import extract, micros_kernel, word

FAMILY = "time"


@function("date_add", FAMILY, "(x, interval)", "The same as x + interval.", args=(2, 2))
def _date_add(args: Sequence[Node]) -> Node:
    return bind_call("add", [args[0], want(args[1], INTERVAL, "date_add")])


@function(
    "date_diff",
    FAMILY,
    '("part", from, to) -> long',
    "How many boundaries of the part lie between two dates, times or timestamps.",
    args=(3, 3),
    aliases=["datediff"],
)
def _date_diff(args: Sequence[Node]) -> Node:
    part = calendar.part_named(word(args[0], "date_diff"))
    if part not in calendar.TRUNCATABLE or part == "yearweek":
        raise BadLiteral(f"no difference is counted in {part}")
    kind, moments = unify(args[1:], "date_diff")
    if kind == TIME and part in calendar.UNIT_MICROS:
        return Call(
            INT64, _difference(part), [Call(INT64, lambda v: pc.cast(v, INT64), [m]) for m in moments]
        )
    wanted = TIMESTAMP_UTC if kind == TIMESTAMP_UTC else TIMESTAMP
    return Call(INT64, _difference(part), [want(m, wanted, "date_diff") for m in moments])


def _difference(part: str) -> Kernel:
    @whole
    def run(start: pa.Array, stop: pa.Array) -> pa.Array:
        null = nulls(start, stop)
        first, last = (numbers(c) if null is None else np.where(null, 0, numbers(c)) for c in (start, stop))
        if part == "week":
            # Whole weeks, not Mondays: so DuckDB counts them.
            count = cut(calendar.boundaries(last, "day") - calendar.boundaries(first, "day"), 7)
        else:
            count = calendar.boundaries(last, part) - calendar.boundaries(first, part)
        return column_of(count, INT64, null)

    return run


#: The origins of DuckDB's and TimescaleDB's buckets: a Monday, and a January for buckets of months.
_BUCKET_ORIGIN = 10_959 * MICROS_DAY
_BUCKET_MONTH = 30 * 12


@function(
    "time_bucket",
    FAMILY,
    "(width, x[, origin])",
    "The beginning of the bucket of constant width, an interval, in which x lies.",
    args=(2, 3),
)
def _time_bucket(args: Sequence[Node]) -> Node:
    width = want(args[0], INTERVAL, "time_bucket").constant
    if width is None or not width.is_valid:
        raise TypeClash("time_bucket takes a constant width")
    span = width.as_py()
    micros = span.days * MICROS_DAY + span.nanoseconds // 1000
    if span.months and micros:
        raise BadLiteral("a bucket of months has no days or time")
    if max(span.months, micros) <= 0:
        raise BadLiteral("a bucket is wider than nothing")
    if len(args) == 3 and (args[2].constant is None or span.months):
        raise TypeClash("time_bucket takes a constant origin, and none for buckets of months")
    kind = TIMESTAMP_UTC if args[1].type == TIMESTAMP_UTC else TIMESTAMP
    origin = _BUCKET_ORIGIN
    if len(args) == 3:
        given = want(args[2], kind, "time_bucket").constant
        assert given is not None
        origin = given.cast(INT64).as_py()

    def compute(values: Numbers) -> Numbers:
        if span.months:
            months = calendar.months_of(values)
            return calendar.month_start(months - np.mod(months - _BUCKET_MONTH, span.months))
        start: Numbers = values - np.mod(values - origin, micros)
        return start

    bucketed = Call(kind, micros_kernel(compute, kind), [want(args[1], kind, "time_bucket")])
    return cast(bucketed, DATE) if args[1].type == DATE else bucketed


def _moment_argument(node: Node, what: str) -> Node:
    """A date or timestamp as a timestamp without zone."""
    if node.type == TIMESTAMP_UTC:
        return cast(node, TIMESTAMP)
    return want(node, TIMESTAMP, what)


def _epoch_function(name: str, doc: str, divisor: int, multiplier: int = 1) -> None:
    def bind(args: Sequence[Node]) -> Node:
        if pa.types.is_integer(args[0].type) and name == "epoch_ms":
            return _from_millis(args[0])

        def run(value: Value) -> Value:
            micros = pc.cast(value, INT64)
            if multiplier > 1:
                return pc.multiply_checked(micros, pa.scalar(multiplier))
            return _divide_half_away(micros, divisor)

        return Call(INT64, run, [_moment_argument(args[0], name)])

    function(name, FAMILY, "(x) -> long", doc, args=(1, 1))(bind)


def _divide_half_away(micros: Value, divisor: int) -> Value:
    """Rounded, halves away from zero."""
    if divisor == 1:
        return micros

    @whole
    def run(column: pa.Array) -> pa.Array:
        values = numbers(column)
        rounded = cut(values, divisor) + cut(np.fmod(values, divisor) * 2, divisor)
        return column_of(rounded, INT64, nulls(column))

    return run(micros)


def _from_millis(node: Node) -> Node:
    args = [want(node, INT64, "epoch_ms")]
    return Call(TIMESTAMP, lambda v: pc.cast(pc.multiply_checked(v, pa.scalar(1000)), TIMESTAMP), args)


_epoch_function("epoch_ms", "Milliseconds since 1970; of a number, the timestamp of so many.", 1_000)
_epoch_function("epoch_us", "Microseconds since 1970.", 1)
_epoch_function("epoch_ns", "Nanoseconds since 1970.", 1, 1_000)


@function(
    "to_timestamp",
    FAMILY,
    "(seconds) -> timestamptz",
    "The timestamp so many seconds after 1970.",
    args=(1, 1),
)
def _to_timestamp(args: Sequence[Node]) -> Node:
    limit = pa.scalar(float(2**63))

    def run(value: Value) -> Value:
        micros = pc.round(pc.multiply(value, pa.scalar(1e6)), round_mode="half_to_even")
        good = pc.less(pc.abs(micros), limit)
        verdict = good if isinstance(good, pa.Scalar) else pc.all(good)
        if verdict.as_py() is False:
            raise EvalError("timestamp out of range")
        return pc.cast(pc.cast(micros, INT64), TIMESTAMP_UTC)

    return Call(TIMESTAMP_UTC, run, [want(args[0], DOUBLE, "to_timestamp")])


@function("make_date", FAMILY, "(year, month, day) -> date", "The date of three numbers.", args=(3, 3))
def _make_date(args: Sequence[Node]) -> Node:
    def make(year: int, month: int, day: int) -> date:
        try:
            return date(year, month, day)
        except (ValueError, OverflowError):
            raise EvalError(f"no date {year}-{month}-{day}") from None

    return Call(DATE, row_wise(make, DATE), [want(a, INT64, "make_date") for a in args])


@function("last_day", FAMILY, "(x) -> date", "The last day of the month.", args=(1, 1))
def _last_day(args: Sequence[Node]) -> Node:
    def compute(micros: Numbers) -> Numbers:
        return calendar.month_start(calendar.months_of(micros) + 1) - MICROS_DAY

    return cast(
        Call(TIMESTAMP, micros_kernel(compute, TIMESTAMP), [_moment_argument(args[0], "last_day")]), DATE
    )


def _name_function(name: str, doc: str, part: str, names: Sequence[str], first: int) -> None:
    table = pa.array(names)

    def bind(args: Sequence[Node]) -> Node:
        number = extract(part, _moment_argument(args[0], name))

        def run(value: pa.Array) -> pa.Array:
            return table.take(pc.subtract(value, pa.scalar(first)))

        return Call(STRING, whole(run), [number])

    function(name, FAMILY, "(x) -> string", doc, args=(1, 1))(bind)


_name_function("dayname", "Monday, Tuesday ...", "dow", calendar.DAY_NAMES, 0)
_name_function("monthname", "January, February ...", "month", calendar.MONTH_NAMES, 1)


def _span_function(name: str, doc: str, months: int = 0, days: int = 0, micros: int = 0) -> None:
    def bind(args: Sequence[Node]) -> Node:
        unit = Literal(pa.scalar(pa.MonthDayNano([months, days, micros * 1000])))
        return bind_call("multiply", [unit, want(args[0], INT64, name)])

    function(name, FAMILY, "(n) -> interval", doc, args=(1, 1))(bind)


_span_function("to_years", "An interval of n years.", months=12)
_span_function("to_months", "An interval of n months.", months=1)
_span_function("to_weeks", "An interval of n weeks.", days=7)
_span_function("to_days", "An interval of n days.", days=1)
_span_function("to_hours", "An interval of n hours.", micros=3_600_000_000)
_span_function("to_minutes", "An interval of n minutes.", micros=60_000_000)
_span_function("to_seconds", "An interval of n seconds.", micros=1_000_000)
_span_function("to_milliseconds", "An interval of n milliseconds.", micros=1_000)
