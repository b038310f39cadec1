"""The text of a query to its plan: the whole of Appendix A, from the first `%` to the last `}`.

Text comes from a client by way of its proxy node; the plan goes to the executor. One pass over the
tokens builds a tree of objects, which becomes a plan, which is checked. Whatever the text, the outcome
is a well-formed plan or a UflError that points at the fault; time and memory are bounded by ufl.limits
and the bounds of query.plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from query.plan import ITEMS_MAX, OPERATORS_MAX, OPGRAPHS_MAX, Plan
from query.plan_check import plan_problems
from query.plan_hints import quoted
from query.plan_predicates import PREDICATE_DEPTH_MAX
from query.plan_problem import Place, Problem
from ufl.errors import Source, UflError
from ufl.expansion import expand_texts
from ufl.expressions import read_value
from ufl.lexer import END, STRING, WORD, Lexer
from ufl.nesting import CHILDREN, ObjectText, PlanBuilder, flat_predicates, nesting_error
from ufl.settings import Index, SettingsReader

_CHILDREN_MAX = {"": OPGRAPHS_MAX, "opgraph": OPERATORS_MAX, "operator": ITEMS_MAX, "predicate": ITEMS_MAX}


@dataclass(frozen=True, slots=True)
class LocatedPlan:
    """A plan and the text it came from, for those who find faults in it later, such as operators."""

    plan: Plan
    _objects: list[ObjectText]
    _source: Source

    def error(self, problem: Problem) -> UflError:
        """The problem as an error that points at the text."""
        start, end = self._find(problem.place)
        return self._source.error(problem.message, start, end, problem.hint)

    def _find(self, place: Place) -> tuple[int, int | None]:
        if place.opgraph is None:
            return 0, 0
        text = self._objects[place.opgraph]
        if place.operator is not None:
            text = text.children[place.operator]
            if place.predicate is not None:
                text = flat_predicates(text)[place.predicate]
        entry = text.settings.entries.get(place.setting) if place.setting is not None else None
        if entry is None:
            return text.start, None
        if place.at_key and place.item is None:
            return entry.key_start, None
        return entry.start_of(place.item), None


def parse(text: str, expansions: Mapping[str, str] | None = None) -> Plan:
    r"""The plan that a query text describes, or UflError.

    `expansions` gives the texts that `\qt` and `\qi` stand for, by the names qt and qi; those not given
    stay symbolic in the plan until `ufl.expand`.
    """
    return parse_located(text, expansions).plan


def parse_located(text: str, expansions: Mapping[str, str] | None = None) -> LocatedPlan:
    """As `parse`, and able to point at the text afterwards."""
    lexer = Lexer(text)
    objects = _Reader(lexer).read_query()
    plan = PlanBuilder(lexer.source).plan(objects)
    if expansions:
        plan = expand_texts(plan, expansions)
    located = LocatedPlan(plan, objects, lexer.source)
    for problem in plan_problems(plan):
        raise located.error(problem)
    return located


class _Reader:
    """Reads objects within objects, with a stack of its own."""

    def __init__(self, lexer: Lexer) -> None:
        self._lexer = lexer
        self._top = self._object("", "", 0)
        self._open = [self._top]

    def _object(self, kind: str, name: str, start: int) -> ObjectText:
        return ObjectText(kind, name, start, SettingsReader(self._lexer.source, self._lexer.budget))

    def read_query(self) -> list[ObjectText]:
        lexer = self._lexer
        while True:
            if lexer.take_mark("%"):
                self._open_object()
            elif len(self._open) > 1:
                self._read_inside(self._open[-1])
            elif lexer.kind == END:
                return self._top.children
            elif lexer.at_mark("}"):
                raise lexer.source.error("this '}' closes nothing", lexer.start)
            else:
                raise lexer.unexpected("an object", "a query is made of %opgraph(name) { … }")

    def _read_inside(self, parent: ObjectText) -> None:
        lexer = self._lexer
        if lexer.kind == WORD or lexer.kind == STRING:
            self._read_setting(parent)
        elif lexer.take_mark("}"):
            self._open.pop()
        elif lexer.kind == END:
            line = lexer.source.line(parent.start)
            raise lexer.unexpected(
                "'}'", f"the {parent.type} {quoted(parent.name)} of line {line} is still open"
            )
        else:
            raise lexer.unexpected("a setting, an object or '}'")

    def _open_object(self) -> None:
        lexer = self._lexer
        parent = self._open[-1]
        start = lexer.start
        kind = lexer.take_text("opgraph, operator or predicate after '%'")
        if CHILDREN[parent.type] != kind:
            raise nesting_error(parent.type, kind, start, lexer.source)
        lexer.expect_mark("(", f"and a name after %{kind}")
        start = lexer.start
        lexer.budget.spend_node(start)
        name = lexer.take_text(f"the name of the {kind}")
        lexer.expect_mark(")", "after the name")
        lexer.expect_mark("{", f"to open the {kind}")
        if len(parent.children) == _CHILDREN_MAX[parent.type]:
            limit = _CHILDREN_MAX[parent.type]
            raise lexer.source.error(f"more than {limit} {kind}s in one place", start)
        # Around the first predicate the query, an opgraph and an operator are open.
        if len(self._open) > PREDICATE_DEPTH_MAX + 2:
            message = f"predicates nest deeper than {PREDICATE_DEPTH_MAX} (PREDICATE_DEPTH_MAX)"
            raise lexer.source.error(message, start)
        child = self._object(kind, name, start)
        parent.children.append(child)
        self._open.append(child)

    def _read_setting(self, parent: ObjectText) -> None:
        lexer = self._lexer
        key_start = lexer.start
        key = lexer.take_text("a key")
        index = self._read_index() if lexer.take_mark("[") else None
        if lexer.text != "=":
            raise lexer.unexpected(f"'=' after {quoted(key)}")
        lexer.advance()
        start = lexer.start
        if index is None and lexer.take_mark("["):
            lexer.expect_mark("]", "for an empty array")
            parent.settings.add_empty(key, key_start)
            return
        value = read_value(lexer, compare_allowed=parent.type == "predicate" and key == "op")
        if index is None:
            parent.settings.add_flat(key, key_start, value, start)
        else:
            parent.settings.add_item(key, key_start, index, value, start)

    def _read_index(self) -> Index:
        lexer = self._lexer
        start, kind = lexer.start, lexer.kind
        if lexer.take_mark("]"):
            return Index("", start, missing=True)
        text = lexer.take_text("an index or ']'")
        lexer.expect_mark("]", "after the index")
        return Index(text, start, quoted=kind == STRING)
