"""DuckDB as the judge: the same rows, the same expression in SQL, the same answer row by row.

Division by zero is NULL and undefined results are errors, DuckDB's rule before it followed IEEE 754 by
default; its settings still offer it. TRY gives NULL where we report a row at fault.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from query.batch import Batch
from query.expr import Context, compile_expression
from query.plan import Constant, Expression, Field, Function

NOW_US = 1_700_000_000_123_456
DAY_US = 86_400_000_000


def call(name: str, *args: Expression | str | int | float | bool | None) -> Function:
    """`$x` is a column; other texts, numbers and None are literals."""
    return Function(name, tuple(term(a) for a in args))


def term(value: Any) -> Expression:
    if isinstance(value, Constant | Field | Function):
        return value
    if value is None:
        return Constant("", "null")
    if isinstance(value, bool):
        return Constant(str(value).lower(), "bool")
    if isinstance(value, int):
        return Constant(str(value), "long")
    if isinstance(value, float):
        return Constant(repr(value), "double")
    return Field(value[1:]) if value.startswith("$") else Constant(value, "string")


def lit(text: str, kind: str) -> Constant:
    return Constant(text, kind)


def connect() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET TimeZone='UTC'; SET threads=1")
    con.execute("SET ieee_floating_point_ops=false; SET error_on_division_by_zero=false")
    # They move parts of an expression out of TRY, or drop parts that would fail.
    con.execute("SET disabled_optimizers='common_subexpressions,expression_rewriter'")
    return con


_TEXTS = [
    "",
    " ",
    "a",
    "abc",
    "ABC",
    "aXbXc",
    "a,b,c",
    "héllo wörld",
    "日本語",
    "x%y_z",
    "a\nb",
    "  pad  ",
    "10",
    "-7",
    "0",
]
_TEXTS += [
    "3.5",
    "1e3",
    " 42 ",
    "abcabc",
    "\\d+",
    "Straße",
    "ΑΒΓ",
    "l",
    "aaa",
    "%",
    "_",
    "a.b",
    "99999999999999999999",
    "x" * 40,
]
_NUMBERS = [
    "0",
    "1",
    "-1",
    "10.5",
    "-10.5",
    "0.5",
    "-0.5",
    " 12 ",
    "+5",
    "1e3",
    "1e-3",
    "1_000",
    "0x1F",
    "abc",
    "",
    "1e400",
    "12a",
]
_NUMBERS += [
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "127",
    "128",
    "-129",
    "nan",
    "inf",
    "-inf",
    ".5",
    "5.",
    ".",
]
_BOOLS = ["true", "false", "t", "F", "yes", "No", "1", "0", "y", "n", "TRUE", "on", "", "2", " true"]
_MOMENTS = [
    "2020-01-02",
    "2020-1-2",
    "2020-02-30",
    "1969-12-31 23:59:59.5",
    "2020-01-02T03:04:05",
    "2020-01-02 03:04",
    "epoch",
    "x",
    "",
]
_MOMENTS += [
    "2020-01-02 03:04:05.123456",
    "2020-01-02 24:00:00",
    "2020-01-02 25:00:00",
    " 2020-01-02 ",
    "0001-01-01",
    "2020/01/02",
]
_MOMENTS += [
    "2020-01-02 03:04:05Z",
    "2020-01-02 03:04:05+02",
    "2020-01-02 03:04:05-03:30",
    "2020-01-02 03:04:60",
    "12:34:56",
    "1:2:3",
]
_MOMENTS += [
    "12:34",
    "25:00:00",
    "12:34:56.789",
    "2020-01-02 03:04:05.1234567",
    "2020-13-01",
    "2020-01-02 03",
]
_SPANS = [
    "1 day",
    "2 months",
    "-1 year",
    "03:04:05",
    "1 day 02:03:04.5",
    "90 minutes",
    "1 week",
    "x",
    "",
    "1 fortnight",
    "3 days ago",
]
_INTS = [
    0,
    1,
    -1,
    2,
    -2,
    7,
    -7,
    10,
    100,
    2**31 - 1,
    -(2**31),
    2**53 + 1,
    2**62,
    2**63 - 1,
    -(2**63),
    -(2**63) + 1,
]
_DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    0.1,
    1e15,
    1e16,
    1e-5,
    1e-4,
    1e300,
    -1e300,
    1e19,
    123456.789,
]
_DOUBLES += [math.inf, -math.inf, math.nan, 0.49999999999999994, 9007199254740993.0, 127.5, 1e-320]
_MICROS = [
    0,
    -1,
    1,
    999_999,
    -DAY_US,
    DAY_US - 1,
    1_577_934_245_678_901,
    951_782_400_000_000,
    -62_135_596_800_000_000,
]
_MICROS += [253_402_300_799_999_999, 1_580_428_800_000_000, 1_582_934_400_000_000, -14_182_940_500_000]


def _decimals(digits: int, scale: int) -> list[Decimal]:
    top = Decimal(10**digits - 1).scaleb(-scale)
    return [
        Decimal(0),
        top,
        -top,
        Decimal("1.5"),
        Decimal("-1.5"),
        Decimal("0.01"),
        Decimal("2.5"),
        Decimal("12.34"),
    ]


def rows(count: int, seed: int = 1, nulls: float = 0.15) -> Batch:
    """One batch with columns of every kind, extremes first to be met."""
    rng = random.Random(seed)

    def pick(values: Iterable[Any]) -> list[Any]:
        pool = list(values)
        return [None if rng.random() < nulls else rng.choice(pool) for _ in range(count)]

    def moments() -> list[Any]:
        return pick([*_MICROS, *(rng.randrange(-(10**16), 10**16) for _ in range(20))])

    def spans() -> list[Any]:
        pool = [
            (0, 0, 0),
            (1, 0, 0),
            (-14, 0, 0),
            (0, 30, 0),
            (0, 45, 0),
            (0, 0, 5_000_000),
            (1, -1, 1),
            (0, 1, -3_600_000_000),
        ]
        pool += [
            (rng.randrange(-30, 30), rng.randrange(-99, 99), rng.randrange(-(10**11), 10**11))
            for _ in range(12)
        ]
        return [None if s is None else pa.MonthDayNano([s[0], s[1], s[2] * 1000]) for s in pick(pool)]

    columns: dict[str, pa.Array] = {
        "i": pa.array(pick(_INTS), pa.int64()),
        "j": pa.array(pick([*_INTS, *range(-5, 6)]), pa.int64()),
        "n": pa.array(pick(range(-6, 9)), pa.int64()),
        "i8": pa.array(pick([0, 1, -1, 127, -128]), pa.int8()),
        "i16": pa.array(pick([0, 1, -1, 2**15 - 1, -(2**15)]), pa.int16()),
        "i32": pa.array(pick([0, 1, -1, 2**31 - 1, -(2**31), 233, 65]), pa.int32()),
        "u8": pa.array(pick([0, 1, 255]), pa.uint8()),
        "u64": pa.array(pick([0, 1, 2**64 - 1, 5]), pa.uint64()),
        "d": pa.array(pick(_DOUBLES), pa.float64()),
        "e": pa.array(pick([*_DOUBLES, 2.0, 3.0]), pa.float64()),
        "unit": pa.array(pick([0.0, 1.0, -1.0, 0.25, -0.5, math.nan]), pa.float64()),
        "f": pa.array(
            pick([0.0, -1.5, 0.1, 1e10, 16777216.0, 1e-5, math.nan, math.inf, 3.4e38]), pa.float32()
        ),
        "c": pa.array(pick(_decimals(10, 2)), pa.decimal128(10, 2)),
        "k": pa.array(pick([*_decimals(18, 3), Decimal("0.005"), Decimal("-0.5")]), pa.decimal128(18, 3)),
        "h": pa.array(pick([Decimal(v) for v in (0, 1, -1, 10**37 - 1, 2**64)]), pa.decimal128(38, 0)),
        "p": pa.array(pick([True, False]), pa.bool_()),
        "q": pa.array(pick([True, False]), pa.bool_()),
        "s": pa.array(pick(_TEXTS), pa.string()),
        "r": pa.array(
            pick(["", "a", "b", "l", "ab", "X", ",", "%", "_", "é", "本", "a%", "%b%", "_b_", "h%d", "."]),
            pa.string(),
        ),
        "num": pa.array(pick(_NUMBERS), pa.string()),
        "bool": pa.array(pick(_BOOLS), pa.string()),
        "moment": pa.array(pick(_MOMENTS), pa.string()),
        "span": pa.array(pick(_SPANS), pa.string()),
        "day": pa.array([None if m is None else m // DAY_US for m in moments()], pa.int32()).cast(
            pa.date32()
        ),
        "day2": pa.array([None if m is None else m // DAY_US for m in moments()], pa.int32()).cast(
            pa.date32()
        ),
        "t": pa.array(moments(), pa.timestamp("us")),
        "u": pa.array(moments(), pa.timestamp("us")),
        "z": pa.array(moments(), pa.timestamp("us", "UTC")),
        "m": pa.array(pick([0, 1, DAY_US - 1, 45_296_500_000, 3_600_000_000]), pa.time64("us")),
        "m2": pa.array(pick([0, 1, DAY_US - 1, 45_296_500_000]), pa.time64("us")),
        "v": pa.array(spans(), pa.month_day_nano_interval()),
        "w": pa.array(spans(), pa.month_day_nano_interval()),
        "bin": pa.array(pick([b"", b"abc", b"\x00\xff", b"a'\"\\"]), pa.binary()),
        "nil": pa.nulls(count),
    }
    return Batch("t", pa.record_batch(columns))


def ours(expression: Expression, batch: Batch) -> tuple[list[Any], bool]:
    """Comparable values with None for rows at fault, and whether there were any."""
    compiled = compile_expression(expression, batch.schema)
    values, bad = compiled.evaluate(batch.data, Context(NOW_US))
    values.validate(full=True)
    assert values.type == compiled.type and len(values) == batch.num_rows
    assert bad is None or values.filter(bad).null_count == pc.sum(bad).as_py()
    return comparable(values), bad is not None


def theirs(con: duckdb.DuckDBPyConnection, sql: str, batch: Batch) -> tuple[list[Any], bool]:
    """DuckDB's values with NULL for rows it fails on, and whether it fails on any."""
    con.register("t", pa.Table.from_batches([batch.data]))
    try:
        return comparable(con.sql(f"SELECT {sql} AS x FROM t").to_arrow_table().column("x")), False
    except duckdb.Error:
        return comparable(con.sql(f"SELECT TRY({sql}) AS x FROM t").to_arrow_table().column("x")), True


def comparable(values: Any) -> list[Any]:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    kind = values.type
    if pa.types.is_date(kind):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time(kind):
        values = pc.cast(values, pa.int64())
    result: list[Any] = values.to_pylist()
    return result


def same(one: Any, other: Any, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    if isinstance(one, float) or isinstance(other, float):
        a, b = float(one), float(other)
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=0.0)
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def check(
    con: duckdb.DuckDBPyConnection, sql: str, expression: Expression, batch: Batch, tolerance: float = 0.0
) -> None:
    got, fault = ours(expression, batch)
    expected, failed = theirs(con, sql, batch)
    wrong = [
        (row, mine, duck)
        for row, (mine, duck) in enumerate(zip(got, expected, strict=True))
        if not same(mine, duck, tolerance)
    ]
    assert not wrong, f"{sql}: row, ours, DuckDB: {wrong[:5]}"
    assert fault == failed, f"{sql}: rows at fault {fault}, DuckDB fails {failed}"
