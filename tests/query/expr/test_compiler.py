import pyarrow as pa
import pytest

from query.batch import from_rows
from query.expr import (
    BadLiteral,
    Context,
    EvalError,
    ExprCache,
    ExprError,
    MissingColumn,
    TypeClash,
    UnknownFunction,
    compile_expression,
)
from query.expr.compiler import DEPTH_MAX, NODES_MAX
from query.plan import Constant, Expression, Field, Function

SCHEMA = pa.schema(
    [("a", pa.int64()), ("b", pa.string()), ("f", pa.float64()), ("tags", pa.list_(pa.string()))]
)
ROWS = from_rows("t", [(1, "x", 1.5, []), (2**63 - 1, "7", -0.5, None), (None, None, None, ["y"])], SCHEMA)


def call(name: str, *args: Expression) -> Function:
    return Function(name, args)


def const(text: str, kind: str = "long") -> Constant:
    return Constant(text, kind)


A, B, F = Field("a"), Field("b"), Field("f")


@pytest.mark.parametrize(
    ("expression", "kind", "words"),
    [
        (Field("A"), MissingColumn, ["'A'"]),
        (Field("tag"), MissingColumn, ["'tag'", "did you mean 'tags'"]),
        (call("coalesec", B), UnknownFunction, ["coalesec", "did you mean 'coalesce'"]),
        (call("add", A, B), TypeClash, ["add takes numbers, not string"]),
        (call("add", A), TypeClash, ["add(x, y)", "1 arguments"]),
        (call("=", A, B), TypeClash, ["long", "string", "cast"]),
        (call("=", Field("tags"), Field("tags")), TypeClash, ["string[]"]),
        (call("=", A, const("x", "string")), BadLiteral, ["'x' is not a long"]),
        (const("1", "lnog"), BadLiteral, ["'lnog'", "did you mean 'long'"]),
        (const("9" * 5000), BadLiteral, ["is not a long"]),
        (const("9" * 19), BadLiteral, ["is not a long"]),
        (const("2020-02-30", "date"), BadLiteral, ["is not a date"]),
        (const("1", "long[]"), BadLiteral, ["long[]"]),
        (call("cast", A, const("lnog", "string")), BadLiteral, ["did you mean 'long'"]),
        (call("cast", A, const("date", "string")), TypeClash, ["cannot cast long to date"]),
        (call("cast", A, B), TypeClash, ["name of a type"]),
        (call("and", A, B), TypeClash, ["and takes bool, not string"]),
    ],
)
def test_an_expression_that_does_not_fit_says_why(
    expression: Expression, kind: type, words: list[str]
) -> None:
    with pytest.raises(ExprError) as caught:
        compile_expression(expression, SCHEMA)
    assert type(caught.value) is kind
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_column_that_occurs_twice_is_not_guessed() -> None:
    with pytest.raises(MissingColumn, match="occurs 2 times"):
        compile_expression(A, pa.schema([("a", pa.int64()), ("a", pa.string())]))


def test_depth_and_size_are_bounded() -> None:
    deep: Expression = A
    for _ in range(DEPTH_MAX + 1):
        deep = call("abs", deep)
    with pytest.raises(ExprError, match=f"deeper than {DEPTH_MAX}"):
        compile_expression(deep, SCHEMA)
    wide: Expression = call("greatest", *[call("greatest", *[A] * 200)] * 101)
    with pytest.raises(ExprError, match=f"more than {NODES_MAX}"):
        compile_expression(wide, SCHEMA)


def test_only_rows_at_fault_are_reported() -> None:
    values, bad = compile_expression(call("+", A, const("1")), SCHEMA).evaluate(ROWS.data)
    assert values.to_pylist() == [2, None, None]
    assert bad is not None and bad.to_pylist() == [False, True, False]
    with pytest.raises(EvalError, match="overflow"):
        compile_expression(call("+", A, const("1")), SCHEMA)(ROWS.data)


@pytest.mark.parametrize("bad_rows", [[], [0], [511], [3, 4, 5, 200], list(range(512))])
def test_faults_are_found_wherever_they_are(bad_rows: list[int]) -> None:
    data = pa.record_batch({"a": [2**63 - 1 if i in bad_rows else i for i in range(512)]})
    values, bad = compile_expression(call("*", call("+", A, const("1")), const("2")), data.schema).evaluate(
        data
    )
    found = [] if bad is None else [i for i, b in enumerate(bad.to_pylist()) if b]
    assert found == bad_rows
    assert values.to_pylist() == [None if i in bad_rows else (i + 1) * 2 for i in range(512)]


