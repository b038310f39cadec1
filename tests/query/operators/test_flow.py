"""When data is asked for: flow control by start, period, count and rate; dual-flow group-by; tags and ends."""

from __future__ import annotations

from typing import Any

import pytest

from query import plan
from query.dataflow.check import operator_problems
from query.dataflow.flow import Flow, ProbeKind
from query.operators.flowcontrol.basic import PROBES_OPEN_MAX, SKIPPED
from query.plan import Field, Setting
from tests.query.dataflow.harness import Harness, operator, sink
from tests.query.operators.feeding import call, fed, play, rows, rows_of, started, table, texts

COUNT = {"aggregates": table(n=call("count"))}


def controlled(**settings: Setting) -> Harness:
    return started([fed(), operator("f", "flowcontrol", "s", **settings), sink("f")])


def test_at_start_it_asks_once_and_passes_everything_up_under_the_tag_of_whoever_asked() -> None:
    harness = controlled()
    (probe,) = harness["s"].probes
    assert probe.kind is ProbeKind.SET
    assert probe.tag != 1
    play(harness, [("s", rows(a=[1])), ("s", None)])
    assert harness["out"].ends == [1]
    assert rows_of(harness) == [(1,)]


def test_periodic_probes_each_have_a_tag_and_one_end_follows_the_last() -> None:
    harness = controlled(period="10", count="3")
    for turn in range(3):
        assert len(harness["s"].probes) == turn + 1
        play(harness, [("s", rows(a=[turn])), ("s", None)])
        assert harness["out"].ends == ([1] if turn == 2 else [])
        harness.clock.run(10.0)
    assert len({probe.tag for probe in harness["s"].probes}) == 3
    assert rows_of(harness) == [(0,), (1,), (2,)]
    harness.clock.run(100.0)
    assert len(harness["s"].probes) == 3


def test_a_delay_comes_before_the_first_probe() -> None:
    harness = controlled(delay="5")
    assert harness["s"].probes == []
    harness.clock.run(5.0)
    assert len(harness["s"].probes) == 1


def test_a_stream_ends_after_its_duration_and_later_rows_are_dropped_and_counted() -> None:
    harness = controlled(probe="stream", duration="60")
    assert harness["s"].probes[0].kind is ProbeKind.STREAM
    play(harness, [("s", rows(a=[1]))])
    harness.clock.run(60.0)
    assert harness["out"].ends == [1]
    assert harness["s"].feed(rows(a=[2, 3])) is Flow.DONE
    assert harness["f"].counters.dropped_rows == 2
    assert rows_of(harness) == [(1,)]


def test_by_count_it_asks_after_so_many_rows_arrived() -> None:
    harness = controlled(probe="stream", start="no", rows="10", count="2")
    assert harness["s"].probes == []
    for _ in range(9):
        harness["s"].arrived(1)
    harness.clock.run()
    assert harness["s"].probes == []
    harness["s"].arrived(3)
    harness.clock.run()
    assert len(harness["s"].probes) == 1
    harness["s"].arrived(8)
    harness.clock.run()
    assert len(harness["s"].probes) == 2


def test_by_rate_each_crossing_asks_once() -> None:
    rising = controlled(start="no", rate_above="5", rate_below="1")

    def second(arrivals: int) -> int:
        rising["s"].arrived(arrivals)
        rising.clock.run(1.0)
        return len(rising["s"].probes)

    assert [second(n) for n in (0, 3, 9, 9, 3, 0, 0, 7)] == [0, 0, 1, 1, 1, 2, 2, 3]


def test_a_slow_source_is_not_asked_again_and_again() -> None:
    harness = controlled(period="1", duration="100")
    harness.clock.run(50.0)
    assert len(harness["s"].probes) == PROBES_OPEN_MAX
    assert ("f", SKIPPED) in harness.complaints


