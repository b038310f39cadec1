"""Eddies: every row visits every operator once, in an order that follows what they remove."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query import plan
from query.dataflow.check import operator_problems
from query.plan import Field
from tests.query.dataflow.harness import operator, sink
from tests.query.operators.feeding import (
    answer,
    call,
    cuts,
    fed,
    fields,
    interleaved,
    long,
    oracle,
    play,
    rows,
    rows_of,
    split,
    started,
    tables,
)


def three_way() -> list[plan.Operator]:
    """r joins s on a = b, s joins t on c = e, and a filter; all around one eddy."""
    return [
        *(fed("r"), fed("s"), fed("t")),
        operator("e", "eddy", "r", "s", "t", rows="4"),
        operator("rs", "join", "e", "e", leftkeys=fields("a"), rightkeys=fields("b")),
        operator("back rs", "put/Eddy", "rs", eddy="e"),
        operator("st", "join", "e", "e", leftkeys=fields("c"), rightkeys=fields("t")),
        operator("back st", "put/Eddy", "st", eddy="e"),
        operator("few", "selection", "e", where=call("less", Field("n"), long(15))),
        operator("back few", "put/Eddy", "few", eddy="e"),
        operator(
            "o",
            "projection/Generate",
            "e",
            columns=plan.Table({name: Field(name) for name in ("a", "n", "c", "m", "o")}),
        ),
        sink("o"),
    ]


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_joins_and_filters_in_any_order_give_the_answer_of_the_oracle(data: st.DataObject) -> None:
    first, second, third = data.draw(tables("n", 12)), data.draw(tables("m", 12)), data.draw(tables("o", 12))
    r = first.select(["k", "n"]).rename_columns(["a", "n"])
    s = second.select(["k", "s", "m"]).rename_columns(["b", "c", "m"])
    t = third.select(["s", "o"]).rename_columns(["t", "o"])
    parts = {name: split(table, data.draw(cuts)) for name, table in (("r", r), ("s", s), ("t", t))}
    got = answer(three_way(), data.draw(interleaved(**parts)))
    sql = "SELECT a, n, c, m, o FROM r JOIN s ON a = b JOIN t ON c = t.t WHERE n < 15"
    assert got == oracle(sql, r=r, s=s, t=t)


def test_the_operator_that_removes_most_is_visited_first_and_the_eddy_notices_a_change() -> None:
    graph = [
        fed(),
        operator("e", "eddy", "s", rows="100", window="2000"),
        operator("a", "selection", "e", where=call("less", Field("x"), long(10))),
        operator("back a", "put/Eddy", "a", eddy="e"),
        operator("b", "selection", "e", where=call("less", Field("y"), long(10))),
        operator("back b", "put/Eddy", "b", eddy="e"),
        sink("e"),
    ]
    harness = started(graph)

    def share_of_a(x: int, y: int) -> float:
        before = {name: harness[name].counters.rows_in for name in "ab"}
        play(harness, [("s", rows(x=[x] * 10_000, y=[y] * 10_000))])
        seen = {name: harness[name].counters.rows_in - before[name] for name in "ab"}
        return float(seen["a"] / (seen["a"] + seen["b"]))

    assert share_of_a(99, 0) > 0.75
    share_of_a(0, 99)
    assert share_of_a(0, 99) < 0.25
    assert rows_of(harness) == []


def test_rows_that_no_operator_takes_are_dropped_and_counted() -> None:
    graph = three_way()
    harness = play(started(graph), [("r", rows(other=[1, 2]))])
    assert harness["e"].counters.dropped_rows == 2


def test_an_eddy_without_operators_passes_on_and_one_that_is_not_there_is_refused() -> None:
    assert answer([fed(), operator("e", "eddy", "s"), sink("e")], [("s", rows(a=[1])), ("s", None)]) == [(1,)]
    operators = (
        fed(),
        operator("e", "eddy", "s"),
        sink("e"),
        fed("x"),
        operator("p", "put/Eddy", "x", eddy="ee"),
    )
    problems = list(operator_problems(plan.Plan((plan.Opgraph("g", {}, operators),))))
    assert "no eddy 'ee'" in problems[0].message


def test_sides_of_a_join_that_look_alike_are_refused() -> None:
    graph = [
        *(fed("l"), fed("r")),
        operator("e", "eddy", "l", "r"),
        operator("j", "join", "e", "e", leftkeys=fields("k"), rightkeys=fields("k")),
        operator("back", "put/Eddy", "j", eddy="e"),
        sink("e"),
    ]
    harness = started(graph)
    with pytest.raises(Exception, match="cannot tell the sides"):
        raise harness.errors[0]
