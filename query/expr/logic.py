"""Boolean functions with three-valued logic, tests for NULL, conditionals and casts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import BOOL, NULL, STRING, parse_type, type_name, type_names
from query.expr.casts import cast
from query.expr.coerce import is_number, unify, want
from query.expr.errors import BadLiteral, TypeClash, shown, suggestion
from query.expr.lazy import Case, Coalesce, Junction
from query.expr.nodes import Call, Literal, Node, Try
from query.expr.registry import function

FAMILY = "logic"


def condition(node: Node, what: str) -> Node:
    """An argument as a truth value; a number is true unless zero, as SQL allows."""
    if is_number(node.type):
        return cast(node, BOOL)
    return want(node, BOOL, what)


@function(
    "and",
    FAMILY,
    "(p, q, ...) -> bool",
    "All are true; false decides over NULL.",
    args=(1, None),
    aliases=["&&"],
)
def _and(args: Sequence[Node]) -> Node:
    return Junction(True, [condition(a, "and") for a in args])


@function("or", FAMILY, "(p, q, ...) -> bool", "One is true; true decides over NULL.", args=(1, None))
def _or(args: Sequence[Node]) -> Node:
    return Junction(False, [condition(a, "or") for a in args])


@function("not", FAMILY, "(p) -> bool", "True for false, NULL for NULL.", args=(1, 1), aliases=["!"])
def _not(args: Sequence[Node]) -> Node:
    return Call(BOOL, pc.invert, [condition(args[0], "not")])


@function("is_null", FAMILY, "(x) -> bool", "x is NULL.", args=(1, 1), aliases=["isnull"])
def _is_null(args: Sequence[Node]) -> Node:
    return Call(BOOL, pc.is_null, args)


@function("is_not_null", FAMILY, "(x) -> bool", "x is not NULL.", args=(1, 1), aliases=["isnotnull"])
def _is_not_null(args: Sequence[Node]) -> Node:
    return Call(BOOL, pc.is_valid, args)


@function("is_true", FAMILY, "(p) -> bool", "p is true, and not NULL.", args=(1, 1))
def _is_true(args: Sequence[Node]) -> Node:
    return Call(BOOL, lambda v: pc.coalesce(v, pa.scalar(False)), [condition(args[0], "is_true")])


@function("is_false", FAMILY, "(p) -> bool", "p is false, and not NULL.", args=(1, 1))
def _is_false(args: Sequence[Node]) -> Node:
    return Call(BOOL, lambda v: pc.coalesce(pc.invert(v), pa.scalar(False)), [condition(args[0], "is_false")])


@function(
    "is_nan",
    FAMILY,
    "(x) -> bool",
    "x is not a number, the result of an undefined operation.",
    args=(1, 1),
    aliases=["isnan"],
)
def _is_nan(args: Sequence[Node]) -> Node:
    if not is_number(args[0].type) and args[0].type != NULL:
        raise TypeClash(f"is_nan takes a number, not {type_name(args[0].type)}")
    return Call(BOOL, pc.is_nan, [cast(args[0], pa.float64())])


@function(
    "coalesce",
    FAMILY,
    "(x, y, ...)",
    "The first argument that is not NULL.",
    args=(1, None),
    aliases=["ifnull", "nvl"],
)
def _coalesce(args: Sequence[Node]) -> Node:
    kind, args = unify(args, "coalesce")
    return Coalesce(kind, args)


@function(
    "case",
    FAMILY,
    "(p1, x1, p2, x2, ..., otherwise)",
    "The x of the first p that is true; without otherwise NULL. Branches not taken cannot fail.",
    args=(2, None),
    aliases=["if", "case_when"],
)
def _case(args: Sequence[Node]) -> Node:
    tests = [condition(a, "case") for a in args[: len(args) // 2 * 2 : 2]]
    otherwise = [args[-1]] if len(args) % 2 else [Literal(pa.scalar(None))]
    kind, values = unify([*args[1 : len(tests) * 2 : 2], *otherwise], "case")
    return Case(kind, list(zip(tests, values[:-1], strict=True)), values[-1])


def _target(node: Node) -> pa.DataType:
    if node.constant is None or node.type != STRING:
        raise TypeClash("cast takes the name of a type as its second argument")
    name = node.constant.as_py()
    kind = parse_type(name)
    if kind is None:
        raise BadLiteral(f"unknown type {shown(name)}{suggestion(name.lower(), type_names())}")
    return kind


@function(
    "cast",
    FAMILY,
    '(x, "type")',
    "x as another type; a value it cannot hold is a fault of its row.",
    args=(2, 2),
)
def _cast(args: Sequence[Node]) -> Node:
    return cast(args[0], _target(args[1]))


@function(
    "try_cast", FAMILY, '(x, "type")', "x as another type; NULL for a value it cannot hold.", args=(2, 2)
)
def _try_cast(args: Sequence[Node]) -> Node:
    return Try(cast(args[0], _target(args[1])))


@function("try", FAMILY, "(x)", "x, or NULL in rows where x has no result.", args=(1, 1))
def _try(args: Sequence[Node]) -> Node:
    return Try(args[0])
