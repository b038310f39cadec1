"""The common type of several arguments, by DuckDB's rules of promotion.

Numbers: double over float over decimal over integers; a decimal is widened to hold both sides; unsigned
64 bits with a signed integer is 38 digits. Dates widen to timestamps. A text literal takes the type of
what it meets; a text column never does: the query says the cast, or the batch is dropped as a clash.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from query.batch.types import (
    BOOL,
    DATE,
    DECIMAL256_DIGITS_MAX,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    DURATION,
    FLOAT,
    HUGEINT,
    INT8,
    INT16,
    INT32,
    INT64,
    INTERVAL,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP_UTC,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    decimal_type,
    type_name,
)
from query.expr.casts import cast
from query.expr.errors import BadLiteral, TypeClash, shown
from query.expr.nodes import Literal, Node

t = pa.types

#: Decimal digits that hold every value of an integer type.
_DIGITS = {INT8: 3, INT16: 5, INT32: 10, INT64: 19, UINT8: 3, UINT16: 5, UINT32: 10, UINT64: 20}
_MOMENTS = (DATE, TIMESTAMP, TIMESTAMP_UTC)


def is_number(kind: pa.DataType) -> bool:
    return bool(t.is_integer(kind) or t.is_floating(kind) or t.is_decimal(kind))


def digits(kind: pa.DataType) -> tuple[int, int]:
    """Digits before and after the point that hold every value of an integer or decimal type."""
    if kind in _DIGITS:
        return _DIGITS[kind], 0
    return kind.precision - kind.scale, kind.scale


def common_number(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type to which numbers are promoted before they are compared or combined."""
    if DOUBLE in kinds:
        return DOUBLE
    if FLOAT in kinds:
        return FLOAT
    if any(t.is_decimal(k) for k in kinds):
        before = max(digits(k)[0] for k in kinds)
        after = max(digits(k)[1] for k in kinds)
        widest = DECIMAL256_DIGITS_MAX if any(t.is_decimal256(k) for k in kinds) else DECIMAL_DIGITS_MAX
        return decimal_type(min(before + after, widest), after)
    return _common_integer(kinds)


def _common_integer(kinds: Sequence[pa.DataType]) -> pa.DataType:
    first = kinds[0]
    if all(k == first for k in kinds):
        return first
    if UINT64 in kinds:
        return UINT64 if all(t.is_unsigned_integer(k) for k in kinds) else HUGEINT
    return INT64


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type all values can take without changing them (beyond a number's precision); None if there is none."""
    distinct = [k for k in dict.fromkeys(kinds) if k != NULL]
    if len(distinct) <= 1:
        return distinct[0] if distinct else NULL
    if all(is_number(k) for k in distinct):
        return common_number(distinct)
    if all(is_number(k) or k == BOOL for k in distinct):
        return common_number([INT32 if k == BOOL else k for k in distinct])
    if all(k in _MOMENTS for k in distinct):
        return TIMESTAMP_UTC if TIMESTAMP_UTC in distinct else TIMESTAMP
    if all(k in (INTERVAL, DURATION) for k in distinct):
        return INTERVAL
    return None


def unify(args: Sequence[Node], what: str) -> tuple[pa.DataType, list[Node]]:
    """The arguments cast to their common type. Text literals take the type of the other arguments."""
    fixed = [a.type for a in args if not is_text_literal(a)]
    kind = common_type(fixed or [a.type for a in args])
    if kind == NULL and fixed and len(fixed) < len(args):
        kind = STRING
    if kind is None:
        names = ", ".join(dict.fromkeys(type_name(k) for k in fixed))
        raise TypeClash(f"{what} does not combine {names}; cast one explicitly")
    return kind, [convert(a, kind) for a in args]


def is_text_literal(node: Node) -> bool:
    return node.type == STRING and node.constant is not None and node.constant.is_valid


def convert(node: Node, kind: pa.DataType) -> Node:
    """A cast that the query did not write; a text literal that is no such value is the author's fault."""
    result = cast(node, kind)
    if is_text_literal(node) and not isinstance(result, Literal):
        assert node.constant is not None
        raise BadLiteral(f"{shown(node.constant.as_py())} is not a {type_name(kind)}")
    return result


def want(node: Node, kind: pa.DataType, what: str) -> Node:
    """The argument of a function that takes `kind`; NULL and text literals are cast, numbers are widened."""
    source = node.type
    if source == kind:
        return node
    widens = is_number(source) and is_number(kind) and (t.is_floating(kind) or not t.is_floating(source))
    dates = source in _MOMENTS and kind in _MOMENTS and _MOMENTS.index(source) < _MOMENTS.index(kind)
    if source == NULL or widens or dates or is_text_literal(node) or (source, kind) == (DURATION, INTERVAL):
        return convert(node, kind)
    raise TypeClash(f"{what} takes {type_name(kind)}, not {type_name(source)}")
