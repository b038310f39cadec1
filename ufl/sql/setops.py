"""UNION, INTERSECT and EXCEPT as operators. Both sides have the same column names by now.

INTERSECT and EXCEPT count how often a row is on either side, groups being rows: the owners of equal rows know both
counts, and keep a row once, or as often as ALL says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from query.plan import Constant, Expression, Field, Function
from ufl.sql.fragments import Fragment
from ufl.sql.groups import grouped
from ufl.sql.relations import Call, SetOperation

if TYPE_CHECKING:
    from ufl.sql.lowering import Lowering

_ZERO, _ONE = Constant("0", "long"), Constant("1", "long")


def set_operation(lowering: Lowering, relation: SetOperation) -> Fragment:
    names = relation.names
    sides = [lowering.builder.narrow(lowering.lower(each, names), names) for each in relation.sources]
    if relation.kind == "union":
        return united(lowering, sides, names)
    return _counted(lowering, relation, sides)


def united(lowering: Lowering, sides: Sequence[Fragment], names: Sequence[str]) -> Fragment:
    """All rows of several fragments as one. What lies on one node is spread first, unless all does."""
    if all(side.single for side in sides):
        sides = lowering.builder.meet_at_one(sides)
    else:
        keys = [Field(name) for name in names]
        sides = [lowering.builder.rehash(side, keys) if side.single else side for side in sides]
    fragment = lowering.builder.merge(sides, "all", "union", "Basic")
    fragment.columns = list(names)
    return fragment


def _counted(lowering: Lowering, relation: SetOperation, sides: list[Fragment]) -> Fragment:
    builder = lowering.builder
    names = relation.names
    marks = ("lefts", "rights")
    for number, side in enumerate(sides):
        own: dict[str, Expression] = {mark: _ONE if at == number else _ZERO for at, mark in enumerate(marks)}
        builder.project(side, {**{name: Field(name) for name in names}, **own})
    fragment = united(lowering, sides, [*names, *marks])
    keys: dict[str, Expression] = {name: Field(name) for name in names}
    fragment = grouped(lowering, fragment, keys, {mark: Call("sum", (Field(mark),)) for mark in marks})
    left, right = Field("lefts"), Field("rights")
    both = relation.kind == "intersect"
    if relation.bag:
        times = Function("least", (left, right)) if both else Function("subtract", (left, right))
        builder.add(fragment, "as_often", "projection", "Repeat", times=times)
    else:
        other = Function("greater" if both else "equal", (right, _ZERO))
        where = Function("and", (Function("greater", (left, _ZERO)), other))
        builder.add(fragment, "kept", "selection", "Basic", where=where)
    fragment.columns = [*names, *marks]
    return builder.narrow(fragment, names)
