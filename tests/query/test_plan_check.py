"""Plans that did not come from text: a peer's or a compiler's."""

from __future__ import annotations

import pytest

from query.plan import Array, Constant, Field, Function, Operator, Opgraph, Plan, Predicate
from query.plan_check import plan_problems, require_well_formed
from query.plan_hints import did_you_mean, nearest, quoted
from query.plan_problem import PlanError


def _with(*predicates: Predicate) -> Plan:
    return Plan((Opgraph("g", {}, (Operator("s", "selection", predicates=predicates),)),))


def _atom(name: str) -> Predicate:
    return Predicate(name, "atomic", "=", Field("a"), Field("b"))


def _message(plan: Plan) -> str:
    with pytest.raises(PlanError) as caught:
        require_well_formed(plan)
    return str(caught.value)


def test_a_well_formed_plan_has_no_problems() -> None:
    either = Predicate("either", "or", members=("a", "both"))
    both = Predicate("both", "and", members=("a", "b", "a"))
    assert list(plan_problems(_with(either, both, _atom("a"), _atom("b")))) == []


def test_predicates_that_contain_themselves() -> None:
    assert "'p' contains itself" in _message(_with(Predicate("p", "and", members=("p",))))
    p, q = Predicate("p", "and", members=("a", "q")), Predicate("q", "or", members=("p",))
    assert "contains itself" in _message(_with(_atom("a"), p, q))


def test_a_few_predicates_may_not_stand_for_billions() -> None:
    doubling = [Predicate(f"p{n}", "and", members=(f"p{n + 1}", f"p{n + 1}")) for n in range(40)]
    assert "PREDICATE_LEAVES_MAX" in _message(_with(*doubling, _atom("p40")))


def test_a_long_chain_of_predicates_is_too_deep() -> None:
    chain = [Predicate(f"p{n}", "or", members=(f"p{n + 1}",)) for n in range(50_000)]
    assert "PREDICATE_DEPTH_MAX" in _message(_with(*chain, _atom("p50000")))


def test_deep_expressions_are_found_without_recursion() -> None:
    expression: Function = Function("f", (Field("x"),))
    for _ in range(100_000):
        expression = Function("f", (expression,))
    problems = plan_problems(Plan((Opgraph("g", {"e": expression}),)))
    assert "FUNCTION_DEPTH_MAX" in next(problems).message
    while expression.args and isinstance(expression.args[0], Function):
        expression = expression.args[0]  # unwound by hand: freeing it all at once recurses in C


def test_and_or_predicates_hold_no_comparison() -> None:
    wrong = Predicate("p", "and", "=", Field("a"), Constant("1", "long"), members=("a",))
    messages = [problem.message for problem in plan_problems(_with(wrong, _atom("a")))]
    assert [message.split()[0] for message in messages] == ["op", "leftexpression", "rightexpression"]
    assert "combines nothing" in _message(_with(Predicate("p", "or")))
    hint = "did you mean 'abcd'?"
    assert hint in _message(_with(Predicate("p", "or", members=("abce",)), _atom("abcd")))


def test_errors_say_where_in_words() -> None:
    plan = Plan((Opgraph("g", {"keys": Array(("\ud800",))}),))
    assert _message(plan) == "opgraph 'g', setting 'keys[0]': a text holds half of a surrogate pair"
    assert _message(_with(Predicate("p", ""))).startswith("opgraph 'g', operator 's', predicate 'p': ")


def test_hints_come_from_what_is_near() -> None:
    assert nearest("SELEKTION", ["scan", "selection"]) == "selection"
    assert did_you_mean("zzz", ["scan"], "there is scan") == "there is scan"
    assert nearest("x" * 1_000_000, ["x"]) == ""
    assert len(quoted("x" * 1_000_000)) < 100
