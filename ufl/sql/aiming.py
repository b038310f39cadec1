"""Which key a condition is about: the text under which the rows of a published table lie (PIER 3.3.3, row Q5).

Only a comparison of the key column with a constant of its own kind counts; anything that would need a conversion,
and so might mean several keys or none, is left to the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from query.expr import ExprError, literal
from query.operators.put.placement import key_texts
from query.plan import Constant, Expression, Field, Function


def key_text(name: str, kind: pa.DataType | None, conditions: Sequence[Expression]) -> str | None:
    """The text of the only value a column can have under the conditions; None when they do not say."""
    for condition in conditions:
        constant = _compared(name, condition)
        if constant is None or kind is None:
            continue
        try:
            value = literal(constant)
        except ExprError:
            continue
        if value.is_valid and same_texts(value.type, kind):
            return key_texts([pa.array([value.as_py()], kind)])[0]
    return None


def _compared(name: str, condition: Expression) -> Constant | None:
    if not isinstance(condition, Function) or condition.name != "equal":
        return None
    one, other = condition.args
    if isinstance(one, Constant):
        one, other = other, one
    return other if one == Field(name) and isinstance(other, Constant) else None


def same_texts(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether equal values of two types have equal texts."""
    if pa.types.is_string(one) or pa.types.is_date(one) or pa.types.is_boolean(one):
        return bool(one == other)
    return bool(pa.types.is_integer(one) and pa.types.is_integer(other))
