"""Where a condition belongs: as near to the data as its meaning allows, and equalities between two sides as join keys.

A condition above an inner join may move into either side; above an outer join only into the side whose rows are all
kept. Inside ON it may move only into the side whose rows may be lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from query.plan import Expression, Function, fields_of
from ufl.sql.kinds import comparable, kind_of
from ufl.sql.relations import (
    ANTI,
    INNER,
    LEFT,
    RIGHT,
    SEMI,
    Filter,
    Join,
    Relation,
    conjunction,
    factored,
)


def filtered(relation: Relation, conditions: Sequence[Expression]) -> Relation:
    """The relation with conditions that its rows must satisfy."""
    if not conditions:
        return relation
    if not isinstance(relation, Join):
        condition = conjunction(conditions)
        assert condition is not None
        return Filter(relation, condition)
    to_left: list[Expression] = []
    to_right: list[Expression] = []
    above: list[Expression] = []
    for condition in (part for each in conditions for part in factored(each)):
        sides = _sides(condition, relation)
        if sides == {"left"} and relation.kind in (INNER, LEFT, SEMI, ANTI):
            to_left.append(condition)
        elif sides == {"right"} and relation.kind in (INNER, RIGHT):
            to_right.append(condition)
        elif sides == {"left", "right"} and relation.kind == INNER:
            add_condition(relation, condition)
        else:
            above.append(condition)
    relation.left = filtered(relation.left, to_left)
    relation.right = filtered(relation.right, to_right)
    whole = conjunction(above)
    return relation if whole is None else Filter(relation, whole)


def joined(left: Relation, right: Relation, kind: str, on: Expression | None, node: exp.Expr | None) -> Join:
    """A join with the condition of its ON."""
    join = Join(left, right, kind)
    to_left: list[Expression] = []
    to_right: list[Expression] = []
    for condition in factored(on) if on is not None else ():
        sides = _sides(condition, join)
        if sides == {"left"} and kind in (INNER, RIGHT, SEMI):
            to_left.append(condition)
        elif sides == {"right"} and kind in (INNER, LEFT, SEMI, ANTI):
            to_right.append(condition)
        else:
            add_condition(join, condition, node)
    join.left = filtered(join.left, to_left)
    join.right = filtered(join.right, to_right)
    return join


def add_condition(join: Join, condition: Expression, node: exp.Expr | None = None) -> None:
    """A condition on pairs: a key when it is an equality between the sides."""
    if isinstance(condition, Function) and condition.name == "equal":
        one, other = condition.args
        if _sides(one, join) == {"right"} and _sides(other, join) == {"left"}:
            one, other = other, one
        if _sides(one, join) == {"left"} and _sides(other, join) == {"right"}:
            add_key(join, one, other, node)
            return
    join.condition = conjunction([*([join.condition] if join.condition is not None else []), condition])


def add_key(join: Join, left: Expression, right: Expression, node: exp.Expr | None = None) -> None:
    kinds = kind_of(left, join.left.columns, node), kind_of(right, join.right.columns, node)
    join.keys.append(comparable(left, kinds[0], right, kinds[1], node))


def _sides(expression: Expression, join: Join) -> set[str]:
    """Which sides of a join an expression takes columns from; neither for a constant."""
    used = set(fields_of(expression))
    right = used & set(join.right.names)
    left = used - right
    return {*(["left"] if left else []), *(["right"] if right else [])}