def test_branches_not_taken_cannot_fail() -> None:
    to_long = call("cast", B, const("long", "string"))
    guarded = call("case", call("=", B, const("x", "string")), const("0"), to_long)
    values, bad = compile_expression(guarded, SCHEMA).evaluate(ROWS.data)
    assert (values.to_pylist(), bad) == ([0, 7, None], None)
    values, bad = compile_expression(call("coalesce", A, to_long), SCHEMA).evaluate(ROWS.data)
    assert (values.to_pylist(), bad) == ([1, 2**63 - 1, None], None)
    both = call("and", call("=", B, const("7", "string")), call("=", to_long, const("7")))
    values, bad = compile_expression(both, SCHEMA).evaluate(ROWS.data)
    assert (values.to_pylist(), bad) == ([False, True, None], None)


def test_a_fault_that_nothing_decides_is_reported() -> None:
    to_long = call("cast", B, const("long", "string"))
    both = call("and", call("=", A, const("1")), call("=", to_long, const("7")))
    values, bad = compile_expression(both, SCHEMA).evaluate(ROWS.data)
    assert bad is not None and bad.to_pylist() == [True, False, False]
    case = call("case", call("=", to_long, const("7")), A, const("5"))
    values, bad = compile_expression(case, SCHEMA).evaluate(ROWS.data)
    assert values.to_pylist() == [None, 2**63 - 1, 5]
    assert bad is not None and bad.to_pylist() == [True, False, False]
    first = call("coalesce", to_long, const("5"))
    values, bad = compile_expression(first, SCHEMA).evaluate(ROWS.data)
    assert values.to_pylist() == [None, 7, 5]
    assert bad is not None and bad.to_pylist() == [True, False, False]


def test_try_gives_null_instead() -> None:
    values, bad = compile_expression(call("try", call("+", A, const("1"))), SCHEMA).evaluate(ROWS.data)
    assert (values.to_pylist(), bad) == ([2, None, None], None)
    values, bad = compile_expression(call("try_cast", B, const("int", "string")), SCHEMA).evaluate(ROWS.data)
    assert (values.to_pylist(), bad) == ([None, 7, None], None)


def test_now_comes_from_the_context_and_only_from_there() -> None:
    compiled = compile_expression(call("now"), SCHEMA)
    assert compiled(ROWS.data, Context(now_us=5)).cast(pa.int64()).to_pylist() == [5, 5, 5]
    with pytest.raises(EvalError, match="time of evaluation"):
        compiled(ROWS.data)


def test_constants_are_folded_once() -> None:
    compiled = compile_expression(call("+", const("1"), call("*", const("2"), const("3"))), SCHEMA)
    assert compiled.constant is not None and compiled.constant.as_py() == 7
    assert compiled(ROWS.data).to_pylist() == [7, 7, 7]
    failing = compile_expression(call("+", const(str(2**63 - 1)), const("1")), SCHEMA)
    values, bad = failing.evaluate(ROWS.data)
    assert bad is not None and bad.to_pylist() == [True] * 3 and values.null_count == 3


def test_a_plain_column_is_recognised() -> None:
    assert compile_expression(B, SCHEMA).column == 1
    assert compile_expression(call("abs", A), SCHEMA).column is None


def test_empty_batches_have_empty_results() -> None:
    for expression in (
        A,
        const("1"),
        call("+", A, const("1")),
        call("%", A, A),
        call("case", call("=", A, A), B),
    ):
        compiled = compile_expression(expression, SCHEMA)
        values, bad = compiled.evaluate(ROWS.data.slice(0, 0))
        assert len(values) == 0 and values.type == compiled.type and bad is None


def test_the_cache_compiles_once_a_schema_and_is_bounded() -> None:
    cache = ExprCache(call("+", A, const("1")), schemas_max=2)
    first = cache.get(ROWS)
    assert cache.get(ROWS.slice(0, 1)) is first
    lacking = from_rows("t", [("x",)], pa.schema([("b", pa.string())]))
    for _ in range(2):
        with pytest.raises(MissingColumn):
            cache.get(lacking)
    for i in range(5):
        cache.get(from_rows("t", [(1, 2)], pa.schema([("a", pa.int64()), (f"c{i}", pa.int64())])))
        assert len(cache) <= 2
    assert cache.get(ROWS) is not first
