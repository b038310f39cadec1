"""A problem of a plan and its place in the plan: what checks report, before anyone knows about text.

The plan checks and the operators make problems; the UFL parser turns a place into line and column, a
node without the text describes it in words.
"""

from __future__ import annotations

from dataclasses import dataclass

from query.plan import Plan
from query.plan_hints import quoted


@dataclass(frozen=True, slots=True)
class Place:
    """Part of a plan: objects by number, settings by key, items of a setting by position or key.

    `at_key` means the key of the setting, or the index of the item, and not its value.
    """

    opgraph: int | None = None
    operator: int | None = None
    predicate: int | None = None
    setting: str | None = None
    item: int | str | None = None
    at_key: bool = False

    def in_operator(self, number: int) -> Place:
        return Place(self.opgraph, number)

    def in_predicate(self, number: int) -> Place:
        return Place(self.opgraph, self.operator, number)

    def at(self, setting: str, item: int | str | None = None, at_key: bool = False) -> Place:
        return Place(self.opgraph, self.operator, self.predicate, setting, item, at_key)

    def describe(self, plan: Plan) -> str:
        """The place in words, outermost object first."""
        if self.opgraph is None:
            return "query"
        opgraph = plan.opgraphs[self.opgraph]
        words = [f"opgraph {quoted(opgraph.name)}"]
        if self.operator is not None:
            operator = opgraph.operators[self.operator]
            words.append(f"operator {quoted(operator.name)}")
            if self.predicate is not None:
                words.append(f"predicate {quoted(operator.predicates[self.predicate].name)}")
        if self.setting is not None:
            item = "" if self.item is None else f"[{self.item}]"
            words.append(f"setting {quoted(self.setting + item)}")
        return ", ".join(words)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, where, and what might put it right."""

    place: Place
    message: str
    hint: str = ""


class PlanError(ValueError):
    """A plan that breaks a rule; `problem` says which, and where in the plan."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        hint = f" ({problem.hint})" if problem.hint else ""
        super().__init__(f"{problem.place.describe(plan)}: {problem.message}{hint}")
