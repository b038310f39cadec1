"""Which key a condition is about: the text under which the rows of a published table lie (PIER 3.3.3).

Only a comparison of the key column with a constant of its own kind counts; anything that would need a conversion,
and so might mean several keys or none, is left to the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from query.batch.key_text import value_texts
from query.expr import ExprError, literal
from query.plan import Constant, Expression, Field, Function


def key_values(name: str, kind: pa.DataType | None, conditions: Sequence[Expression]) -> tuple[str, ...]:
    """The texts of the only values a column can have under the conditions; none when they do not say."""
    for condition in conditions if kind is not None else ():
        texts = [_text(each, kind) for each in _compared(name, condition)]
        if texts and None not in texts:
            return tuple(dict.fromkeys(text for text in texts if text is not None))
    return ()


def _text(constant: Constant, kind: pa.DataType) -> str | None:
    try:
        value = literal(constant)
    except ExprError:
        return None
    if not value.is_valid or not same_texts(value.type, kind):
        return None
    text: str = value_texts(pa.array([value.as_py()], kind))[0].as_py()
    return text


def _compared(name: str, condition: Expression) -> list[Constant]:
    """The constants one of which a column must equal, under this condition alone."""
    if not isinstance(condition, Function) or condition.name not in ("equal", "in"):
        return []
    first, *others = condition.args
    if condition.name == "equal" and isinstance(first, Constant):
        first, others = others[0], [first]
    constants = [each for each in others if isinstance(each, Constant)]
    return constants if first == Field(name) and len(constants) == len(others) else []


def same_texts(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether equal values of two types have equal texts."""
    if pa.types.is_string(one) or pa.types.is_date(one) or pa.types.is_boolean(one):
        return bool(one == other)
    return bool(pa.types.is_integer(one) and pa.types.is_integer(other))
