"""A query plan as data: what UFL and SQL compile to, what travels to the nodes, what the executor runs.

Plans are immutable, compare by value and have a wire form (msgspec arrays), so a plan that was sent,
received and printed is the plan that was parsed (PIER 3.3.2, Appendix A). Nothing here knows how an
operator works; the operators check the settings they are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, TypeAlias

import msgspec

#: Bounds on what a plan from outside may hold; a query text within the 10 MB limit never needs more.
OPGRAPHS_MAX = 256
OPERATORS_MAX = 1_024
SETTINGS_MAX = 4_096
ITEMS_MAX = 65_536
ARGUMENTS_MAX = 4_096
TEXT_CHARS_MAX = 1 << 20

#: Stand for the time and the id of the query in the texts of a plan that is not submitted yet (UFL writes
#: them \qt and \qi): noncharacters of Unicode, which no other text holds. A submitted plan has none left.
QUERY_TIME = "\ufdd0"
QUERY_ID = "\ufdd1"

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]


class Constant(msgspec.Struct, frozen=True, array_like=True, tag_field="node", tag="c"):
    """A literal and the type it is cast to, both as text: `"10"::long`. Type `null` is the NULL literal."""

    text: Text
    type: Text


class Field(msgspec.Struct, frozen=True, array_like=True, tag_field="node", tag="f"):
    """A column of the batch, by name: `$src`."""

    name: Text


class Function(msgspec.Struct, frozen=True, array_like=True, tag_field="node", tag="x"):
    """A function of expressions: `add($a, "1"::long)`. Operators such as + are functions too."""

    name: Text
    args: Annotated[tuple[Expression, ...], msgspec.Meta(max_length=ARGUMENTS_MAX)] = ()


Expression: TypeAlias = Constant | Field | Function
#: One value of a setting: plain text or a typed expression.
Value: TypeAlias = str | Constant | Field | Function


class Array(msgspec.Struct, frozen=True, array_like=True, tag_field="node", tag="a"):
    """An array setting; positions that were never given are None."""

    items: Annotated[tuple[Value | None, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()


class Table(msgspec.Struct, frozen=True, array_like=True, tag_field="node", tag="h"):
    """A hash-table setting, in the order its entries were given."""

    items: Annotated[dict[str, Value], msgspec.Meta(max_length=ITEMS_MAX)] = {}


Setting: TypeAlias = str | Constant | Field | Function | Array | Table
Settings: TypeAlias = Annotated[dict[str, Setting], msgspec.Meta(max_length=SETTINGS_MAX)]


class Predicate(msgspec.Struct, frozen=True, array_like=True):
    """`type` is and, or, or atomic; an atomic one compares `left` with `right` by `op`.

    `members` names the predicates that an and/or combines, all of the same operator.
    """

    name: Text
    type: Text
    op: Text = ""
    left: Expression | None = None
    right: Expression | None = None
    members: Annotated[tuple[Text, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()


class Operator(msgspec.Struct, frozen=True, array_like=True):
    """One box of an opgraph; `sources` are the operators whose tuples flow into it, by name."""

    name: Text
    type: Text
    implementation: Text = ""
    sources: Annotated[tuple[Text, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()
    settings: Settings = {}
    predicates: Annotated[tuple[Predicate, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()


class Opgraph(msgspec.Struct, frozen=True, array_like=True):
    """A connected set of operators: the unit of dissemination. Settings: ns, rid, duration and others."""

    name: Text
    settings: Settings = {}
    operators: Annotated[tuple[Operator, ...], msgspec.Meta(max_length=OPERATORS_MAX)] = ()


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """A whole query: one opgraph for each part that runs on a set of nodes of its own."""

    opgraphs: Annotated[tuple[Opgraph, ...], msgspec.Meta(max_length=OPGRAPHS_MAX)] = ()


def fields_of(*expressions: Expression) -> Iterator[str]:
    """The columns that expressions refer to, as often as they do."""
    frontier = list(expressions)
    while frontier:
        expression = frontier.pop()
        if isinstance(expression, Field):
            yield expression.name
        elif isinstance(expression, Function):
            frontier.extend(expression.args)
