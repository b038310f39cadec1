"""Clauses of a query that are constants, and the clauses this dialect has not: those are refused by name."""

from __future__ import annotations

from sqlglot import exp

from ufl.sql.errors import Refused, unsupported

#: Rows that LIMIT and OFFSET may name: what the operators take.
ROWS_MAX = 1_000_000_000

_SELECT = {
    *("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset", "distinct"),
    *("with_", "kind", "hint", "operation_modifiers"),
}
_SET = {"this", "expression", "distinct", "order", "limit", "offset", "with_"}
_TABLE = {"this", "alias", "joins"}
_JOIN = {"this", "on", "using", "side", "kind", "method"}
_GROUP = {"expressions", "all"}
_NAMES = {
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "laterals": "LATERAL",
    "into": "INTO",
    "locks": "FOR UPDATE",
    "rollup": "ROLLUP",
    "cube": "CUBE",
    "grouping_sets": "GROUPING SETS",
    "by_name": "UNION BY NAME",
    "db": "a schema in front of a table",
    "catalog": "a catalog in front of a table",
    "ordinality": "WITH ORDINALITY",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
}


def check_select(node: exp.Select) -> None:
    _only(node, _SELECT)
    if node.args.get("kind") or node.args.get("hint") or node.args.get("operation_modifiers"):
        raise unsupported("this kind of SELECT", node)
    distinct = node.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise unsupported("DISTINCT ON", distinct)
    group = node.args.get("group")
    if group is not None:
        _only(group, _GROUP)


def check_set(node: exp.Expr) -> None:
    _only(node, _SET)


def check_table(node: exp.Expr) -> None:
    _only(node, _TABLE)


def check_join(node: exp.Join) -> None:
    _only(node, _JOIN)
    if node.method:
        raise unsupported(f"{node.method} JOIN", node)


def _only(node: exp.Expr, known: set[str]) -> None:
    for name, value in node.args.items():
        if name not in known and value not in (None, False, [], ""):
            place = value[0] if isinstance(value, list) else value
            clause = _NAMES.get(name, name.replace("_", " ").strip().upper())
            raise unsupported(clause, place if isinstance(place, exp.Expr) else node)


def limit_of(node: exp.Expr) -> tuple[int | None, int]:
    """LIMIT and OFFSET of a query; the limit is None when there is none."""
    limit: int | None = None
    given = node.args.get("limit")
    if isinstance(given, exp.Fetch):
        limit = _count(given.args.get("count") or exp.Literal.number(1), "FETCH")
    elif given is not None:
        options = [name for name in ("offset", "expressions", "limit_options") if given.args.get(name)]
        if options:
            raise unsupported("this form of LIMIT", given)
        limit = _count(given.expression, "LIMIT")
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


def is_star(node: exp.Expr) -> bool:
    """Whether an item of a select list stands for columns."""
    return isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star))
