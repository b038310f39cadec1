"""Subqueries as joins: EXISTS, IN, and queries that stand for a value; they may name columns of the query around.

A condition of WHERE by itself is a semi or anti join. Anywhere else the truth value is computed, with NULL where SQL
says so: `x IN (…)` is true when x is there, false when the subquery is empty, NULL when x or a value is NULL, else
false.
A subquery that depends on the query around may do so by equalities in its own WHERE (and, under EXISTS and IN as
conditions, by any condition there): they become join keys (unnesting, as sqlglot's optimiser does it for simple cases).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from query.plan import Constant, Expression, Field, Function, fields_of
from ufl.sql.errors import Refused, unsupported
from ufl.sql.kinds import comparable, kind_of
from ufl.sql.relations import (
    ANTI,
    INNER,
    LEFT,
    SEMI,
    Aggregate,
    Call,
    Column,
    Distinct,
    Join,
    Ordered,
    Project,
    Relation,
    Single,
    conjunction,
)

if TYPE_CHECKING:
    from ufl.sql.blocks import Block, Pull

_TRUE, _FALSE = Constant("true", "bool"), Constant("false", "bool")
_NULL, _ZERO = Constant("", "null"), Constant("0", "long")


@dataclass(frozen=True, slots=True)
class Test:
    """A condition of WHERE that is a subquery: EXISTS, or IN with its left side."""

    query: exp.Expr
    negated: bool
    operand: exp.Expr | None = None


def test_of(node: exp.Expr) -> Test | None:
    """The subquery a condition consists of. NOT IN is none: NULLs make it more than an anti join."""
    negated = False
    while isinstance(node, exp.Paren | exp.Not):
        negated ^= isinstance(node, exp.Not)
        node = node.this
    if isinstance(node, exp.Exists):
        return Test(node.this, negated)
    operand = _membership(node)
    if operand is not None and not negated:
        return Test(_query_of(node), False, operand)
    return None


def equality(condition: Expression, outer: Container[str]) -> tuple[Expression, Expression] | None:
    """The outer and the inner side of an equality between them."""
    if not isinstance(condition, Function) or condition.name != "equal":
        return None
    sides = []
    for side in condition.args:
        kinds = {name in outer for name in fields_of(side)}
        sides.append(kinds.pop() if len(kinds) == 1 else None)
    if sides == [True, False]:
        return condition.args[0], condition.args[1]
    return (condition.args[1], condition.args[0]) if sides == [False, True] else None


def keep(block: Block, test: Test) -> None:
    """Keeps the rows of the block for which the test holds."""
    # First, because it may need a subquery itself.
    operand = None if test.operand is None else block.final(test.operand)
    pull, inner = _bound(block, test.query, exists=operand is None)
    _no_aggregate(pull, test.query)
    join = Join(block.relation, inner, ANTI if test.negated else SEMI)
    if operand is not None:
        _add_key(block, join, operand, _only_column(inner, pull, test.query), test.query)
    _correlate(block, join, pull, test.query)
    if pull.others:
        join.condition = conjunction([block.settled(each, test.query) for each in pull.others])
    block.relation = join


def value(block: Block, node: exp.Expr) -> Expression:
    """The value of a subquery in an expression; the block's relation is joined with what it takes."""
    operand = _membership(node)
    if operand is not None:
        return _contained(block, node, block.final(operand))
    if isinstance(node, exp.Exists):
        return _exists(block, node)
    return _scalar(block, node)


def _scalar(block: Block, node: exp.Expr) -> Expression:
    pull, inner = _bound(block, node)
    column = _only_column(inner, pull, node)
    if not pull.correlated:
        block.relation = Join(block.relation, Single(inner), INNER)
        return Field(column.name)
    _only_equalities(pull, node)
    if pull.default is None:
        inner = Single(inner, list(pull.names))
    marked, mark = _marked(block, inner)
    _left_join(block, marked, pull, node)
    default = _NULL if pull.default is None else pull.default
    return Function("case", (Function("is_not_null", (Field(mark),)), Field(column.name), default))


def _exists(block: Block, node: exp.Expr) -> Expression:
    pull, inner = _bound(block, node.this, exists=True)
    if not pull.correlated:
        name = block.binder.namer.fresh("count")
        count = Aggregate(
            [Column(name, "", pa.int64())], Ordered(inner, [], 1), {}, {name: Call("count", ())}
        )
        block.relation = Join(block.relation, count, INNER)
        return Function("greater", (Field(name), _ZERO))
    _only_equalities(pull, node)
    _no_aggregate(pull, node)
    marked, mark = _marked(block, Distinct(_only_names(inner, pull.names)))
    _left_join(block, marked, pull, node)
    return Function("is_not_null", (Field(mark),))


