"""Sort and top-k against DuckDB, in order and not only as sets."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import query.operators.sort.held as held_module
from query import plan
from query.dataflow.check import operator_problems
from query.plan import Setting
from tests.query.dataflow.harness import operator, sink
from tests.query.operators.feeding import cuts, fed, fields, play, rows, split, started, tables, texts

directions = st.sampled_from(["asc", "desc", "asc nulls first", "desc nulls first", "desc nulls last"])


def sql_of(direction: str) -> str:
    return direction if "nulls" in direction else f"{direction} nulls last"


@given(st.data())
@settings(deadline=None, max_examples=80)
def test_rows_come_in_the_order_of_the_oracle(data: st.DataObject) -> None:
    table = data.draw(tables())
    order = [data.draw(directions) for _ in range(2)]
    limit, offset = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 5))
    top = data.draw(st.booleans())
    more: dict[str, Setting] = {"limit": str(limit), "offset": str(offset)} if top else {}
    kind = "sort/TopK" if top else "sort/Basic"
    # The number of the row makes the order total, as DuckDB's sort is not stable.
    sort = operator("o", kind, "s", keys=fields("d", "s", "n"), order=texts(*order), **more)
    events = [("s", batch) for batch in split(table, data.draw(cuts))]
    slack, held_module.SLACK_ROWS = held_module.SLACK_ROWS, 2
    try:
        harness = play(started([fed(), sort, sink("o")]), [*events, ("s", None)])
    finally:
        held_module.SLACK_ROWS = slack
    with duckdb.connect() as connection:
        connection.register("t", table)
        by = f"ORDER BY d {sql_of(order[0])}, s {sql_of(order[1])}, n"
        rest = f"LIMIT {limit} OFFSET {offset}" if top else ""
        wanted = connection.sql(f"SELECT n FROM t {by} {rest}").fetchall()
    assert [(row[3],) for row in harness["out"].rows()] == wanted
    assert harness["out"].ends == [1]


def test_equal_rows_keep_their_order_and_top_k_holds_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_module, "SLACK_ROWS", 100)
    graph = [fed(), operator("o", "sort/TopK", "s", keys=fields("k"), limit="5"), sink("o")]
    harness = started(graph)
    events: Any = [
        ("s", rows(k=[1] * 100, n=list(range(start, start + 100)))) for start in range(0, 10_000, 100)
    ]
    play(harness, events)
    assert harness.context.budget.memory_bytes < 20_000
    play(harness, [("s", None)])
    assert harness["out"].rows() == [(1, n) for n in range(5)]
    assert harness.context.budget.memory_bytes == 0


def test_orders_are_checked_before_a_query_spreads() -> None:
    def problem(**settings_: Setting) -> str:
        operators = (fed(), operator("o", "sort", "s", **settings_), sink("o"))
        return next(iter(operator_problems(plan.Plan((plan.Opgraph("g", {}, operators),))))).message

    assert "is no order" in problem(keys=fields("a"), order=texts("down"))
    assert "2 entries for 1 keys" in problem(keys=fields("a"), order=texts("asc", "asc"))
    assert "is required" in problem()
