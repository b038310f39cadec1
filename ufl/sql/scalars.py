"""SQL expressions to the engine's: one function of the table below for each kind of node in the syntax tree.

What a column means, what an aggregate or a subquery becomes is decided by the place where the expression stands; that
place is given as a `Place`. Everything else is here: operators, literals, CASE, casts, calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqlglot import exp

from query.aggregate import AGGREGATES, find
from query.batch.types import parse_type
from query.expr import UnknownFunction
from query.expr.registry import functions, lookup
from query.operators.scan.origin import NODE
from query.plan import Constant, Expression, Function
from query.plan_hints import did_you_mean, quoted
from ufl.sql.errors import Refused, unsupported
from ufl.sql.steps import Steps

#: Expressions nested deeper than this are refused before they reach the engine's own limit.
DEPTH_MAX = 80
_INT64_MAX = (1 << 63) - 1
_HUGE_DIGITS = 38

_BINARY: dict[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "int_divide",
    exp.Mod: "modulo",
    exp.Pow: "power",
    exp.DPipe: "concat_op",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.NullSafeEQ: "is_not_distinct_from",
    exp.NullSafeNEQ: "is_distinct_from",
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
    # As DuckDB has it: both match the whole text.
    exp.RegexpLike: "regexp_full_match",
    exp.SimilarTo: "regexp_full_match",
}
_UNARY: dict[type[exp.Expr], str] = {exp.Neg: "negate", exp.Not: "not", exp.Abs: "abs"}
_PLAIN: dict[type[exp.Expr], str] = {exp.CurrentTimestamp: "now", exp.CurrentDate: "today"}
#: Units of an interval whose number is computed.
_TO_INTERVAL = ("year", "month", "week", "day", "hour", "minute", "second", "millisecond")


class Place(Protocol):
    """Where an expression stands; each part of it is a step of planning."""

    @property
    def steps(self) -> Steps: ...

    def column(self, node: exp.Column) -> Expression: ...

    def aggregate(self, node: exp.Expr) -> Expression: ...

    def subquery(self, node: exp.Expr) -> Expression:
        """EXISTS, IN with a query, or a query that stands for a value."""
        ...


def translate(node: exp.Expr, place: Place, depth: int = 0) -> Expression:
    """The engine's expression for a part of the syntax tree."""
    place.steps.spend()
    if depth > DEPTH_MAX:
        raise Refused(f"expressions nest deeper than {DEPTH_MAX} (DEPTH_MAX)", node)

    def inner(part: Any) -> Expression:
        return translate(part, place, depth + 1)

    kind = type(node)
    if is_query(node):
        return place.subquery(node)
    if is_aggregate(node):
        return place.aggregate(node)
    if kind in _BINARY:
        return _binary(node, inner)
    if kind in _UNARY:
        return _negated(node, inner) if kind is exp.Neg else Function(_UNARY[kind], (inner(node.this),))
    if kind in _PLAIN:
        return Function(_PLAIN[kind])
    if isinstance(node, exp.Column):
        if isinstance(node.this, exp.Star):
            raise Refused("a star stands for columns, not for a value", node)
        return place.column(node)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "node" and not node.expressions:
        return _where_read(node, place)
    special = _SPECIAL.get(kind)
    if special is None:
        raise unsupported(f"{_name(node)} in an expression", node)
    return special(node, inner)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate, with FILTER or without."""
    if isinstance(node, exp.Filter):
        node = node.this
    if not isinstance(node, exp.Anonymous):
        return False
    return find(node.name, len(node.expressions)) is not None


def is_query(node: exp.Expr) -> bool:
    """Whether a node is a query used as a value or condition."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, exp.EQ):
        return isinstance(node.expression, exp.Any)
    return isinstance(node, exp.Exists | exp.Subquery | exp.Select | exp.SetOperation)


def aggregates_in(node: exp.Expr) -> list[exp.Expr]:
    """The aggregate calls of an expression, those inside subqueries left out."""
    walked = node.walk(bfs=False, prune=lambda each: is_aggregate(each) or isinstance(each, exp.Query))
    return [each for each in walked if is_aggregate(each)]


