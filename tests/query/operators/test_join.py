"""Joins against DuckDB: any batches, any interleaving, all kinds, both ways of working."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from query import plan
from query.dataflow.budget import BudgetExceeded, Limits
from query.dataflow.check import operator_problems
from query.dataflow.flow import Flow
from query.keys import use_numba
from query.plan import Field, Setting
from tests.query.dataflow.harness import operator, sink
from tests.query.operators.feeding import (
    answer,
    call,
    cuts,
    fed,
    fields,
    interleaved,
    oracle,
    play,
    rows,
    rows_of,
    split,
    started,
    tables,
    texts,
)

KINDS = ["inner", "left", "right", "full", "semi", "anti"]
SQL = {
    "semi": "SELECT * FROM l WHERE EXISTS (SELECT 1 FROM r WHERE l.k = r.k AND l.s = r.s{where})",
    "anti": "SELECT * FROM l WHERE NOT EXISTS (SELECT 1 FROM r WHERE l.k = r.k AND l.s = r.s{where})",
}
JOIN = """SELECT l.k, l.s, l.d, l.n, r.k AS rk, r.s AS rs, r.d AS rd, r.m
    FROM l {kind} JOIN r ON l.k = r.k AND l.s = r.s{where}"""
#: Named so that a side without rows still has its columns.
COLUMNS: dict[str, Setting] = {
    "leftcolumns": texts("k", "s", "d", "n"),
    "rightcolumns": texts("k", "s", "d", "m"),
}


@pytest.fixture(params=[False, True], ids=["numpy", "numba"])
def kernels(request: pytest.FixtureRequest) -> Iterator[None]:
    use_numba(request.param)
    yield
    use_numba(False)


def join(kind: str, implementation: str = "SymmetricHash", **more: Setting) -> plan.Operator:
    keys = {"leftkeys": fields("k", "s"), "rightkeys": fields("k", "s")}
    return operator("j", f"join/{implementation}", "l", "r", kind=kind, **keys, **COLUMNS, **more)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("condition", [False, True], ids=["", "where"])
@given(st.data())
@settings(deadline=None, max_examples=40)
def test_symmetric_hash_agrees_with_the_oracle(kind: str, condition: bool, data: st.DataObject) -> None:
    left, right = data.draw(tables()), data.draw(tables("m"))
    events = data.draw(interleaved(l=split(left, data.draw(cuts)), r=split(right, data.draw(cuts))))
    more: dict[str, Setting] = {"where": call("less", Field("n"), Field("m"))} if condition else {}
    got = answer([fed("l"), fed("r"), join(kind, **more), sink("j")], events)
    text = SQL.get(kind, JOIN).format(kind=kind, where=" AND l.n < r.m" if condition else "")
    assert got == oracle(text, l=left, r=right)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", ["left", "right"])
@given(st.data())
@settings(deadline=None, max_examples=15)
def test_a_side_that_goes_first_gives_the_same_answer(kind: str, first: str, data: st.DataObject) -> None:
    left, right = data.draw(tables()), data.draw(tables("m"))
    events = data.draw(interleaved(l=split(left, data.draw(cuts)), r=split(right, data.draw(cuts))))
    more: dict[str, Setting] = (
        {"where": call("less", Field("n"), Field("m"))} if data.draw(st.booleans()) else {}
    )
    got = answer([fed("l"), fed("r"), join(kind, first=first, **more), sink("j")], events)
    text = SQL.get(kind, JOIN).format(kind=kind, where=" AND l.n < r.m" if more else "")
    assert got == oracle(text, l=left, r=right)


def test_rows_that_wait_for_the_other_side_are_not_paired_before_its_end_nor_kept_after() -> None:
    keys: dict[str, Setting] = {"leftkeys": fields("k"), "rightkeys": fields("k")}
    graph = [fed("l"), fed("r"), operator("j", "join", "l", "r", first="right", **keys), sink("j")]
    harness = play(started(graph), [("r", rows(k=[1, 2])), ("l", rows(k=[1, 3])), ("r", rows(k=[1]))])
    assert rows_of(harness) == []
    play(harness, [("r", None)])
    assert len(rows_of(harness)) == 2
    held_bytes = harness.context.budget.memory_bytes
    play(harness, [("l", rows(k=[2] * 10_000))])
    assert len(rows_of(harness)) == 10_002
    assert harness.context.budget.memory_bytes < held_bytes + 8 * 10_000


@pytest.mark.parametrize("kind", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("condition", [False, True], ids=["", "where"])
@given(st.data())
@settings(deadline=None, max_examples=30)
def test_index_join_agrees_with_the_oracle(kind: str, condition: bool, data: st.DataObject) -> None:
    left, right = data.draw(tables()), data.draw(tables("m"))
    events = [("l", batch) for batch in split(left, data.draw(cuts))]
    more: dict[str, Setting] = {"where": call("less", Field("n"), Field("m"))} if condition else {}
    graph = [fed("l"), operator("r", "test/Stored"), join(kind, "Index", **more), sink("j")]
    got = answer(graph, [*events, ("l", None)], stored={"r": split(right, data.draw(cuts))})
    text = SQL.get(kind, JOIN).format(kind=kind, where=" AND l.n < r.m" if condition else "")
    assert got == oracle(text, l=left, r=right)


def test_both_kernels_find_the_same_pairs_of_many_rows(kernels: None) -> None:
    left = pa.table({"k": [n * 7919 % 1_000 for n in range(20_000)], "n": list(range(20_000))})
    right = pa.table({"k": [n % 1_500 for n in range(3_000)], "m": list(range(3_000))})
    events = [("l", b) for b in split(left, range(0, 20_000, 900))] + [
        ("r", b) for b in split(right, [50, 2_000])
    ]
    events = [*events[1::2], *events[::2], ("r", None), ("l", None)]
    graph = operator("j", "join", "l", "r", leftkeys=fields("k"), rightkeys=fields("k"))
    harness = play(started([fed("l"), fed("r"), graph, sink("j")]), events)
    found = sum(batch.num_rows for batch in harness["out"].batches)
    pairs = {(r["n"], r["m"]) for batch in harness["out"].batches for r in batch.to_rows()}
    assert found == len(pairs) == 40_000
    assert all(r["left.k"] == r["right.k"] for r in harness["out"].batches[0].to_rows())


def test_names_of_columns_that_both_sides_have() -> None:
    def names(**more: Setting) -> list[str]:
        keys = {"leftkeys": fields("a"), "rightkeys": fields("a")}
        graph = [fed("l"), fed("r"), operator("j", "join", "l", "r", **keys, **more), sink("j")]
        events: Any = [("l", rows(a=[1], b=[2])), ("r", rows(a=[1], c=[3]))]
        batches = play(started(graph), events)["out"].batches
        return list(batches[0].schema.names)

    assert names() == ["left.a", "b", "right.a", "c"]
    assert names(qualify="all", leftname="f", rightname="g") == ["f.a", "f.b", "g.a", "g.c"]
    assert names(leftcolumns=texts("b"), rightcolumns=texts("a")) == ["b", "a"]


def test_keys_that_can_never_be_equal_are_dropped_and_counted() -> None:
    graph = [
        fed("l"),
        fed("r"),
        operator("j", "join", "l", "r", leftkeys=fields("a"), rightkeys=fields("b")),
        sink("j"),
    ]
    harness = play(started(graph), [("l", rows(a=[1, 2])), ("r", rows(b=["1"]))])
    assert harness["j"].counters.dropped_rows == 1
    assert "number" in next(iter(harness["j"].counters.drops))


def test_a_key_that_everybody_has_is_joined_in_turns_and_waits_for_a_slow_consumer() -> None:
    keys = {"leftkeys": fields("k"), "rightkeys": fields("k")}
    graph = [fed("l"), fed("r"), operator("j", "join", "l", "r", **keys), sink("j")]
    harness = started(graph)
    harness["l"].feed(rows(k=[1] * 2_000, n=list(range(2_000))))
    assert harness["r"].feed(rows(k=[1] * 1_000)) is Flow.PAUSE
    assert sum(b.num_rows for b in harness["out"].batches) < 1_000_000
    assert max(b.num_rows for b in harness["out"].batches) <= 65_536
    harness["out"].answer = Flow.PAUSE
    harness.clock.run()
    held = len(harness["out"].batches)
    harness["l"].end()
    harness["r"].end()
    harness.clock.run()
    assert len(harness["out"].batches) == held
    assert harness["out"].ends == []
    harness["out"].answer = Flow.MORE
    harness["j"].resume()
    harness.clock.run()
    assert sum(b.num_rows for b in harness["out"].batches) == 2_000_000
    assert harness["out"].ends == [1]
    assert harness["r"].resumed >= 1


def test_what_a_join_holds_is_charged_and_bounded() -> None:
    keys = {"leftkeys": fields("k"), "rightkeys": fields("k")}
    graph = [fed("l"), fed("r"), operator("j", "join", "l", "r", **keys), sink("j")]
    harness = started(graph, limits=Limits(memory_bytes=1 << 20))
    for start in range(0, 200_000, 10_000):
        harness.context.guard(
            lambda start=start: harness["l"].feed(rows(k=list(range(start, start + 10_000))))
        )
    error = harness.errors[0]
    assert isinstance(error, BudgetExceeded)
    assert error.limit == "memory_bytes"
    assert error.operator == "j"


def test_rows_are_not_kept_for_a_side_that_has_ended() -> None:
    keys = {"leftkeys": fields("k"), "rightkeys": fields("k")}
    graph = [fed("l"), fed("r"), operator("j", "join", "l", "r", kind="left", **keys), sink("j")]
    harness = play(started(graph), [("r", rows(k=[1])), ("r", None)])
    held = harness.context.budget.memory_bytes
    play(harness, [("l", rows(k=list(range(n, n + 5_000)), x=[0] * 5_000)) for n in range(0, 50_000, 5_000)])
    assert harness.context.budget.memory_bytes == held
    assert len(rows_of(harness)) == 50_000


def test_index_join_asks_for_distinct_keys_and_pauses_its_outer_side() -> None:
    keys = {"leftkeys": fields("k"), "rightkeys": fields("id")}
    graph = [fed("l"), fed("r"), operator("j", "join/Index", "l", "r", **keys), sink("j")]
    harness = started(graph)
    assert harness["l"].feed(rows(k=[2, 2, None, 5])) is Flow.MORE
    (probe,) = harness["r"].probes
    assert probe.keys.to_rows() == [{"id": 2}, {"id": 5}]
    flows = [harness["l"].feed(rows(k=[n])) for n in range(60)]
    assert flows[-1] is Flow.PAUSE
    harness["l"].end()
    for probe in harness["r"].probes:  # grows while it is answered
        harness["r"].emit(rows(id=probe.keys.column("id").to_pylist()), probe.tag)
        harness["r"].emit_end(probe.tag)
        harness.clock.run()
    assert len(rows_of(harness)) == 3 + 60
    assert harness["out"].ends == [1]
    assert harness["l"].resumed >= 1


def test_answers_may_come_in_any_order() -> None:
    keys = {"leftkeys": fields("k"), "rightkeys": fields("id")}
    graph = [fed("l"), fed("r"), operator("j", "join/Index", "l", "r", kind="left", **keys), sink("j")]
    harness = started(graph)
    harness["l"].feed(rows(k=[1]))
    harness["l"].feed(rows(k=[2]))
    harness["l"].end()
    first, second = harness["r"].probes
    harness["r"].emit_end(second.tag)
    assert harness["out"].ends == []
    harness["r"].emit(rows(id=[1], v=["x"]), first.tag)
    harness["r"].emit_end(first.tag)
    assert rows_of(harness) == [(1, 1, "x"), (2,)]
    assert harness["out"].ends == [1]


def test_checks_before_it_runs() -> None:
    def problem(**settings_: Setting) -> str:
        operators = (fed("l"), fed("r"), operator("j", "join/Index", "l", "r", **settings_), sink("j"))
        problems = list(operator_problems(plan.Plan((plan.Opgraph("g", {}, operators),))))
        return problems[0].message

    assert "1 keys where leftkeys has 2" in problem(leftkeys=fields("a", "b"), rightkeys=fields("a"))
    assert "columns of the inner source" in problem(
        leftkeys=fields("a"), rightkeys=plan.Array((call("lower", Field("a")),))
    )
    assert "'outer' is not one of" in problem(leftkeys=fields("a"), rightkeys=fields("a"), kind="outer")
