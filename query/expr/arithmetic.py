"""Arithmetic over numbers. Integers are computed in 64 bits and checked: an overflow is a fault of its row,
never a wrapped number. Division by zero and remainder by zero are NULL. Over dates and intervals: `times.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import (
    DECIMAL256_DIGITS_MAX,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    FLOAT,
    HUGEINT,
    INT64,
    NULL,
    UINT64,
    decimal_type,
    type_name,
)
from query.expr.casts import cast
from query.expr.coerce import common_number, convert, digits, is_number, is_text_literal
from query.expr.columns import column_of, nulls, numbers, row_wise, whole
from query.expr.errors import EvalError, TypeClash
from query.expr.nodes import Call, Kernel, Node, Value
from query.expr.registry import function
from query.expr.temporal import temporal_arithmetic

t = pa.types
FAMILY = "arithmetic"


def promote(args: Sequence[Node], what: str) -> list[Node]:
    """Arguments as one numeric type; integers as 64 bits, unsigned 64 bits as 38 digits."""
    fixed = [a.type for a in args if not is_text_literal(a) and a.type != NULL]
    wrong = [k for k in fixed if not is_number(k)]
    if wrong:
        raise TypeClash(f"{what} takes numbers, not {type_name(wrong[0])}")
    kind = common_number(fixed) if fixed else DOUBLE if any(a.type != NULL for a in args) else INT64
    if t.is_integer(kind):
        kind = HUGEINT if kind == UINT64 else INT64
    return [convert(a, kind) for a in args]


def _decimal_call(args: Sequence[Node], precision: int, scale: int, kernel: Kernel, product: bool) -> Node:
    """Computes in 76 digits and checks that the result fits: Arrow refuses to exceed 38 by itself."""
    widest = DECIMAL256_DIGITS_MAX if any(t.is_decimal256(a.type) for a in args) else DECIMAL_DIGITS_MAX
    if scale > widest:
        raise TypeClash(f"a result with {scale} digits after the point does not fit; cast to double")
    result = decimal_type(min(precision, widest), scale)
    left, right = _side_types([a.type for a in args], product)

    def run(x: Value, y: Value) -> Value:
        return pc.cast(kernel(pc.cast(x, left), pc.cast(y, right)), result)

    return Call(result, run, args)


def _side_types(kinds: Sequence[pa.DataType], product: bool) -> list[pa.DataType]:
    """Arrow gives a sum one digit more than the larger side, a product one more than both together.

    A left side of a product that really has 38 digits is a fault of its row.
    """
    top = DECIMAL256_DIGITS_MAX - 1
    if not product:
        return [pa.decimal256(top, k.scale) for k in kinds]
    left = max(top // 2, kinds[0].scale)
    return [pa.decimal256(left, kinds[0].scale), pa.decimal256(top - left, kinds[1].scale)]


def _binary(name: str, args: Sequence[Node], integer: Kernel, real: Kernel) -> Node:
    moment = temporal_arithmetic(name, args)
    if moment is not None:
        return moment
    if name == "multiply":
        args = _keep_scales(args, name)
    else:
        args = promote(args, name)
    kind = args[0].type
    if not t.is_decimal(kind):
        return Call(kind, real if t.is_floating(kind) else integer, args)
    if name == "multiply":
        other = args[1].type
        return _decimal_call(args, kind.precision + other.precision, kind.scale + other.scale, integer, True)
    return _decimal_call(args, kind.precision + 1, kind.scale, integer, False)


def _keep_scales(args: Sequence[Node], what: str) -> list[Node]:
    """A product keeps each decimal's own scale; other numbers are promoted as usual."""
    promoted = promote(args, what)
    if not t.is_decimal(promoted[0].type):
        return promoted
    kept = []
    for arg, common in zip(args, promoted, strict=True):
        if t.is_decimal(arg.type):
            kept.append(arg)
        elif t.is_integer(arg.type):
            kept.append(cast(arg, pa.decimal128(digits(arg.type)[0], 0)))
        else:
            kept.append(common)
    return kept


@function(
    "add", FAMILY, "(x, y)", "Sum; also a date or time plus an interval.", args=(2, 2), aliases=["+", "plus"]
)
def _add(args: Sequence[Node]) -> Node:
    return _binary("add", args, pc.add_checked, pc.add)


