"""Stages: every opgraph after those that feed it, circles together."""

from __future__ import annotations

from query.engine.stages import Stage, stages
from query.plan import Operator, Opgraph, Plan


def opgraph(name: str, reads: list[str], puts: list[str]) -> Opgraph:
    operators = [Operator(f"r{n}", "scan", "DHT", (), {"ns": ns}) for n, ns in enumerate(reads)]
    operators += [Operator(f"p{n}", "put", "DHT", ("r0",), {"ns": ns}) for n, ns in enumerate(puts)]
    return Opgraph(name, {}, tuple(operators))


def test_a_rehash_join_waits_for_both_sides() -> None:
    plan = Plan(
        (opgraph("join", ["l", "r"], []), opgraph("left", ["fw"], ["l"]), opgraph("right", ["rep"], ["r"]))
    )
    assert stages(plan) == [
        Stage(("left", "right"), ("l", "r"), False),
        Stage(("join",), (), False),
    ]


def test_opgraphs_that_feed_each_other_are_one_stage() -> None:
    plan = Plan(
        (opgraph("out", ["b"], []), opgraph("one", ["a", "seed"], ["b"]), opgraph("two", ["b"], ["a"]))
    )
    found = stages(plan)
    assert found[0] == Stage(("one", "two"), ("b", "a"), True)
    assert found[1] == Stage(("out",), (), False)


def test_an_opgraph_that_feeds_itself_is_cyclic() -> None:
    assert stages(Plan((opgraph("g", ["x"], ["x"]),))) == [Stage(("g",), ("x",), True)]


def test_a_namespace_is_complete_with_the_last_stage_that_feeds_it() -> None:
    plan = Plan((opgraph("seed", ["links"], ["pairs"]), opgraph("step", ["pairs"], ["pairs"])))
    assert stages(plan) == [Stage(("seed",), (), False), Stage(("step",), ("pairs",), True)]
