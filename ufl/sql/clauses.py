"""Clauses of a query that are constants."""

from __future__ import annotations

from sqlglot import exp

from ufl.sql.errors import Refused

#: Rows that LIMIT and OFFSET may name: what the operators take.
ROWS_MAX = 1_000_000_000


def limit_of(node: exp.Expr) -> tuple[int | None, int]:
    """LIMIT and OFFSET of a query; the limit is None when there is none."""
    limit: int | None = None
    given = node.args.get("limit")
    if isinstance(given, exp.Fetch):
        limit = _count(given.args.get("count") or exp.Literal.number(1), "FETCH")
    elif given is not None:
        limit = None if _is_all(given.expression) else _count(given.expression, "LIMIT")
    offset = node.args.get("offset")
    return limit, 0 if offset is None else _count(offset.expression, "OFFSET")


def _count(node: exp.Expr, clause: str) -> int:
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.Literal) or node.is_string or not node.this.isdigit():
        raise Refused(f"{clause} takes a whole number", node)
    if int(node.this) > ROWS_MAX:
        raise Refused(f"{clause} is above {ROWS_MAX} (ROWS_MAX)", node)
    return int(node.this)


def _is_all(node: exp.Expr) -> bool:
    return isinstance(node, exp.Var) and node.name.upper() == "ALL"


def order_of(node: exp.Expr, columns: int) -> list[exp.Expr]:
    """The keys of ORDER BY; ALL stands for every column of the result, by its number."""
    order = node.args.get("order")
    keys: list[exp.Expr] = [] if order is None else list(order.expressions)
    if len(keys) != 1 or not _is_all(keys[0].this):
        return keys
    every = [keys[0].copy() for _ in range(columns)]
    for number, key in enumerate(every, 1):
        key.set("this", exp.Literal.number(number))
    return every


def is_constant(node: exp.Expr) -> bool:
    """Whether a key of ORDER BY is written as a constant: it is the number of a column, or a mistake."""
    return isinstance(node.this if isinstance(node, exp.Neg) else node, exp.Literal | exp.Null)


def is_star(node: exp.Expr) -> bool:
    """Whether an item of a select list stands for columns."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