def splits(node: exp.Expr) -> list[exp.Expr]:
    """The conditions of a WHERE that must all hold."""
    found, frontier = [], [node]
    while frontier:
        part = frontier.pop()
        if isinstance(part, exp.Paren):
            frontier.append(part.this)
        elif isinstance(part, exp.And):
            frontier += [part.expression, part.this]
        else:
            found.append(part)
    return found


Inner = Callable[[Any], Expression]


def _binary(node: exp.Expr, inner: Inner) -> Expression:
    if isinstance(node.args.get("expression"), exp.Any):
        raise unsupported("ANY with anything but =", node, "= ANY (SELECT …) is IN (SELECT …)")
    result = Function(_BINARY[type(node)], (inner(node.this), inner(node.expression)))
    return Function("not", (result,)) if node.args.get("negate") else result


def _negated(node: exp.Expr, inner: Inner) -> Expression:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        number = number_of(node.this)
        return Constant(f"-{number.text}", number.type)
    return Function("negate", (inner(node.this),))


def _junction(name: str) -> Callable[[Any, Inner], Expression]:
    kind = exp.And if name == "and" else exp.Or

    def flat(node: Any) -> list[Any]:
        """Long chains of one kind are one function: they would nest too deep."""
        found, frontier = [], [node]
        while frontier:
            part = frontier.pop()
            while isinstance(part, exp.Paren):
                part = part.this
            if isinstance(part, kind):
                frontier += [part.expression, part.this]
            else:
                found.append(part)
        return found

    return lambda node, inner: Function(name, tuple(inner(part) for part in flat(node)))


def number_of(node: exp.Literal) -> Constant:
    """A numeric literal: the narrowest type that never loses a digit; integers begin at 64 bits."""
    text = node.this
    if "e" in text.lower():
        return Constant(text, "double")
    if "." in text:
        whole, _, fraction = text.partition(".")
        digits = len(whole.lstrip("0")) + len(fraction)
        if digits > _HUGE_DIGITS:
            return Constant(text, "double")
        return Constant(text, f"decimal({max(1, digits)},{len(fraction)})")
    if not text.isdigit():
        raise Refused(f"{quoted(text)} is not a number", node)
    if int(text) <= _INT64_MAX:
        return Constant(text, "long")
    return Constant(text, "hugeint" if len(text) <= _HUGE_DIGITS else "double")


def _literal(node: Any, inner: Inner) -> Expression:
    return Constant(node.this, "string") if node.is_string else number_of(node)


def _is(node: Any, inner: Inner) -> Expression:
    right = node.expression
    if isinstance(right, exp.Null | exp.Boolean):
        name = "is_null" if isinstance(right, exp.Null) else "is_true" if right.this else "is_false"
        result = Function(name, (inner(node.this),))
        return Function("not", (result,)) if node.args.get("negate") else result
    raise unsupported("IS with something else than NULL, TRUE or FALSE", node)


def _between(node: Any, inner: Inner) -> Expression:
    return Function("between", (inner(node.this), inner(node.args["low"]), inner(node.args["high"])))


def _in(node: Any, inner: Inner) -> Expression:
    return Function("in", (inner(node.this), *(inner(each) for each in node.expressions)))


def _case(node: Any, inner: Inner) -> Expression:
    parts: list[Expression] = []
    for branch in node.args["ifs"]:
        test = inner(branch.this)
        if node.this is not None:
            test = Function("equal", (inner(node.this), test))
        parts += [test, inner(branch.args["true"])]
    if node.args.get("default") is not None:
        parts.append(inner(node.args["default"]))
    return Function("case", tuple(parts))


def _if(node: Any, inner: Inner) -> Expression:
    parts = [inner(node.this), inner(node.args["true"])]
    if node.args.get("false") is not None:
        parts.append(inner(node.args["false"]))
    return Function("case", tuple(parts))


def type_text(node: Any) -> str:
    """The engine's name of a SQL type."""
    text = str(node.sql(dialect="duckdb")).lower()
    if parse_type(text) is None:
        raise unsupported(f"type {quoted(text)}", node)
    return text