def test_set_predicate_probes_pass_through_and_later_ones_end_at_once() -> None:
    from query.dataflow.flow import Probe

    harness = controlled()
    harness["f"].probe(Probe(ProbeKind.SET_PREDICATE, 77, rows(a=[1])))
    assert harness["s"].probes[-1].tag == 77
    harness["s"].emit(rows(a=[1]), 77)
    harness["s"].emit_end(77)
    assert harness["out"].ends == [77]
    harness["f"].probe(Probe(ProbeKind.SET, 78))
    assert harness["out"].ends == [77, 78]


def test_above_a_group_by_every_probe_aggregates_anew() -> None:
    graph = [
        fed(),
        operator("g", "groupby", "s", **COUNT),
        operator("f", "flowcontrol", "g", period="1", count="2"),
        sink("f"),
    ]
    harness = started(graph)
    play(harness, [("s", rows(a=[1, 2])), ("s", None)])
    harness.clock.run(1.0)
    play(harness, [("s", rows(a=[1])), ("s", None)])
    assert rows_of(harness) == [(1,), (2,)]
    assert harness["out"].ends == [1]


def dual(below: dict[str, Setting], above: dict[str, Setting], **settings: Setting) -> Harness:
    return started(
        [
            fed(),
            operator("in", "flowcontrol", "s", **below),
            operator("g", "groupby/DualFlow", "in", **COUNT, **settings),
            operator("ask", "flowcontrol", "g", **above),
            sink("ask"),
        ]
    )


@pytest.mark.parametrize(("clear", "totals"), [("no", [2, 3, 3]), ("yes", [2, 1, 0])])
def test_dual_flow_answers_set_probes_with_the_groups_as_they_stand(clear: str, totals: list[int]) -> None:
    harness = dual({"probe": "stream"}, {"start": "no", "period": "10", "count": "3"}, clear=clear)
    play(harness, [("s", rows(a=[1, 2]))])
    harness.clock.run(10.0)
    play(harness, [("s", rows(a=[3]))])
    harness.clock.run(20.0)
    assert harness["out"].rows() == [(n,) for n in totals]
    assert harness["out"].ends == [1]
    assert len(harness["s"].probes) == 1


def test_dual_flow_times_a_stream_by_period_rows_and_end() -> None:
    timed = dual({}, {"probe": "stream"}, period="5")
    play(timed, [("s", rows(a=[1]))])
    timed.clock.run(5.0)
    assert timed["out"].rows() == [(1,)]
    play(timed, [("s", rows(a=[1])), ("s", None)])
    assert timed["out"].rows() == [(1,), (2,)]
    assert timed["out"].ends == [1]
    counted = dual({}, {"probe": "stream"}, rows="3", clear="yes")
    play(counted, [("s", rows(a=[1, 1])), ("s", rows(a=[1])), ("s", rows(a=[1])), ("s", None)])
    assert counted["out"].rows() == [(3,), (1,)]


def test_dual_flow_without_a_flow_control_below_asks_by_itself() -> None:
    graph = [fed(), operator("g", "groupby/DualFlow", "s", **COUNT, results="ended"), sink("g")]
    harness = play(started(graph), [("s", rows(a=[1, 2])), ("s", None)])
    assert harness["out"].rows() == [(2,)]
    assert harness["out"].ends == [1]


def test_settings_that_do_not_go_together_are_refused() -> None:
    def problem(kind: str, **settings: Any) -> str:
        operators = (fed(), operator("o", kind, "s", **settings), sink("o"))
        return next(iter(operator_problems(plan.Plan((plan.Opgraph("g", {}, operators),))))).message

    assert "no operator 'nobody'" in problem("flowcontrol", rows="1", watch=texts("nobody"))
    assert "no aggregate 'summ'" in problem("groupby", aggregates=table(x=call("summ", Field("a"))))
    assert "same name" in problem("groupby", keys=table(x=Field("a")), aggregates=table(x=call("count")))
    assert "is empty" in problem("groupby")
