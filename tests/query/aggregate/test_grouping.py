"""Groups and their aggregates against DuckDB, for any rows, any batching and any way of combining."""

from __future__ import annotations

import decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query.aggregate import Grouping, find
from query.expr.errors import TypeClash

FUNCTIONS = ("count_all", "count", "sum", "avg", "min", "max")

keys = st.one_of(st.none(), st.sampled_from(["a", "b", "ü", ""]))
small = st.one_of(st.none(), st.integers(-1000, 1000))
huge = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1))


def grouping(key_names: list[str], functions: tuple[str, ...] = FUNCTIONS) -> Grouping:
    aggregates = []
    for name in functions:
        kind = find(name, 1)
        assert kind is not None
        aggregates.append((name, kind()))
    return Grouping(key_names, aggregates)


def feed(group: Grouping, table: pa.Table, key_names: list[str]) -> None:
    value = table.column("v").combine_chunks()
    arguments = [[] if kind.ARGUMENTS[1] == 0 else [value] for _, kind in group.aggregates]
    group.add([table.column(key).combine_chunks() for key in key_names], arguments, table.num_rows)


def oracle(table: pa.Table, key_names: list[str]) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    connection.register("t", table)
    listed = ", ".join([*key_names, "count(*), count(v), sum(v), avg(v), min(v), max(v)"])
    group_by = f"group by {', '.join(key_names)}" if key_names else ""
    return connection.execute(f"select {listed} from t {group_by}").fetchall()


def normal(rows: list[tuple[Any, ...]]) -> list[str]:
    """Comparable rows: sums are whole numbers whatever type holds them, means agree to 12 digits."""
    return sorted(
        repr(
            tuple(
                int(v) if isinstance(v, decimal.Decimal) else f"{v:.12g}" if isinstance(v, float) else v
                for v in row
            )
        )
        for row in rows
    )


def as_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("values", [small, huge], ids=["small", "huge"])
@pytest.mark.parametrize("key_names", [[], ["k"], ["k", "j"]], ids=["no key", "one key", "two keys"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_batching_and_any_combining_gives_the_answer_of_duckdb(
    values: st.SearchStrategy[Any], key_names: list[str], data: st.DataObject
) -> None:
    rows = data.draw(st.lists(st.tuples(keys, st.integers(0, 2), values), max_size=30))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    parts = [rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    schema = pa.schema([("k", pa.string()), ("j", pa.int64()), ("v", pa.int64())])

    def table(part: list[Any]) -> pa.Table:
        columns = list(zip(*part, strict=True)) or [(), (), ()]
        return pa.table([pa.array(c, t.type) for c, t in zip(columns, schema, strict=True)], schema=schema)

    expected = normal(oracle(table(rows), key_names))
    whole = grouping(key_names)
    combined = grouping(key_names)
    at_once = grouping(key_names)
    all_states = []
    for part in parts:
        feed(whole, table(part), key_names)
        partial = grouping(key_names)
        feed(partial, table(part), key_names)
        states = partial.states()
        columns = [states.column(n).combine_chunks() for n in range(states.num_columns)]
        combined.add_states(columns[: len(key_names)], columns[len(key_names) :])
        all_states.append(states)
    together = pa.concat_tables(all_states, promote_options="permissive").combine_chunks()
    columns = [together.column(n).combine_chunks() for n in range(together.num_columns)]
    at_once.add_states(columns[: len(key_names)], columns[len(key_names) :])
    assert normal(as_rows(whole.results())) == expected
    assert normal(as_rows(combined.results())) == expected
    assert normal(as_rows(at_once.results())) == expected


def test_no_rows_without_a_key_is_one_group_and_with_a_key_none() -> None:
    assert as_rows(grouping([]).results()) == [(0, 0, None, None, None, None)]
    assert grouping(["k"]).results().num_rows == 0


def test_many_rows_are_combined_on_the_way_and_memory_is_that_of_the_groups() -> None:
    group = grouping(["k"])
    table = pa.table({"k": [f"k{n % 10}" for n in range(50_000)], "v": list(range(50_000))})
    for _ in range(60):
        feed(group, table, ["k"])
    assert group.nbytes < 60 * table.nbytes / 3
    results = {row["k"]: row for row in group.results().to_pylist()}
    assert results["k3"]["count_all"] == 300_000
    assert results["k3"]["sum"] == 60 * sum(range(3, 50_000, 10))


def test_a_column_that_is_int_here_and_decimal_there_is_widened() -> None:
    group = grouping([], ("sum",))
    feed(group, pa.table({"v": pa.array([1], pa.int32())}), [])
    feed(group, pa.table({"v": pa.array([1 << 62, 1 << 62, 1 << 62])}), [])
    assert as_rows(group.results()) == [(decimal.Decimal(3 * (1 << 62) + 1),)]


def test_an_argument_of_the_wrong_type_is_refused() -> None:
    with pytest.raises(TypeClash, match="sum does not take string"):
        feed(grouping([], ("sum",)), pa.table({"v": ["x"]}), [])
    with pytest.raises(TypeClash, match="bool_and takes bool"):
        feed(grouping([], ("bool_and",)), pa.table({"v": [1]}), [])


def test_logic_ignores_nulls() -> None:
    group = grouping(["k"], ("bool_and", "bool_or"))
    feed(group, pa.table({"k": ["a", "a", "b", "c"], "v": [True, None, False, None]}), ["k"])
    assert as_rows(group.results()) == [("a", True, True), ("b", False, False), ("c", None, None)]
