"""Types of expressions before a query runs, as far as the catalog knows the columns they are made of.

The engine's own compiler is asked, with a schema made of the known columns; so what it says here is what nodes will
say, and a mistake is found before a query is sent anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from query.aggregate import Grouping, find, make
from query.batch import type_name
from query.batch.types import STRING
from query.expr import ExprError, compile_expression
from query.expr.coerce import common_type, is_number
from query.expr.errors import EvalError
from query.plan import Constant, Expression, Field, Function, fields_of
from ufl.sql.errors import Refused
from ufl.sql.relations import Call, Column

#: Columns with their types, or the types by name: who asks for many expressions makes them once (`kinds_of`).
Columns: TypeAlias = Sequence[Column] | Mapping[str, pa.DataType | None]


def kinds_of(columns: Columns) -> Mapping[str, pa.DataType | None]:
    """Types by the names of columns."""
    return columns if isinstance(columns, Mapping) else {column.name: column.kind for column in columns}


def kind_of(expression: Expression, columns: Columns, node: exp.Expr | None = None) -> pa.DataType | None:
    """The type of an expression over some columns; None when a column's is not known. Refuses a mistake."""
    known = kinds_of(columns)
    if isinstance(expression, Field):
        return known.get(expression.name)
    used = dict.fromkeys(fields_of(expression))
    kinds = {name: known.get(name) for name in used}
    if any(kind is None for kind in kinds.values()):
        return None
    schema = pa.schema([pa.field(name, kind) for name, kind in kinds.items()])
    try:
        return compile_expression(expression, schema).type
    except ExprError as error:
        raise Refused(str(error), node) from None


def type_texts(names: Sequence[str], columns: Columns) -> list[str]:
    """The names of the types of some columns; empty where that is not known."""
    kinds = kinds_of(columns)
    return ["" if (kind := kinds.get(name)) is None else type_name(kind) for name in names]


def condition_of(expression: Expression, columns: Columns, node: exp.Expr | None = None) -> Expression:
    """An expression as a condition: a truth value. NULL is one, a number is true unless it is zero."""
    kind = kind_of(expression, columns, node)
    if kind is None or pa.types.is_boolean(kind):
        return expression
    if pa.types.is_null(kind) or is_number(kind):
        return Function("and", (expression,))
    raise Refused(
        f"a condition is true or false, this is {type_name(kind)}", node, "compare it with something"
    )


def aggregate_kind(call: Call, columns: Columns, node: exp.Expr | None = None) -> pa.DataType | None:
    """The type of an aggregate's result, where those of its arguments are known."""
    found = find(call.function, len(call.args))
    if found is None:
        return None
    try:
        aggregate, args = make(found, tuple(call.args))
    except ExprError as error:
        raise Refused(str(error), node) from None
    kinds = [kind_of(arg, columns, node) for arg in args]
    if any(kind is None for kind in kinds):
        return None
    grouping = Grouping([], [("result", aggregate)])
    try:
        grouping.add([], [[pa.array([], kind) for kind in kinds]], 0)
        return grouping.results().column(0).type
    except (ExprError, EvalError) as error:
        raise Refused(str(error), node) from None
    except pa.ArrowException:
        return None


def comparable(
    left: Expression,
    left_kind: pa.DataType | None,
    right: Expression,
    right_kind: pa.DataType | None,
    node: exp.Expr | None = None,
) -> tuple[Expression, Expression]:
    """Both sides of an equality that rows will be hashed by, of one type as far as types are known."""
    if left_kind is None or right_kind is None or left_kind == right_kind:
        return left, right
    kind = common_type([left_kind, right_kind])
    if kind is None:
        message = f"{type_name(left_kind)} and {type_name(right_kind)} are never equal"
        raise Refused(message, node, "cast one of them")
    return cast_to(left, left_kind, kind), cast_to(right, right_kind, kind)


def cast_to(expression: Expression, have: pa.DataType | None, want: pa.DataType) -> Expression:
    if have == want or pa.types.is_null(want):
        return expression
    return Function("cast", (expression, Constant(type_name(want), "string")))


def united(kinds: Sequence[pa.DataType | None]) -> pa.DataType | None:
    """The type of a column of a set operation; None when one is not known. Text takes in everything."""
    if any(kind is None for kind in kinds):
        return None
    known = [kind for kind in kinds if kind is not None]
    kind = common_type(known)
    return STRING if kind is None and STRING in known else kind
