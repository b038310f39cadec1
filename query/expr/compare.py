"""Comparison: binary order for text, NaN equal to itself and above every number, NULL propagated.

`is_distinct_from` and its negation never give NULL. Membership in a list follows SQL: no match with a NULL
in the list is NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import BOOL, INT8, INT32, INTERVAL, NULL, type_name
from query.expr.coerce import unify
from query.expr.columns import Mask, nulls, whole
from query.expr.errors import TypeClash
from query.expr.lazy import Case, Junction
from query.expr.nodes import Call, Kernel, Literal, Node, Value
from query.expr.registry import function
from query.expr.temporal import order_key

t = pa.types
FAMILY = "comparison"


def _equal(x: Value, y: Value) -> Value:
    return pc.or_(pc.equal(x, y), pc.and_(pc.is_nan(x), pc.is_nan(y)))


def _less(x: Value, y: Value) -> Value:
    return pc.or_(pc.less(x, y), pc.and_(pc.is_nan(y), pc.invert(pc.is_nan(x))))


def _less_equal(x: Value, y: Value) -> Value:
    return pc.or_(pc.less_equal(x, y), pc.is_nan(y))


def _flip(kernel: Kernel) -> Kernel:
    return lambda x, y: kernel(y, x)


def _not(kernel: Kernel) -> Kernel:
    return lambda x, y: pc.invert(kernel(x, y))


_PLAIN: dict[str, Kernel] = {
    "equal": pc.equal,
    "not_equal": pc.not_equal,
    "less": pc.less,
    "less_equal": pc.less_equal,
    "greater": pc.greater,
    "greater_equal": pc.greater_equal,
}
#: Where both sides may hold NaN.
_FLOATING: dict[str, Kernel] = {
    "equal": _equal,
    "not_equal": _not(_equal),
    "less": _less,
    "less_equal": _less_equal,
    "greater": _flip(_less),
    "greater_equal": _flip(_less_equal),
}
#: Where the right side is a number: only > and >= differ from the processor's, for NaN on the left.
_FLOATING_CONSTANT: dict[str, Kernel] = {
    **_PLAIN,
    "greater": _not(pc.less_equal),
    "greater_equal": _not(pc.less),
}


def compare(name: str, left: Node, right: Node) -> Node:
    """`left name right`; raises TypeClash."""
    kind, args = unify([left, right], name)
    if kind == NULL:
        kind, args = unify([*args, Literal(pa.scalar(None, INT32))], name)
        args = args[:2]
    if t.is_nested(kind):
        raise TypeClash(f"{name} does not compare {type_name(kind)}")
    return Call(BOOL, _kernel(name, kind, args[1]), args)


def _kernel(name: str, kind: pa.DataType, right: Node) -> Kernel:
    if kind == INTERVAL:
        return _interval_kernel(name)
    if not t.is_floating(kind):
        return _PLAIN[name]
    constant = right.constant
    if constant is not None and constant.is_valid and constant.as_py() == constant.as_py():
        return _FLOATING_CONSTANT[name]
    return _FLOATING[name]


_INTERVAL_TESTS: dict[str, Callable[[Mask, Mask], Mask]] = {
    "equal": lambda less, more: ~(less | more),
    "not_equal": lambda less, more: less | more,
    "less": lambda less, more: less,
    "less_equal": lambda less, more: ~more,
    "greater": lambda less, more: more,
    "greater_equal": lambda less, more: ~less,
}


def _interval_kernel(name: str) -> Kernel:
    test = _INTERVAL_TESTS[name]

    @whole
    def run(x: pa.Array, y: pa.Array) -> pa.Array:
        less = np.zeros(len(x), dtype=np.bool_)
        more = np.zeros(len(x), dtype=np.bool_)
        for a, b in zip(order_key(x), order_key(y), strict=True):
            undecided = ~(less | more)
            less |= undecided & (a < b)
            more |= undecided & (a > b)
        null = nulls(x, y)
        return pa.array(test(less, more), mask=null)

    return run


def _register(name: str, doc: str, aliases: Sequence[str]) -> None:
    def bind(args: Sequence[Node]) -> Node:
        return compare(name, args[0], args[1])

    function(name, FAMILY, "(x, y) -> bool", doc, args=(2, 2), aliases=aliases)(bind)


_register("equal", "x and y are the same.", ["=", "==", "eq", "equals"])
_register("not_equal", "x and y differ.", ["!=", "<>", "ne", "neq", "not_equals"])
_register("less", "x is below y.", ["<", "lt", "less_than"])
_register("less_equal", "x is not above y.", ["<=", "le", "lte"])
_register("greater", "x is above y.", [">", "gt", "greater_than"])
_register("greater_equal", "x is not below y.", [">=", "ge", "gte"])


@function(
    "is_distinct_from", FAMILY, "(x, y) -> bool", "Like !=, with NULL as a value of its own.", args=(2, 2)
)
def _is_distinct_from(args: Sequence[Node]) -> Node:
    return _distinct(args, same=False)


@function(
    "is_not_distinct_from",
    FAMILY,
    "(x, y) -> bool",
    "Like =, with NULL equal to NULL.",
    args=(2, 2),
    aliases=["<=>"],
)
def _is_not_distinct_from(args: Sequence[Node]) -> Node:
    return _distinct(args, same=True)


def _distinct(args: Sequence[Node], same: bool) -> Node:
    equal = compare("equal", args[0], args[1])
    assert isinstance(equal, Call)
    kernel = equal.kernel

    def run(x: Value, y: Value) -> Value:
        both_null = pc.and_(pc.is_null(x), pc.is_null(y))
        result = pc.coalesce(kernel(x, y), both_null)
        return result if same else pc.invert(result)

    return Call(BOOL, run, equal.args)


@function("between", FAMILY, "(x, low, high) -> bool", "x is not below low and not above high.", args=(3, 3))
def _between(args: Sequence[Node]) -> Node:
    value, low, high = args
    return Junction(True, [compare("greater_equal", value, low), compare("less_equal", value, high)])


@function(
    "in", FAMILY, "(x, a, b, ...) -> bool", "x equals one of the others.", args=(2, None), aliases=["in_list"]
)
def _in(args: Sequence[Node]) -> Node:
    kind, args = unify(args, "in")
    value, *members = args
    constants = [m.constant for m in members]
    if kind in (NULL, INTERVAL) or any(c is None for c in constants):
        return Junction(False, [compare("equal", value, m) for m in members])
    has_null = any(not c.is_valid for c in constants if c is not None)
    members_set = pa.array([c.as_py() for c in constants if c is not None and c.is_valid], type=kind)
    # Arrow's set tells -0.0 from 0.0; adding zero makes them one.
    zero = pa.scalar(0.0, kind) if t.is_floating(kind) else None
    if zero is not None:
        members_set = pc.add(members_set, zero)
    unknown = pa.scalar(None, BOOL)

    def run(x: Value) -> Value:
        found = pc.is_in(x if zero is None else pc.add(x, zero), value_set=members_set)
        if has_null:
            return pc.if_else(found, found, unknown)
        return pc.if_else(pc.is_null(x), unknown, found)

    return Call(BOOL, run, [value])


@function("not_in", FAMILY, "(x, a, b, ...) -> bool", "x equals none of the others.", args=(2, None))
def _not_in(args: Sequence[Node]) -> Node:
    return Call(BOOL, pc.invert, [_in(args)])


def _extreme(name: str, doc: str, better: str) -> None:
    kernel = pc.max_element_wise if better == "greater" else pc.min_element_wise

    def bind(args: Sequence[Node]) -> Node:
        kind, args = unify(args, name)
        if t.is_nested(kind):
            raise TypeClash(f"{name} does not compare {type_name(kind)}")
        if kind == NULL:
            return args[0]
        if kind == BOOL:
            return Call(BOOL, lambda *v: pc.cast(kernel(*[pc.cast(x, INT8) for x in v]), BOOL), args)
        if t.is_floating(kind) or kind == INTERVAL:
            return _fold(kind, better, args)
        return Call(kind, kernel, args)

    function(name, FAMILY, "(x, y, ...)", doc, args=(1, None))(bind)


def _fold(kind: pa.DataType, better: str, args: Sequence[Node]) -> Node:
    """By our own order, which Arrow's kernel does not know."""
    test = _interval_kernel(better) if kind == INTERVAL else _FLOATING[better]

    def run(*values: Value) -> Value:
        best = values[0]
        for value in values[1:]:
            keep = pc.coalesce(test(best, value), pc.is_valid(best))
            best = pc.if_else(keep, best, value)
        return best

    return Call(kind, run, args)


_extreme("greatest", "The largest argument that is not NULL.", "greater")
_extreme("least", "The smallest argument that is not NULL.", "less")


@function("nullif", FAMILY, "(x, y)", "NULL when x equals y, else x.", args=(2, 2))
def _nullif(args: Sequence[Node]) -> Node:
    kept = args[0]
    return Case(kept.type, [(compare("equal", *args), Literal(pa.scalar(None, kept.type)))], kept)