def _contained(block: Block, node: exp.Expr, operand: Expression) -> Expression:
    query = _query_of(node)
    # Read twice: once for the values, once to count them and the NULLs among them.
    pull, inner = _bound(block, query)
    column = _only_column(inner, pull, query)
    _only_equalities(pull, node)
    _no_aggregate(pull, node)
    marked, mark = _marked(block, Distinct(_only_names(inner, [column.name, *pull.names])))
    join = _left_join(block, marked, pull, node)
    _add_key(block, join, operand, column, node)
    pull, inner = _bound(block, query)
    column = _only_column(inner, pull, query)
    fresh = block.binder.namer.fresh
    rows, valid = fresh("rows"), fresh("valid")
    keys = {fresh("key"): Field(name) for name in pull.names}
    kinds = {each.name: each.kind for each in inner.columns}
    shape = [Column(name, "", kinds.get(field.name)) for name, field in keys.items()]
    counts = Aggregate(
        [*shape, Column(rows, "", pa.int64()), Column(valid, "", pa.int64())],
        inner,
        dict(keys),
        {rows: Call("count", ()), valid: Call("count", (Field(column.name),))},
    )
    if keys:
        pull.names[:] = list(keys)
        _left_join(block, counts, pull, node)
    else:
        block.relation = Join(block.relation, counts, INNER)
    return Function(
        "case",
        (
            *(Function("is_not_null", (Field(mark),)), _TRUE),
            *(Function("equal", (Function("coalesce", (Field(rows), _ZERO)), _ZERO)), _FALSE),
            Function(
                "or",
                (Function("is_null", (operand,)), Function("less", (Field(valid), Field(rows)))),
            ),
            *(Function("cast", (_NULL, Constant("bool", "string"))), _FALSE),
        ),
    )


# -- parts


def _membership(node: exp.Expr) -> exp.Expr | None:
    """The left side of IN with a query, or of = ANY."""
    if isinstance(node, exp.In) and node.args.get("query") is not None:
        return _left(node)
    if isinstance(node, exp.EQ) and isinstance(node.expression, exp.Any):
        return _left(node)
    return None


def _left(node: exp.Expr) -> exp.Expr:
    operand: exp.Expr = node.this
    return operand


def _query_of(node: exp.Expr) -> exp.Expr:
    query: exp.Expr = node.args["query"] if isinstance(node, exp.In) else node.expression.this
    while isinstance(query, exp.Paren):
        query = query.this
    if not isinstance(query, exp.Query):
        raise unsupported("ANY with something else than a query", node)
    return query


def _bound(block: Block, query: exp.Expr, exists: bool = False) -> tuple[Pull, Relation]:
    from ufl.sql.blocks import Pull

    while isinstance(query, exp.Subquery) and not _has_modifiers(query):
        query = query.this
    pull = Pull(exists=exists)
    return pull, block.binder.query(query, block.env, block.scope, pull)


def _has_modifiers(query: exp.Subquery) -> bool:
    return any(query.args.get(clause) for clause in ("with_", "order", "limit", "offset"))


def _only_column(inner: Relation, pull: Pull, node: exp.Expr) -> Column:
    count = len(inner.columns) - len(pull.names)
    if inner.open or count != 1:
        found = "unknown columns" if inner.open else f"{count} columns"
        raise Refused(f"this subquery needs one column, it has {found}", node)
    return inner.columns[0]


def _only_equalities(pull: Pull, node: exp.Expr) -> None:
    if pull.others:
        what = "a subquery that depends on the query around by something else than ="
        raise unsupported(f"{what}, here,", node, "as a condition of WHERE by itself it may")


def _no_aggregate(pull: Pull, node: exp.Expr) -> None:
    """An aggregate without GROUP BY has a row also where a join finds none."""
    if pull.correlated and pull.aggregate:
        what = "an aggregate without GROUP BY that depends on the query around"
        raise unsupported(f"{what}, under EXISTS or IN,", node, "compare with the subquery as a value")


def _only_names(inner: Relation, names: list[str]) -> Relation:
    shape = [column for column in inner.columns if column.name in names]
    return Project(shape, inner, {column.name: Field(column.name) for column in shape})


def _marked(block: Block, inner: Relation) -> tuple[Relation, str]:
    """The relation with a column that is true, and so says after an outer join whether there was a row."""
    mark = block.binder.namer.fresh("found")
    outputs: dict[str, Expression] = {column.name: Field(column.name) for column in inner.columns}
    return Project([*inner.columns, Column(mark, "", pa.bool_())], inner, {**outputs, mark: _TRUE}), mark


def _left_join(block: Block, inner: Relation, pull: Pull, node: exp.Expr) -> Join:
    join = Join(block.relation, inner, LEFT)
    _correlate(block, join, pull, node)
    block.relation = join
    return join


def _correlate(block: Block, join: Join, pull: Pull, node: exp.Expr) -> None:
    kinds = {column.name: column.kind for column in join.right.columns}
    for (outer, _), name in zip(pull.equal, pull.names, strict=False):
        _add_key(block, join, block.settled(outer, node), Column(name, "", kinds.get(name)), node)


def _add_key(block: Block, join: Join, left: Expression, column: Column, node: exp.Expr) -> None:
    kind = kind_of(left, join.left.columns, node)
    join.keys.append(comparable(left, kind, Field(column.name), column.kind, node))