def _cast(name: str) -> Callable[[Any, Inner], Expression]:
    def build(node: Any, inner: Inner) -> Expression:
        kind = type_text(node.args["to"])
        if isinstance(node.this, exp.Literal) and name == "cast" and node.this.is_string:
            return Constant(node.this.this, kind)
        return Function(name, (inner(node.this), Constant(kind, "string")))

    return build


def interval_text(node: Any) -> str | None:
    """An interval of constant length, as `5 second`; None when its number is computed."""
    unit = node.args.get("unit")
    if not isinstance(node.this, exp.Literal):
        return None
    return f"{node.this.this} {unit.name.lower()}" if unit is not None else str(node.this.this)


def _interval(node: Any, inner: Inner) -> Expression:
    text = interval_text(node)
    if text is not None:
        return Constant(text, "interval")
    unit = node.args.get("unit")
    name = unit.name.lower().removesuffix("s") if unit is not None else ""
    if name not in _TO_INTERVAL:
        raise unsupported(f"INTERVAL with the unit {quoted(name)} and a computed number", node)
    return Function(f"to_{name}s", (inner(node.this),))


def _extract(node: Any, inner: Inner) -> Expression:
    return Function("date_part", (Constant(node.this.name.lower(), "string"), inner(node.expression)))


def _substring(node: Any, inner: Inner) -> Expression:
    start = node.args.get("start")
    parts = [inner(node.this), inner(start) if start is not None else Constant("1", "long")]
    if node.args.get("length") is not None:
        parts.append(inner(node.args["length"]))
    return Function("substring", tuple(parts))


def _trim(node: Any, inner: Inner) -> Expression:
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    parts = [inner(node.this)]
    if node.args.get("expression") is not None:
        parts.append(inner(node.expression))
    return Function(name, tuple(parts))


def _position(node: Any, inner: Inner) -> Expression:
    return Function("strpos", (inner(node.this), inner(node.args["substr"])))


def _escape(node: Any, inner: Inner) -> Expression:
    if not isinstance(node.this, exp.Like | exp.ILike):
        raise unsupported("ESCAPE here", node)
    like = node.this
    result = Function(_BINARY[type(like)], (inner(like.this), inner(like.expression), inner(node.expression)))
    return Function("not", (result,)) if like.args.get("negate") else result


def _where_read(node: exp.Anonymous, place: Place) -> Expression:
    """`node()` is the column _node of the one table that there is."""
    column = exp.Column(this=exp.to_identifier(NODE))
    column.this.meta.update(node.meta)
    return place.column(column)


def _call(node: Any, inner: Inner) -> Expression:
    name = node.name.lower()
    for part in node.expressions:
        if isinstance(part, exp.Star | exp.Distinct | exp.Order | exp.Lambda):
            raise Refused(f"{name} does not take {_name(part)}", node)
    if name in AGGREGATES:
        raise Refused(f"{name} does not take {len(node.expressions)} arguments", node)
    try:
        spec = lookup(name)
    except UnknownFunction:
        known = [*(each.name for each in functions()), *AGGREGATES]
        raise Refused(f"there is no function {quoted(name)}", node, did_you_mean(name, known)) from None
    given = len(node.expressions)
    if given < spec.least or (spec.most is not None and given > spec.most):
        raise Refused(f"{spec.name}{spec.signature} was given {given} arguments", node)
    return Function(spec.name, tuple(inner(part) for part in node.expressions))


def _name(node: exp.Expr) -> str:
    return str(node.key).upper()


_SPECIAL: dict[type, Callable[[Any, Inner], Expression]] = {
    exp.And: _junction("and"),
    exp.Or: _junction("or"),
    exp.Paren: lambda node, inner: inner(node.this),
    exp.Alias: lambda node, inner: inner(node.this),
    exp.Literal: _literal,
    exp.Null: lambda node, inner: Constant("", "null"),
    exp.Boolean: lambda node, inner: Constant("true" if node.this else "false", "bool"),
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast("cast"),
    exp.TryCast: _cast("try_cast"),
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.StrPosition: _position,
    exp.Escape: _escape,
    exp.Anonymous: _call,
}
