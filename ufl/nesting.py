"""Objects to a plan: what may stand within what, and which settings the plan itself keeps.

The parser hands over a tree of objects that obeys the nesting rules; out comes a plan. `and` and `or`
predicates name their members (`predicates[0] = p`) or hold them; both become names. Words that have one
meaning in several spellings (types in capitals, `greaterthan`) get one spelling here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from query.plan import Array, Expression, Operator, Opgraph, Plan, Predicate, Table
from query.plan_check import OPERATOR_KEYS
from query.plan_hints import did_you_mean, quoted
from query.plan_predicates import OP_SYMBOLS, PREDICATE_KEYS
from ufl.errors import Source, UflError
from ufl.expressions import expression_hint
from ufl.settings import SettingsReader

#: What each object may hold; "" is the query.
CHILDREN = {"": "opgraph", "opgraph": "operator", "operator": "predicate", "predicate": "predicate"}
OBJECT_TYPES = ("opgraph", "operator", "predicate")


@dataclass(slots=True)
class ObjectText:
    """One object as it was read: name, settings, objects within, and where its name stands."""

    type: str
    name: str
    start: int
    settings: SettingsReader
    children: list[ObjectText] = field(default_factory=list)


def nesting_error(parent: str, child: str, start: int, source: Source) -> UflError:
    """Why an object of type `child` cannot stand within `parent`."""
    if child not in OBJECT_TYPES:
        known = "the objects are %opgraph, %operator and %predicate"
        return source.error(
            f"there is no object type {quoted(child)}", start, hint=did_you_mean(child, OBJECT_TYPES, known)
        )
    homes = {
        "opgraph": "at the top",
        "operator": "in an opgraph",
        "predicate": "in an operator or a predicate",
    }
    where = f"in {'a' if parent == 'predicate' else 'an'} {parent}" if parent else "at the top of a query"
    message = f"{'a' if child == 'predicate' else 'an'} {child} cannot stand {where}"
    hint = f"{child}s stand {homes[child]}; is a '}}' missing, or one too many?"
    return source.error(message, start, hint=hint)


def flat_predicates(operator: ObjectText) -> list[ObjectText]:
    """The predicates of an operator, each followed by those within it: their order in the plan."""
    found: list[ObjectText] = []
    stack = operator.children[::-1]
    while stack:
        predicate = stack.pop()
        found.append(predicate)
        stack.extend(reversed(predicate.children))
    return found


class PlanBuilder:
    """Makes the plan of a tree of objects."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def plan(self, objects: list[ObjectText]) -> Plan:
        return Plan(tuple(map(self._opgraph, objects)))

    def _opgraph(self, text: ObjectText) -> Opgraph:
        settings = text.settings.take_all(but=lambda key: False)
        return Opgraph(text.name, settings, tuple(map(self._operator, text.children)))

    def _operator(self, text: ObjectText) -> Operator:
        return Operator(
            name=text.name,
            type=self._word(text, "type").lower(),
            implementation=self._word(text, "implementation"),
            sources=tuple(self._names(text, "sources")),
            settings=text.settings.take_all(but=OPERATOR_KEYS.__contains__),
            predicates=tuple(map(self._predicate, flat_predicates(text))),
        )

    def _predicate(self, text: ObjectText) -> Predicate:
        for key, entry in text.settings.entries.items():
            if key not in PREDICATE_KEYS:
                hint = did_you_mean(key, PREDICATE_KEYS, "the settings are " + ", ".join(PREDICATE_KEYS))
                raise self._source.error(
                    f"a predicate has no setting {quoted(key)}", entry.key_start, hint=hint
                )
        op = self._word(text, "op")
        inner = (child.name for child in text.children)
        return Predicate(
            name=text.name,
            type=self._word(text, "type").lower(),
            op=OP_SYMBOLS.get(op.lower(), op),
            left=self._expression(text, "leftexpression"),
            right=self._expression(text, "rightexpression"),
            members=(*self._names(text, "predicates"), *inner),
        )

    def _word(self, text: ObjectText, key: str) -> str:
        """A setting that is one plain text; empty if it was not given."""
        value = text.settings.take(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            start = text.settings.entries[key].start_of(None)
            raise self._source.error(f"{key} is one plain text", start, hint=f"{key} = …")
        return value

    def _names(self, text: ObjectText, key: str) -> Iterator[str]:
        """A setting that is an array of names; a single name counts as an array of one."""
        value = text.settings.take(key)
        if value is None:
            return
        entry = text.settings.entries[key]
        items = value.items if isinstance(value, Array) else (value,)
        for number, item in enumerate(items):
            if item is None:
                message = f"{key} leaves out position {number}"
                hint = f"number them without gaps, or write {key}[]"
                raise self._source.error(message, entry.key_start, hint=hint)
            if not isinstance(item, str):
                message = f"{key} is an array of names"
                raise self._source.error(message, entry.start_of(number), hint=f"{key}[0] = name")
            yield item

    def _expression(self, text: ObjectText, key: str) -> Expression | None:
        value = text.settings.take(key)
        if value is None:
            return None
        entry = text.settings.entries[key]
        if isinstance(value, Array | Table):
            raise self._source.error(f"{key} is one expression", entry.key_start, hint=f"{key} = $column")
        if isinstance(value, str):
            message = f"{key} must be an expression, not plain text"
            raise self._source.error(message, entry.start_of(None), hint=expression_hint(value))
        return value
