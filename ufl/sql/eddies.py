"""Eddies: inner joins and conditions of one SELECT in an order that each node finds out while it works.

`/*+ EDDY */` asks for it. The conditions on a table stand around an eddy where its rows are read. Joins stand around
one where rows meet: the largest table stays where it is, all others go to every owner of a group, so that any chain of
equalities can be followed on each node, and every result is made on the one node that has its row of the table that
stayed. Equalities that connect tables are joins; those that close a circle, and all other conditions on several
tables, are selections, visited once a row has the columns. See `query.operators.eddy.basic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from query.plan import Array, Expression, Field, Function, Setting, fields_of
from ufl.sql.errors import Refused
from ufl.sql.fragments import Builder, Fragment
from ufl.sql.hints import EDDY
from ufl.sql.relations import INNER, Filter, Join, Relation, conjuncts
from ufl.sql.sizes import Size, size_of

if TYPE_CHECKING:
    from ufl.sql.lowering import Lowering

Pair = tuple[Expression, Expression]


def mark_filters(relation: Relation) -> None:
    """The conditions of a SELECT that asks for an eddy, below its joins and above them."""
    if isinstance(relation, Filter):
        relation.eddy = True
        mark_filters(relation.source)
    elif isinstance(relation, Join):
        mark_filters(relation.left)
        mark_filters(relation.right)


def where(builder: Builder, fragment: Fragment, condition: Expression, eddy: bool) -> Fragment:
    """The rows for which a condition holds; its parts in any order if an eddy is wanted."""
    parts = conjuncts(condition)
    if not eddy or len(parts) < 2:
        return builder.add(fragment, "where", "selection", "Basic", where=condition)
    columns, hashed = fragment.columns, fragment.hashed
    fragment = builder.merge([fragment], "eddy", "eddy", "Basic")
    for part in parts:
        builder.visit(fragment, "where", "selection", "Basic", where=part)
    fragment.columns, fragment.hashed = columns, hashed
    builder.note(f"an eddy orders {len(parts)} conditions by what they are seen to remove")
    return fragment


@dataclass(slots=True)
class _Graph:
    """Tables, the equalities that connect them, by the numbers of the two tables, and what else must hold."""

    leaves: list[Relation] = field(default_factory=list)
    joins: dict[tuple[int, int], list[Pair]] = field(default_factory=dict)
    conditions: list[Expression] = field(default_factory=list)

    def table_of(self, expression: Expression) -> int | None:
        """The one table that an expression takes its columns from; None when it is none, or several."""
        found = {self._owner(name) for name in fields_of(expression)}
        return found.pop() if len(found) == 1 else None

    def _owner(self, name: str) -> int:
        return next(at for at, leaf in enumerate(self.leaves) if name in leaf.names)

    def used(self) -> list[str]:
        keys = [each for pairs in self.joins.values() for pair in pairs for each in pair]
        return list(fields_of(*keys, *self.conditions))


def join(lowering: Lowering, relation: Join, needed: Sequence[str]) -> Fragment:
    """A fragment with the needed columns of inner joins, made by an eddy."""
    graph = _graph(relation, True) or _graph(relation, False)
    if graph is None:
        raise Refused(
            "an eddy needs an equality of two tables for every table it joins",
            None,
            "leave out the hint, or join the others in a subquery",
            word=EDDY,
        )
    if any(leaf.open for leaf in graph.leaves):
        raise Refused("an eddy must know the columns of its tables", None, "leave out the hint", word=EDDY)
    builder, used = lowering.builder, [*needed, *graph.used()]
    sides = []
    for leaf in graph.leaves:
        own = set(leaf.names)
        wanted = list(dict.fromkeys(name for name in used if name in own))
        sides.append(builder.narrow(lowering.lower(leaf, wanted), wanted))
    columns = [name for side in sides for name in side.columns or ()]
    fragment = builder.merge(_meeting(builder, sides, graph.leaves), "eddy", "eddy", "Basic")
    for pairs in graph.joins.values():
        keys: dict[str, Setting] = {
            "leftkeys": Array(tuple(left for left, _ in pairs)),
            "rightkeys": Array(tuple(right for _, right in pairs)),
        }
        builder.visit(fragment, "join", "join", "SymmetricHash", 2, **keys)
    for condition in graph.conditions:
        builder.visit(fragment, "where", "selection", "Basic", where=condition)
    # Columns come in the order in which a row met the others; behind the eddy they have one order.
    kept = [name for name in columns if name in set(needed)] or columns[:1]
    return builder.project(fragment, {name: Field(name) for name in kept})


def _meeting(builder: Builder, sides: list[Fragment], leaves: Sequence[Relation]) -> list[Fragment]:
    """Rows that can meet: one table stays, every owner gets the others."""
    if len({side.site for side in sides}) == 1 and sides[0].single:
        builder.note("joins by an eddy: where their rows are already")
        return sides
    spread = [at for at, side in enumerate(sides) if not side.single]
    if not spread:
        builder.note("joins by an eddy: all rows are joined at the node that was asked")
        return builder.meet_at_one(sides)
    sizes = [size_of(leaf) for leaf in leaves]
    stays = max(spread, key=lambda at: (_bytes(sizes[at]), -at))
    known = "the largest" if None not in sizes else "the first, as sizes are not known,"
    builder.note(
        f"joins by an eddy (by hint): of {len(sides)} tables {known} stays, the others go to every owner; each node "
        "orders joins and conditions by what they are seen to remove"
    )
    return [builder.exchange(side, "near" if at == stays else "all") for at, side in enumerate(sides)]


def _bytes(size: Size | None) -> float:
    return 0.0 if size is None else size.bytes


def _graph(relation: Join, through: bool) -> _Graph | None:
    """The tables below some inner joins, if equalities connect them; `through` also looks below joins without any."""
    graph = _Graph()
    equal: list[Pair] = []
    _collect(relation, through, graph, equal)
    component = list(range(len(graph.leaves)))
    for left, right in equal:
        ends = graph.table_of(left), graph.table_of(right)
        if ends[0] is None or ends[1] is None or ends[0] == ends[1]:
            graph.conditions.append(Function("equal", (left, right)))
            continue
        pair = (left, right) if ends[0] < ends[1] else (right, left)
        place = min(ends[0], ends[1]), max(ends[0], ends[1])
        one, other = component[place[0]], component[place[1]]
        if place in graph.joins:
            graph.joins[place].append(pair)
        elif one == other:
            graph.conditions.append(Function("equal", pair))
        else:
            graph.joins[place] = [pair]
            component = [one if each == other else each for each in component]
    return graph if len(set(component)) == 1 else None


def _collect(relation: Relation, through: bool, graph: _Graph, equal: list[Pair]) -> None:
    if isinstance(relation, Filter) and _is_joined(relation.source, through):
        graph.conditions.extend(conjuncts(relation.condition))
        relation = relation.source
    if not isinstance(relation, Join) or not _is_joined(relation, through):
        graph.leaves.append(relation)
        return
    _collect(relation.left, through, graph, equal)
    _collect(relation.right, through, graph, equal)
    equal.extend(relation.keys)
    if relation.condition is not None:
        graph.conditions.extend(conjuncts(relation.condition))


def _is_joined(relation: Relation, through: bool) -> bool:
    return (
        isinstance(relation, Join)
        and relation.kind == INNER
        and relation.hint == EDDY
        and (bool(relation.keys) or through)
    )