@function(
    "subtract",
    FAMILY,
    "(x, y)",
    "Difference; of two timestamps an interval, of two dates the days.",
    args=(1, 2),
    aliases=["-", "minus", "sub"],
)
def _subtract(args: Sequence[Node]) -> Node:
    if len(args) == 1:
        return _negate(args)
    return _binary("subtract", args, pc.subtract_checked, pc.subtract)


@function(
    "multiply",
    FAMILY,
    "(x, y)",
    "Product; also an interval times a number.",
    args=(2, 2),
    aliases=["*", "times", "mul"],
)
def _multiply(args: Sequence[Node]) -> Node:
    return _binary("multiply", args, pc.multiply_checked, pc.multiply)


ZERO = {kind: pa.scalar(0, kind) for kind in (FLOAT, DOUBLE, INT64)}


def _nonzero(divisor: Value) -> Value:
    """The divisor with NULL for zero."""
    return pc.if_else(pc.equal(divisor, ZERO[divisor.type]), pa.scalar(None, divisor.type), divisor)


@function(
    "divide",
    FAMILY,
    "(x, y) -> double",
    "Quotient as a double; NULL when y is zero.",
    args=(2, 2),
    aliases=["/"],
)
def _divide(args: Sequence[Node]) -> Node:
    moment = temporal_arithmetic("divide", args)
    if moment is not None:
        return moment
    args = promote(args, "divide")
    kind = args[0].type if args[0].type == FLOAT else DOUBLE
    return _by(kind, [cast(a, kind) for a in args], pc.divide)


def _by(kind: pa.DataType, args: Sequence[Node], kernel: Kernel) -> Node:
    """A division; a constant divisor is tested for zero once."""
    divisor = args[1].constant
    if divisor is not None and divisor.is_valid and divisor.as_py() != 0:
        return Call(kind, kernel, args)
    return Call(kind, lambda x, y: kernel(x, _nonzero(y)), args)


@function(
    "int_divide",
    FAMILY,
    "(x, y)",
    "Quotient of integers, cut toward zero; NULL when y is zero. Of other numbers the same as divide.",
    args=(2, 2),
    aliases=["//", "div", "intdiv"],
)
def _int_divide(args: Sequence[Node]) -> Node:
    args = promote(args, "int_divide")
    if args[0].type != INT64:
        return _divide(args)
    return _by(INT64, args, pc.divide_checked)


@function(
    "modulo",
    FAMILY,
    "(x, y)",
    "Remainder with the sign of x; NULL when y is zero.",
    args=(2, 2),
    aliases=["%", "mod"],
)
def _modulo(args: Sequence[Node]) -> Node:
    args = promote(args, "modulo")
    kind = args[0].type
    if kind == INT64:
        return Call(kind, _integer_remainder, args)
    if t.is_floating(kind):
        return Call(kind, _float_remainder, args)
    return Call(kind, row_wise(_remainder, kind), args)


def _remainder(x: Decimal, y: Decimal) -> Decimal | None:
    return None if y == 0 else x % y


@whole
def _integer_remainder(x: pa.Array, y: pa.Array) -> pa.Array:
    left, right = numbers(x), numbers(y)
    zero = right == 0
    null = nulls(x, y)
    overflow = (right == -1) & (left == np.iinfo(np.int64).min)
    if np.any(overflow if null is None else overflow & ~null):
        raise EvalError("overflow in modulo")
    result = np.fmod(left, np.where(zero | (right == -1), 1, right))
    if zero.any():
        null = zero if null is None else null | zero
    return column_of(result, INT64, null)


@whole
def _float_remainder(x: pa.Array, y: pa.Array) -> pa.Array:
    dtype = np.float32 if x.type == FLOAT else np.float64
    left, right = numbers(x, dtype), numbers(y, dtype)
    zero = right == 0
    null = nulls(x, y)
    if zero.any():
        null = zero if null is None else null | zero
    with np.errstate(invalid="ignore"):
        return column_of(np.fmod(left, right), x.type, null)


@function("negate", FAMILY, "(x)", "The number or interval with the other sign.", args=(1, 1))
def _negate(args: Sequence[Node]) -> Node:
    moment = temporal_arithmetic("negate", args)
    if moment is not None:
        return moment
    args = promote(args, "negate")
    return Call(args[0].type, pc.negate_checked, args)
