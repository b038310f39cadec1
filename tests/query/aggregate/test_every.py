"""Every exact aggregate equals DuckDB's over random rows, however rows are batched and states combined."""

from __future__ import annotations

import datetime
import itertools
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.aggregate import AGGREGATES, find, make
from query.expr.errors import EvalError, TypeClash
from query.plan import Constant, Field
from tests.query.aggregate.ways import add, add_states, all_ways, by_key, grouping, oracle, parts

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("i", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("ts", pa.timestamp("us")),
    ]
)
START = datetime.datetime(2024, 1, 1)

#: Our call (name, columns, constants) and what DuckDB calls it.
EXACT = [
    ("var_pop", ["i"], (), "var_pop(i)"),
    ("variance", ["d"], (), "var_samp(d)"),
    ("stddev_pop", ["d"], (), "stddev_pop(d)"),
    ("stddev", ["i"], (), "stddev_samp(i)"),
    ("bit_and", ["i"], (), "bit_and(i)"),
    ("bit_or", ["i"], (), "bit_or(i)"),
    ("bit_xor", ["i"], (), "bit_xor(i)"),
    ("first", ["s", "ts"], (), "arg_min(s, ts)"),
    ("last", ["i", "ts"], (), "arg_max(i, ts)"),
    ("arg_min", ["d", "ts"], (), "arg_min(d, ts)"),
    ("max_by", ["s", "ts"], (), "max_by(s, ts)"),
    ("max", ["i"], (3,), "max(i, 3)"),
    ("min", ["s"], (2,), "min(s, 2)"),
    ("count_distinct", ["s"], (), "count(distinct s)"),
    ("count_distinct", ["d"], (), "count(distinct d)"),
    ("histogram", ["i"], (), "histogram(i)"),
    ("histogram", ["s"], (), "histogram(s)"),
]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    rows = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["a", "b", "ü", None]),
                st.none() | st.integers(-1000, 1000),
                st.none() | st.integers(-4000, 4000).map(lambda n: n / 8),
                st.none() | st.sampled_from(["x", "y", "zz", ""]),
            ),
            max_size=25,
        )
    )
    # Every moment occurs once, so that first and last have one answer in DuckDB too.
    moments = draw(st.permutations(range(len(rows))))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    stamps = [START + datetime.timedelta(seconds=n) for n in moments]
    arrays = [pa.array(c, f.type) for c, f in zip([*columns, stamps], SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def normal(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, count) for key, count in value.items()]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [(each["value"], each["count"]) for each in value]
    if isinstance(value, float):
        return round(value, 9) if math.isfinite(value) else value
    return value


@pytest.mark.parametrize("call", EXACT, ids=lambda call: call[3])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_answers_equal_those_of_duckdb(
    call: tuple[str, list[str], tuple[Any, ...], str], data: st.DataObject
) -> None:
    function, columns, constants, expression = call
    table = data.draw(tables())
    pieces = parts(data, table)
    for keys in ([], ["k"]):
        expected = {key: normal(value) for key, value in oracle(table, keys, expression).items()}
        for found in all_ways(pieces, keys, function, columns, constants):
            assert {key: normal(value) for key, value in found.items()} == expected


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_histogram_in_bins_counts_every_value_once(data: st.DataObject) -> None:
    table = data.draw(tables())
    low, high, bins = -100.0, 200.0, 6
    edges = [low + n * (high - low) / bins for n in range(bins + 1)]
    places = [
        "d < -100",
        *(f"d >= {a} and d < {b}" for a, b in itertools.pairwise(edges)),
        "d >= 200",
    ]
    expected = oracle(table, ["k"], f"[{', '.join(f'count(*) filter ({place})' for place in places)}]")
    for found in all_ways(parts(data, table), ["k"], "histogram", ["d"], (low, high, bins)):
        assert found == expected


def test_variance_keeps_its_digits_where_values_are_large_and_close() -> None:
    table = pa.table({"d": [1e9 + n / 4 for n in range(1000)]})
    pieces = [table.slice(n * 100, 100) for n in range(10)]
    expected = oracle(table, [], "var_pop(d)")[()]
    for found in all_ways(pieces, [], "var_pop", ["d"]):
        assert found[()] == pytest.approx(expected, rel=1e-9)


def test_equal_times_give_the_same_answer_in_any_order() -> None:
    table = pa.table({"v": ["c", "a", "b"], "ts": [1, 1, 1]})
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        pieces = [table.take([n]) for n in order]
        assert [each[()] for each in all_ways(pieces, [], "first", ["v", "ts"])] == ["a"] * 4
        assert [each[()] for each in all_ways(pieces, [], "last", ["v", "ts"])] == ["a"] * 4


def test_columns_of_nulls_and_of_other_widths_combine() -> None:
    pieces = [
        pa.table({"v": pa.nulls(2)}),
        pa.table({"v": pa.array([3, None], pa.int16())}),
        pa.table({"v": pa.array([1 << 40], pa.int64())}),
    ]
    for function, constants, expected in (
        ("count_distinct", (), 2),
        ("max", (2,), [1 << 40, 3]),
        ("bit_or", (), (1 << 40) | 3),
        ("histogram", (), [{"value": 3, "count": 1}, {"value": 1 << 40, "count": 1}]),
        ("var_pop", (), ((1 << 40) - 3) ** 2 / 4),
        ("approx_count_distinct", (), 2),
        ("approx_top_k", (1,), [1 << 40]),
    ):
        for found in all_ways(pieces, [], function, ["v"], constants):
            assert found == {(): expected}, function


def test_no_rows_at_all_have_an_answer() -> None:
    answers = {
        name: by_key(grouping([], name, ["v"] * kind.COLUMNS, _constants(name)).results(), [])[()]
        for name, kind in AGGREGATES.items()
    }
    assert answers["count_distinct"] == answers["approx_count_distinct"] == answers["count"] == 0
    assert answers["width_histogram"] == [0, 0, 0]
    empty = ("count", "count_all", "count_distinct", "approx_count_distinct", "width_histogram")
    assert all(value is None for name, value in answers.items() if name not in empty)


def _constants(name: str) -> tuple[Any, ...]:
    return {
        "max_k": (3,),
        "min_k": (3,),
        "approx_quantile": (0.5,),
        "approx_top_k": (3,),
        "frequent": (3,),
        "width_histogram": (0.0, 1.0, 1),
    }.get(name, ())


@pytest.mark.parametrize(
    ("name", "constants", "message"),
    [
        ("max", (0,), "keeps 1 to"),
        ("approx_quantile", (1.5,), "between 0 and 1"),
        ("histogram", (5.0, 1.0, 3), "range is two numbers"),
        ("histogram", (0.0, 1.0, 0), "1 to 10000 bins"),
        ("bloom", (0,), "1 to 10000000 keys"),
        ("bloom", (10, 2.0), "error rate between"),
        ("var_pop", (1,), "takes 1 arguments, not 2"),
    ],
)
def test_constants_that_make_no_sense_are_refused(
    name: str, constants: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(TypeClash, match=message):
        grouping([], name, ["v"], constants)


def test_a_column_where_a_constant_belongs_is_refused() -> None:
    kind = find("max", 2)
    assert kind is not None
    with pytest.raises(TypeClash, match="takes constants"):
        make(kind, (Field("v"), Field("k")))
    with pytest.raises(TypeClash, match="keeps 1 to"):
        make(kind, (Field("v"), Constant("x", "string")))


@pytest.mark.parametrize("name", ["var_pop", "bit_and", "approx_quantile", "width_histogram"])
def test_texts_are_refused_where_numbers_are_needed(name: str) -> None:
    group = grouping([], name, ["v"], _constants(name))
    with pytest.raises(TypeClash):
        add(group, pa.table({"v": ["x"]}), ["v"])


@pytest.mark.parametrize(
    "name", ["approx_count_distinct", "approx_quantile", "frequent", "bloom", "spectral_bloom"]
)
def test_a_state_that_is_none_is_the_senders_fault(name: str) -> None:
    group = grouping([], name, ["v"], _constants(name))
    column = pa.array([b"\x01nonsense", b"\x02 more of it"], pa.binary())
    states = [column, *([pa.nulls(2)] if name == "frequent" else [])]
    add_states(group, pa.Table.from_arrays(states, names=group.state_names))
    with pytest.raises(EvalError, match="cannot be read"):
        group.results()
