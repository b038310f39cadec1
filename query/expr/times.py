"""Functions over dates, times and timestamps. None reads a clock: `now()` is given with the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from query.batch.types import (
    DATE,
    DOUBLE,
    DURATION,
    INT64,
    INTERVAL,
    NULL,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_UTC,
    type_name,
)
from query.expr import calendar
from query.expr.casts import cast
from query.expr.coerce import is_text_literal, want
from query.expr.columns import Numbers, column_of, nulls, numbers, whole
from query.expr.errors import BadLiteral, TypeClash
from query.expr.nodes import Call, Kernel, Literal, Node, Now
from query.expr.registry import function
from query.expr.spans import interval_part, interval_trunc

FAMILY = "time"
_MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_UTC)


@function(
    "now", FAMILY, "() -> timestamptz", "The time of evaluation.", args=(0, 0), aliases=["current_timestamp"]
)
def _now(args: Sequence[Node]) -> Node:
    return Now()


@function(
    "today", FAMILY, "() -> date", "The date of evaluation, UTC.", args=(0, 0), aliases=["current_date"]
)
def _today(args: Sequence[Node]) -> Node:
    return cast(Now(), DATE)


def word(node: Node, what: str) -> str:
    """A constant name such as the part of a date."""
    if node.constant is None or node.type != STRING or not node.constant.is_valid:
        raise TypeClash(f"{what} takes a constant name")
    name: str = node.constant.as_py()
    return name


@function(
    "date_part",
    FAMILY,
    '("part", x)',
    "A part of a date, time, timestamp or interval as a long; `epoch` is seconds as a double.",
    args=(2, 2),
    aliases=["extract", "datepart"],
)
def _date_part(args: Sequence[Node]) -> Node:
    return extract(calendar.part_named(word(args[0], "date_part")), args[1])


def extract(part: str, node: Node) -> Node:
    kind = node.type
    result = DOUBLE if part == "epoch" else INT64
    if kind == NULL:
        return Literal(pa.scalar(None, result))
    if is_text_literal(node):
        node = cast(node, TIMESTAMP)
        kind = TIMESTAMP
    if kind in (INTERVAL, DURATION):
        return Call(result, interval_part(part), [cast(node, INTERVAL)])
    kernel = calendar.part_kernel(part, kind) if kind in (*_MOMENTS, TIME) else None
    if kernel is None:
        raise TypeClash(f"{type_name(kind)} has no part {part}")
    return Call(result, kernel, [node])


def _part_function(part: str, doc: str, aliases: Sequence[str] = ()) -> None:
    result = "double" if part == "epoch" else "long"
    function(part, FAMILY, f"(x) -> {result}", doc, args=(1, 1), aliases=aliases)(
        lambda args: extract(part, args[0])
    )


_part_function("year", "The year of a date or timestamp.")
_part_function("month", "The month, 1 to 12.")
_part_function("day", "The day of the month.", ["dayofmonth"])
_part_function("hour", "The hour, 0 to 23.")
_part_function("minute", "The minute, 0 to 59.")
_part_function("second", "The whole second, 0 to 59.")
_part_function("epoch", "Seconds since 1970, with the fraction.")


@function(
    "date_trunc",
    FAMILY,
    '("part", x)',
    "The beginning of the part: hour, day, week, month ...",
    args=(2, 2),
    aliases=["datetrunc"],
)
def _date_trunc(args: Sequence[Node]) -> Node:
    part = calendar.part_named(word(args[0], "date_trunc"))
    kind = args[1].type
    if kind in (INTERVAL, DURATION):
        return Call(INTERVAL, interval_trunc(part), [cast(args[1], INTERVAL)])
    if part not in calendar.TRUNCATABLE:
        raise BadLiteral(f"nothing is truncated to {part}")
    unit = "week" if part == "yearweek" else part
    kind = TIMESTAMP_UTC if kind == TIMESTAMP_UTC else TIMESTAMP
    return Call(
        kind, micros_kernel(lambda v: calendar.truncate(v, unit), kind), [want(args[1], kind, "date_trunc")]
    )


def micros_kernel(compute: Callable[[Numbers], Numbers], kind: pa.DataType) -> Kernel:
    """A kernel over the microseconds of a timestamp column."""

    @whole
    def run(column: pa.Array) -> pa.Array:
        null = nulls(column)
        values = numbers(column)
        return column_of(compute(values if null is None else np.where(null, 0, values)), kind, null)

    return run
