"""What the oracle cannot say: limits, refusals, the clock that is handed in, random trees of operators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.expr import BadLiteral, Context, ExprError, TypeClash, compile_expression
from query.plan import Expression
from tests.query.expr.oracle import NOW_US, call, check, connect, lit, rows, term

TEXT = pa.record_batch(
    {
        "s": ["ab", "x" * 1000, None],
        "n": [3, 10**12, 5],
        "d": pa.array([0, 1, None], pa.int32()).cast(pa.date32()),
    }
)


def test_today_is_the_date_of_now() -> None:
    assert (
        compile_expression(call("today"), TEXT.schema)(TEXT, Context(NOW_US)).to_pylist()
        == [date(2023, 11, 14)] * 3
    )


@pytest.mark.parametrize(
    "expression",
    [
        call("repeat", "$s", 10**9),
        call("repeat", "$s", "$n"),
        call("repeat", "abc", 10**12),
        call("lpad", "$s", 10**9, "x"),
        call("rpad", "$s", "$n", "x"),
        call("replace", "$s", "x", "y" * 900_000),
        call("regexp_replace", "$s", "x", "y" * 900_000, "g"),
    ],
)
def test_text_that_would_not_fit_is_refused_without_being_made(expression: Expression) -> None:
    before = pa.total_allocated_bytes()
    values, bad = compile_expression(expression, TEXT.schema).evaluate(TEXT)
    assert bad is not None and bad.to_pylist()[1]
    assert pa.total_allocated_bytes() - before < 64 << 20
    assert len(values) == 3


@pytest.mark.parametrize(
    ("expression", "kind", "words"),
    [
        (call("regexp_match", "$s", "("), BadLiteral, "missing"),
        (call("regexp_extract", "$s", "a", -1), BadLiteral, "negative"),
        (call("regexp_replace", "$s", "a", r"\9"), BadLiteral, "regexp_replace"),
        (call("regexp_match", "$s", "a", "z"), BadLiteral, "option 'z'"),
        (call("like", "$s", "a#", "#"), BadLiteral, "escape"),
        (call("date_part", "yeer", "$d"), BadLiteral, "did you mean 'year'"),
        (call("date_trunc", "dow", "$d"), BadLiteral, "dow"),
        (call("strftime", "$d", "%Q"), BadLiteral, "'%Q'"),
        (call("strftime", "$d", ""), BadLiteral, "format"),
        (call("strptime", "$s", "%d %d"), BadLiteral, "twice"),
        (call("strptime", "$s", "$s"), TypeClash, "constant"),
        (call("time_bucket", lit("0 days", "interval"), "$d"), BadLiteral, "wider"),
        (call("time_bucket", lit("1 month 1 day", "interval"), "$d"), BadLiteral, "months"),
        (call("round", "$n", "$n"), TypeClash, "constant"),
        (call("lower", "$n"), TypeClash, "lower takes string, not long"),
        (call("add", "$d", "$s"), TypeClash, "date and string"),
        (call("add", "$d", "$d"), TypeClash, "date and date"),
        (call("date_part", "hour", "$s"), TypeClash, "string has no part hour"),
        (call("case", "$n"), TypeClash, "arguments"),
        (call("coalesce", "$n", "$s"), TypeClash, "long, string"),
    ],
)
def test_calls_that_make_no_sense_say_so(expression: Expression, kind: type, words: str) -> None:
    with pytest.raises(ExprError) as caught:
        compile_expression(expression, TEXT.schema)
    assert type(caught.value) is kind and words in str(caught.value)


# Random trees: the same tree as SQL and as an expression.
Tree = tuple[str, Any]
_EXTREME: list[Tree] = [
    ("i", "$i"),
    ("j", "$j"),
    ("n", "$n"),
    ("3", 3),
    ("(-7)", -7),
]
#: No row fails on these: where one does, AND and OR may know better than DuckDB, which fails.
_TAME: list[Tree] = [("n", "$n"), ("i8::bigint", "$i8"), ("3", 3), ("0", 0)]


def _infix(operator: str) -> Callable[[tuple[Tree, Tree]], Tree]:
    return lambda two: (f"({two[0][0]} {operator} {two[1][0]})", call(operator, two[0][1], two[1][1]))


def _arithmetic(leaves: list[Tree]) -> st.SearchStrategy[Tree]:
    return st.recursive(
        st.sampled_from(leaves),
        lambda inner: st.one_of(
            *(st.tuples(inner, inner).map(_infix(o)) for o in ("+", "-", "*", "//", "%")),
            inner.map(lambda x: (f"abs({x[0]})", call("abs", x[1]))),
            st.tuples(inner, inner).map(
                lambda x: (f"coalesce({x[0][0]}, {x[1][0]})", call("coalesce", x[0][1], x[1][1]))
            ),
        ),
        max_leaves=5,
    )


_numbers = _arithmetic(_TAME)
_truths = st.recursive(
    st.one_of(
        st.sampled_from([("p", "$p"), ("q", "$q"), ("true", True), ("NULL::boolean", None)]),
        *(st.tuples(_numbers, _numbers).map(_infix(o)) for o in ("=", "<", ">=", "!=")),
    ),
    lambda inner: st.one_of(
        *(st.tuples(inner, inner).map(_infix(o)) for o in ("and", "or")),
        inner.map(lambda x: (f"(NOT {x[0]})", call("not", x[1]))),
        inner.map(lambda x: (f"({x[0]} IS NULL)", call("is_null", x[1]))),
    ),
    max_leaves=5,
)
_BATCH = rows(60, seed=5)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    con = connect()
    yield con
    con.close()


@settings(max_examples=60, deadline=None)
@given(tree=_arithmetic(_EXTREME))
def test_trees_of_arithmetic(con: duckdb.DuckDBPyConnection, tree: Tree) -> None:
    check(con, tree[0], term(tree[1]), _BATCH)


@settings(max_examples=60, deadline=None)
@given(tree=_truths)
def test_trees_of_logic(con: duckdb.DuckDBPyConnection, tree: Tree) -> None:
    check(con, tree[0], term(tree[1]), _BATCH)
