"""Wiring, ends, turns, pauses, cycles and budgets, with the operators that only pass things on."""

from __future__ import annotations

import query.operators  # noqa: F401 - makes the operators known
from query.batch import Batch
from query.dataflow.budget import BudgetExceeded, Limits
from query.dataflow.check import operator_problems
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.plan import Opgraph, Plan
from tests.query.dataflow.harness import Harness, operator, rows, sink, source


@register
class CountDown(Operator):
    """Lets positive numbers through, one smaller: makes a cycle that ends by itself."""

    TYPE = "test"
    IMPLEMENTATION = "CountDown"

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        left = [n - 1 for n in batch.column("n").to_pylist() if n > 0]
        return self.emit(rows(n=left), tag) if left else Flow.MORE


@register
class Echo(Operator):
    """Passes on for ever."""

    TYPE = "test"
    IMPLEMENTATION = "Echo"

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return self.emit(batch, tag)


def test_batches_flow_from_source_to_sink_and_the_end_follows() -> None:
    harness = Harness(
        [source(), operator("n", "null/Null", "s"), sink("n")], {"s": [rows(a=[1, 2]), rows(a=[3])]}
    )
    harness.run()
    assert harness["out"].rows() == [(1,), (2,), (3,)]
    assert harness["out"].ends == [1]
    assert harness.done == 1
    assert harness["n"].counters.rows_in == harness["n"].counters.rows_out == 3


def test_union_ends_once_when_all_its_sources_have() -> None:
    harness = Harness(
        [source("a"), source("b"), operator("u", "union", "a", "b"), sink("u")],
        {"a": [rows(x=[1])], "b": [rows(x=[2])]},
    ).run()
    assert sorted(harness["out"].rows()) == [(1,), (2,)]
    assert harness["out"].ends == [1]


def test_tee_gives_every_consumer_every_batch_and_asks_its_source_once() -> None:
    harness = Harness(
        [source(), operator("t", "tee", "s"), sink("t", name="one"), sink("t", name="two")],
        {"s": [rows(a=[1, 2])]},
    ).run()
    assert harness["one"].rows() == harness["two"].rows() == [(1,), (2,)]
    assert len(harness["s"].probes) == 1
    assert harness.done == 1


def test_queue_yields_and_keeps_order_with_the_end_last() -> None:
    batches = [rows(a=[n]) for n in range(5)]
    harness = Harness([source(), operator("q", "queue", "s"), sink("q")], {"s": batches})
    harness.context.guard(harness.flow.start)
    assert harness["out"].rows() == []
    harness.clock.run()
    assert harness["out"].rows() == [(n,) for n in range(5)]
    assert harness["out"].ends == [1]
    assert harness.context.budget.memory_bytes == 0


def test_queue_pauses_its_producers_and_resumes_them() -> None:
    batches = [rows(a=list(range(100))) for _ in range(4)]
    harness = Harness([source(), operator("q", "queue", "s", bytes="1000"), sink("q")], {"s": batches})
    harness.context.guard(harness.flow.start)
    assert harness["s"].resumed == 0
    harness.clock.run()
    assert harness["s"].resumed >= 1
    assert len(harness["out"].rows()) == 400


def test_a_paused_consumer_stops_the_queue_until_it_resumes() -> None:
    harness = Harness(
        [source(), operator("q", "queue", "s"), sink("q")], {"s": [rows(a=[n]) for n in range(3)]}
    )
    harness.context.guard(harness.flow.start)
    harness["out"].answer = Flow.PAUSE
    harness.clock.run()
    assert harness["out"].rows() == [(0,)]
    harness["out"].answer = Flow.MORE
    harness["q"].resume()
    harness.clock.run()
    assert harness["out"].rows() == [(0,), (1,), (2,)]
    assert harness.done == 1


def test_a_cycle_runs_to_its_fixpoint_and_then_ends() -> None:
    harness = Harness(
        [
            source(),
            operator("u", "union", "s", "back"),
            operator("t", "tee", "u"),
            operator("less", "test/CountDown", "t"),
            operator("back", "queue", "less"),
            sink("t"),
        ],
        {"s": [rows(n=[3]), rows(n=[1])]},
    ).run()
    assert sorted(harness["out"].rows()) == [(0,), (0,), (1,), (1,), (2,), (3,)]
    assert harness["out"].ends == [1]
    assert harness.done == 1


def test_a_runaway_cycle_meets_its_budget_and_the_error_names_the_limit() -> None:
    harness = Harness(
        [
            source(),
            operator("u", "union", "s", "back"),
            operator("t", "tee", "u"),
            operator("same", "test/Echo", "t"),
            operator("back", "queue", "same"),
            sink("t"),
        ],
        {"s": [rows(n=[1])]},
        Limits(steps=1_000),
    )
    harness.run()
    assert len(harness.errors) == 1
    error = harness.errors[0]
    assert isinstance(error, BudgetExceeded)
    assert error.limit == "steps"
    assert "1000" in str(error)


def problems(*operators: object) -> list[str]:
    plan = Plan((Opgraph("g", {}, operators),))  # type: ignore[arg-type]
    return [problem.message for problem in operator_problems(plan)]


def test_checks_name_what_is_wrong_before_anything_runs() -> None:
    assert problems(source(), sink("s")) == []
    assert (
        "no queue implementation 'Basik'"
        in problems(source(), operator("q", "queue/Basik", "s"), sink("q"))[0]
    )
    assert "cycle without a queue: u -> n" in "".join(
        problems(
            source(),
            operator("u", "union", "s", "n"),
            operator("t", "tee", "u"),
            operator("n", "null/Null", "t"),
            sink("t"),
        )
    ).replace("u -> t -> n", "u -> n")
    assert "feeds 2 operators" in problems(source(), sink("s"), sink("s", name="again"))[0]
    assert "nothing takes what" in problems(source())[0]
    assert "has no such setting" in problems(source(), operator("q", "queue", "s", bites="1"), sink("q"))[0]
    assert "not a whole number" in problems(source(), operator("q", "queue", "s", bytes="many"), sink("q"))[0]
    assert "takes 1 sources, not 0" in problems(operator("q", "queue"), sink("q"))[0]
