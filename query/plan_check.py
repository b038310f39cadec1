"""What makes a plan well formed, whoever made it: the UFL parser, the SQL compiler or a peer.

A plan comes in, problems come out, each with the place in the plan it is about. Names are unique in
their scope, references lead somewhere, nothing is deeper or larger than its bound (PIER 3.3.2,
Appendix A). Settings of particular operators are the operators' own affair.

A plan without problems can be printed as UFL and read back as the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from query.plan import ITEMS_MAX, OPERATORS_MAX, OPGRAPHS_MAX, Operator, Opgraph, Plan
from query.plan_hints import did_you_mean, quoted
from query.plan_predicates import predicates_problems
from query.plan_problem import Place, PlanError, Problem
from query.plan_settings import Tally, name_problems, settings_problems, text_problems

#: The logical operators of PIER, Table 3.3, and `sort`, which SQL needs.
OPERATOR_TYPES = (
    *("cache", "dupelim", "eddy", "flowcontrol", "groupby", "join", "null", "projection"),
    *("put", "queue", "result", "scan", "selection", "sort", "tee", "union"),
)
#: Settings of an operator that the plan keeps as attributes and not among its settings.
OPERATOR_KEYS = ("type", "implementation", "sources")


def require_well_formed(plan: Plan) -> None:
    """Raise PlanError for the first problem of the plan, if it has one."""
    for problem in plan_problems(plan):
        raise PlanError(problem, plan)


def plan_problems(plan: Plan) -> Iterator[Problem]:
    """Every problem of a plan, roughly in the order of its text."""
    if not plan.opgraphs:
        yield Problem(Place(), "the query is empty", "a query holds at least one %opgraph(name) { … }")
    if len(plan.opgraphs) > OPGRAPHS_MAX:
        yield Problem(Place(), f"more than {OPGRAPHS_MAX} opgraphs (OPGRAPHS_MAX)")
    tally = Tally()
    names = _Scope("opgraph")
    for number, opgraph in enumerate(plan.opgraphs):
        place = Place(number)
        yield from names.problems(opgraph.name, place)
        yield from _opgraph_problems(plan, opgraph, place, tally)
    yield from tally.problems()


@dataclass(slots=True)
class _Scope:
    """The names given so far to the objects of one kind within one other object."""

    kind: str
    seen: set[str] = field(default_factory=set)

    def problems(self, name: str, place: Place) -> Iterator[Problem]:
        if not name:
            yield Problem(place, f"the {self.kind} has no name")
        elif name in self.seen:
            yield Problem(
                place, f"there is already {_an(self.kind)} {quoted(name)} here", "give each its own name"
            )
        yield from name_problems(name, place)
        self.seen.add(name)


def _an(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _opgraph_problems(plan: Plan, opgraph: Opgraph, place: Place, tally: Tally) -> Iterator[Problem]:
    tally.nodes += 1
    if len(opgraph.operators) > OPERATORS_MAX:
        yield Problem(place, f"more than {OPERATORS_MAX} operators in one opgraph (OPERATORS_MAX)")
    yield from settings_problems(opgraph.settings, place, tally)
    scope = _Scope("operator")
    names = {operator.name for operator in opgraph.operators}
    for number, operator in enumerate(opgraph.operators):
        here = place.in_operator(number)
        yield from scope.problems(operator.name, here)
        yield from _operator_problems(operator, here, tally)
        yield from _source_problems(plan, operator, names, here)


def _operator_problems(operator: Operator, place: Place, tally: Tally) -> Iterator[Problem]:
    # The operator, its type, its implementation, the array of its sources, and each of them.
    tally.nodes += 4 + len(operator.sources)
    known = "the types are " + ", ".join(OPERATOR_TYPES)
    if not operator.type:
        capitals = next((key for key in operator.settings if key.lower() == "type"), "")
        hint = f"keys are case-sensitive: write type, not {capitals}" if capitals else known
        yield Problem(place, f"the operator {quoted(operator.name)} has no type", hint)
    elif operator.type not in OPERATOR_TYPES:
        message = f"there is no operator type {quoted(operator.type)}"
        yield Problem(place.at("type"), message, did_you_mean(operator.type, OPERATOR_TYPES, known))
    yield from text_problems((operator.implementation,), place.at("implementation"), tally)
    for key in OPERATOR_KEYS:
        if key in operator.settings:
            yield Problem(place.at(key, at_key=True), f"{key} is an attribute of the operator, not a setting")
    yield from settings_problems(operator.settings, place, tally)
    scope = _Scope("predicate")
    for number, predicate in enumerate(operator.predicates):
        yield from scope.problems(predicate.name, place.in_predicate(number))
    if len(operator.predicates) > ITEMS_MAX:
        yield Problem(place, f"more than {ITEMS_MAX} predicates in one operator (ITEMS_MAX)")
    yield from predicates_problems(operator.predicates, place, tally)


def _source_problems(plan: Plan, operator: Operator, names: Set[str], place: Place) -> Iterator[Problem]:
    if len(operator.sources) > ITEMS_MAX:
        yield Problem(place.at("sources"), f"more than {ITEMS_MAX} sources (ITEMS_MAX)")
    for number, source in enumerate(operator.sources):
        if source in names:
            continue
        message = f"there is no operator {quoted(source)} in this opgraph"
        if any(source == other.name for opgraph in plan.opgraphs for other in opgraph.operators):
            hint = "opgraphs meet in a namespace: one puts tuples there, the other scans it"
        else:
            hint = did_you_mean(source, sorted(names), "sources name operators of the same opgraph")
        yield Problem(place.at("sources", number), message, hint)
