"""What of a syntax tree is planned: for each kind of node the parts that the compiler reads.

The parser knows far more SQL than this dialect plans, and hangs what it read on the tree. So the whole tree is gone
through before anything is planned: a kind of node that is not in the table, or a part of one that nobody would look
at, is refused by name. A clause that was understood and then left out of the plan cannot happen silently.

Who makes the compiler read one more part enters it here; who enters it here without reading it has made a lie.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from ufl.sql.dialect import Continuous
from ufl.sql.errors import Refused, unsupported

_QUERY = ("with_", "order", "limit", "offset")
_TWO = ("this", "expression")

#: By kind of node, the parts that are read.
_READ: dict[type[exp.Expr], tuple[str, ...]] = {
    # Queries and their clauses.
    Continuous: ("this", "every", "range", "duration", "strategy"),
    exp.Select: (
        *_QUERY,
        *("expressions", "distinct", "from_", "joins", "where", "group", "having"),
    ),
    exp.Subquery: (*_QUERY, "this", "alias", "joins"),
    exp.Union: (*_QUERY, *_TWO, "distinct"),
    exp.Intersect: (*_QUERY, *_TWO, "distinct"),
    exp.Except: (*_QUERY, *_TWO, "distinct"),
    exp.Values: ("expressions", "alias", "order", "limit", "offset"),
    exp.Table: ("this", "alias", "joins"),
    exp.With: ("expressions", "recursive"),
    # To materialise or not is advice; the answer is the same.
    exp.CTE: ("this", "alias", "materialized"),
    exp.TableAlias: ("this", "columns"),
    exp.From: ("this",),
    exp.Join: ("this", "on", "using", "side", "kind"),
    exp.Where: ("this",),
    exp.Group: ("expressions", "all"),
    exp.Having: ("this",),
    exp.Order: ("expressions",),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression", "limit_options"),
    exp.Offset: ("expression",),
    exp.Fetch: ("direction", "count", "limit_options"),
    exp.LimitOptions: ("rows",),
    exp.Distinct: ("expressions",),
    exp.Star: ("except_",),
    exp.Tuple: ("expressions",),
    exp.Identifier: ("this", "quoted"),
    exp.Var: ("this",),
    # Expressions. `typed` and `safe` say how a dialect divides and joins texts, which is as DuckDB's here.
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE), _TWO),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.Pow), _TWO),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _TWO),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _TWO),
    **dict.fromkeys((exp.RegexpLike, exp.SimilarTo, exp.Escape), _TWO),
    **dict.fromkeys((exp.And, exp.Or), _TWO),
    **dict.fromkeys((exp.Like, exp.ILike, exp.Is), (*_TWO, "negate")),
    **dict.fromkeys((exp.Neg, exp.Not, exp.Abs, exp.Paren, exp.Null, exp.Boolean), ("this",)),
    **dict.fromkeys((exp.CurrentTimestamp, exp.CurrentDate), ()),
    exp.Div: (*_TWO, "typed", "safe"),
    exp.DPipe: (*_TWO, "safe"),
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Literal: ("this", "is_string"),
    exp.Placeholder: ("this",),
    exp.Alias: ("this", "alias"),
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions", "query"),
    exp.Any: ("this",),
    exp.Exists: ("this",),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true", "false"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to", "safe"),
    exp.Interval: ("this", "unit"),
    exp.Extract: _TWO,
    exp.Trim: (*_TWO, "position"),
    exp.Substring: ("this", "start", "length"),
    exp.StrPosition: ("this", "substr"),
    exp.Anonymous: ("this", "expressions"),
    exp.Filter: _TWO,
}
UNDERSTOOD = {kind: frozenset(parts) for kind, parts in _READ.items()}
#: The kind that is read as a whole, by its text.
_WHOLE = exp.DataType
#: What a part is called where the parser's own word would not be understood.
_PARTS: dict[str, str] = {
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "laterals": "LATERAL",
    "locks": "FOR UPDATE",
    "grouping_sets": "GROUPING SETS",
    "db": "a schema in front of a table",
    "catalog": "a catalog in front of a table",
    "ordinality": "WITH ORDINALITY",
    "match": "MATCH_RECOGNIZE",
    "connect": "CONNECT BY",
    "with_ties": "WITH TIES",
    "key_expressions": "USING KEY",
    "hint": "this hint",
    "kind": "this kind of SELECT",
    "operation_modifiers": "this kind of SELECT",
}
_PARTS_OF: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Distinct, "on"): "DISTINCT ON",
    (exp.Order, "this"): "ORDER BY inside an aggregate",
    (exp.Limit, "this"): "LIMIT inside an aggregate",
    (exp.Limit, "expressions"): "LIMIT BY",
    (exp.Star, "replace"): "REPLACE in a star",
    (exp.Star, "rename"): "RENAME in a star",
    (exp.Star, "ilike"): "LIKE in a star",
    (exp.In, "field"): "IN with a list value",
    (exp.In, "unnest"): "IN with a list value",
    (exp.Between, "symmetric"): "BETWEEN SYMMETRIC",
    (exp.Union, "by_name"): "UNION BY NAME",
    (exp.CurrentTimestamp, "this"): "CURRENT_TIMESTAMP with a precision",
}
_KINDS: dict[type[exp.Expr], str] = {
    exp.Window: "OVER (window functions)",
    exp.GroupingSets: "GROUPING SETS",
    exp.IntervalSpan: "an INTERVAL of several units",
    exp.AtTimeZone: "AT TIME ZONE",
    exp.BitwiseNot: "~",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Bracket: "a subscript",
    exp.Array: "a list",
    exp.Struct: "a struct",
    exp.Lambda: "a lambda",
    exp.All: "ALL with a query",
    exp.JoinHint: "this hint",
    exp.Hint: "this hint",
}


def require_understood(tree: exp.Expr) -> None:
    """Refuses a query of which the compiler would not read every part; the outermost part first."""
    for node in tree.walk(bfs=True, prune=lambda each: type(each) is _WHOLE):
        if type(node) is _WHOLE:
            continue
        if isinstance(node, exp.Select) and not node.expressions:
            raise Refused("SELECT is followed by no columns", node, "SELECT * gives all of them")
        if isinstance(node, exp.Alias) and not isinstance(node.parent, exp.Select):
            raise unsupported("a name for a part of an expression", node)
        known = UNDERSTOOD.get(type(node))
        if known is None:
            raise unsupported(_KINDS.get(type(node), str(node.key).upper()), node)
        for part in _present(node):
            if part not in known:
                value = node.args[part]
                place = value[0] if isinstance(value, list) else value
                raise unsupported(_called(node, part), place if isinstance(place, exp.Expr) else node)
        if any(needed and node.args.get(part) is None for part, needed in node.arg_types.items()):
            raise Refused("not understood: something is missing here", node)


def _present(node: exp.Expr) -> Iterator[str]:
    """The parts that a text gave to a node."""
    return (part for part, value in node.args.items() if value not in (None, False, [], ""))


def _called(node: exp.Expr, part: str) -> str:
    if isinstance(node, exp.Join) and part == "method":
        return f"{node.method} JOIN"
    if (type(node), part) in _PARTS_OF:
        return _PARTS_OF[type(node), part]
    clause = _PARTS.get(part, part.replace("_", " ").strip().upper())
    inside = isinstance(node, exp.Query | exp.Table | exp.Group | exp.LimitOptions | exp.CTE)
    return clause if inside else f"{str(node.key).upper()} with {clause}"
