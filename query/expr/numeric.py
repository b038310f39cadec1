"""Functions of numbers: rounding, roots, logarithms, angles, bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import DECIMAL256_DIGITS_MAX, DOUBLE, FLOAT, INT64, decimal_type, type_name
from query.expr.arithmetic import FAMILY, ZERO, promote
from query.expr.casts import cast
from query.expr.errors import EvalError, TypeClash
from query.expr.nodes import Call, Kernel, Literal, Node, Value
from query.expr.registry import function

t = pa.types


@function("abs", FAMILY, "(x)", "The number without its sign.", args=(1, 1))
def _abs(args: Sequence[Node]) -> Node:
    args = promote(args, "abs")
    return Call(args[0].type, pc.abs_checked, args)


@function("sign", FAMILY, "(x) -> byte", "-1, 0 or 1.", args=(1, 1))
def _sign(args: Sequence[Node]) -> Node:
    args = promote(args, "sign")
    kind = args[0].type

    def run(value: Value) -> Value:
        if t.is_floating(kind):
            value = pc.if_else(pc.is_nan(value), ZERO[kind], value)
        return pc.cast(pc.sign(value), pa.int8())

    return Call(pa.int8(), run, args)


def _whole_number(name: str, doc: str, kernel: Kernel, aliases: Sequence[str] = ()) -> None:
    def bind(args: Sequence[Node]) -> Node:
        args = promote(args, name)
        kind = args[0].type
        if not t.is_decimal(kind):
            kind = FLOAT if kind == FLOAT else DOUBLE
            return Call(kind, kernel, [cast(args[0], kind)])
        # One digit more: 99.99 rounded up has three before the point.
        wider = decimal_type(min(kind.precision + 1, DECIMAL256_DIGITS_MAX), kind.scale)
        return Call(wider, kernel, [cast(args[0], wider)])

    function(name, FAMILY, "(x)", doc, args=(1, 1), aliases=aliases)(bind)


_whole_number("floor", "The largest whole number not above x.", pc.floor)
_whole_number("ceil", "The smallest whole number not below x.", pc.ceil, ["ceiling"])
_whole_number("trunc", "x without its fraction.", pc.trunc)


#: More digits than any of our types has; beyond it rounding changes nothing or leaves nothing.
ROUND_DIGITS_MAX = 400


@function(
    "round",
    FAMILY,
    "(x[, digits])",
    "x rounded to a constant number of digits, halves away from zero.",
    args=(1, 2),
)
def _round(args: Sequence[Node]) -> Node:
    [value] = promote(args[:1], "round")
    places = _constant_digits(args[1]) if len(args) == 2 else 0
    kind = value.type
    if t.is_floating(kind):
        return Call(kind, _round_float(places, kind), [value])
    if kind == INT64:
        if places >= 0:
            return value
        if places < -18:
            return Call(kind, _round_large, [value])
        return Call(kind, lambda v: _round_checked(v, places), [value])
    if places >= kind.scale:
        return value
    if places < -(kind.precision - kind.scale):
        return Call(kind, lambda v: pc.multiply(v, pa.scalar(0)), [value])
    inner = decimal_type(min(kind.precision + 1, DECIMAL256_DIGITS_MAX), kind.scale)

    def run(v: Value) -> Value:
        return pc.cast(pc.round(pc.cast(v, inner), ndigits=places, round_mode="half_towards_infinity"), inner)

    return Call(inner, run, [value])


def _constant_digits(node: Node) -> int:
    if node.constant is None or not t.is_integer(node.type) or not node.constant.is_valid:
        raise TypeClash("round takes a constant integer number of digits")
    places: int = node.constant.as_py()
    return max(-ROUND_DIGITS_MAX, min(ROUND_DIGITS_MAX, places))


def _round_float(places: int, kind: pa.DataType) -> Kernel:
    if places == 0:
        return lambda v: pc.round(v, round_mode="half_towards_infinity")

    def run(v: Value) -> Value:
        """As DuckDB computes it: scaled as a double, rounded, and given up where that is not finite."""
        wide = pc.cast(v, DOUBLE)
        scale = pa.scalar(float(10.0 ** abs(places)) if abs(places) <= 308 else float("inf"))
        up, down = (pc.multiply, pc.divide) if places > 0 else (pc.divide, pc.multiply)
        rounded = down(pc.round(up(wide, scale), round_mode="half_towards_infinity"), scale)
        kept = wide if places > 0 else pc.if_else(pc.is_finite(wide), pa.scalar(0.0), wide)
        return pc.cast(pc.if_else(pc.is_finite(rounded), rounded, kept), kind)

    return run


def _round_checked(value: Value, places: int) -> Value:
    """In 38 digits, because the nearest multiple may lie outside 64 bits."""
    wide = pc.cast(value, pa.decimal128(19, 0))
    wide = pc.cast(wide, pa.decimal128(38, 0))
    return pc.cast(pc.round(wide, ndigits=places, round_mode="half_towards_infinity"), INT64)


def _round_large(value: Value) -> Value:
    return pc.multiply(value, ZERO[INT64])


def _real(name: str, doc: str, kernel: Callable[[Value], Value], aliases: Sequence[str] = ()) -> None:
    def bind(args: Sequence[Node]) -> Node:
        args = promote(args, name)
        return Call(DOUBLE, kernel, [cast(args[0], DOUBLE)])

    function(name, FAMILY, "(x) -> double", doc, args=(1, 1), aliases=aliases)(bind)


_real("sqrt", "Square root; a negative x is a fault of its row.", pc.sqrt_checked)
_real("exp", "e to the power of x.", pc.exp)
_real("ln", "Natural logarithm; x not above zero is a fault of its row.", pc.ln_checked)
_real("log10", "Logarithm to base 10.", pc.log10_checked, ["log"])
_real("log2", "Logarithm to base 2.", pc.log2_checked)
_real("sin", "Sine of x in radians.", pc.sin_checked)
_real("cos", "Cosine of x in radians.", pc.cos_checked)
_real("tan", "Tangent of x in radians.", pc.tan_checked)
_real("asin", "Arc sine.", pc.asin_checked)
_real("acos", "Arc cosine.", pc.acos_checked)
_real("atan", "Arc tangent.", pc.atan)


@function("atan2", FAMILY, "(y, x) -> double", "Arc tangent of y/x in the right quadrant.", args=(2, 2))
def _atan2(args: Sequence[Node]) -> Node:
    return Call(DOUBLE, pc.atan2, [cast(a, DOUBLE) for a in promote(args, "atan2")])


@function(
    "power", FAMILY, "(x, y) -> double", "x to the power of y.", args=(2, 2), aliases=["pow", "**", "^"]
)
def _power(args: Sequence[Node]) -> Node:
    return Call(DOUBLE, _power_kernel, [cast(a, DOUBLE) for a in promote(args, "power")])


def _power_kernel(x: Value, y: Value) -> Value:
    undefined = pc.and_(pc.equal(x, ZERO[DOUBLE]), pc.less(y, ZERO[DOUBLE]))
    found = undefined if isinstance(undefined, pa.Scalar) else pc.any(undefined)
    if found.as_py():
        raise EvalError("zero to a negative power")
    return pc.power(x, y)


@function("pi", FAMILY, "() -> double", "The ratio of a circle's circumference to its diameter.", args=(0, 0))
def _pi(args: Sequence[Node]) -> Node:
    return Literal(pa.scalar(3.141592653589793))


_BITS: dict[str, tuple[Kernel, str, tuple[str, ...]]] = {
    "bit_and": (pc.bit_wise_and, "Bits set in both integers.", ("&",)),
    "bit_or": (pc.bit_wise_or, "Bits set in either integer.", ("|",)),
    "bit_xor": (pc.bit_wise_xor, "Bits set in one integer only.", ("xor",)),
}


def _bitwise(name: str, kernel: Kernel, doc: str, aliases: Sequence[str]) -> None:
    def bind(args: Sequence[Node]) -> Node:
        args = promote(args, name)
        if args[0].type != INT64:
            raise TypeClash(f"{name} takes integers, not {type_name(args[0].type)}")
        return Call(INT64, kernel, args)

    function(name, FAMILY, "(x, y) -> long", doc, args=(2, 2), aliases=aliases)(bind)


for _name, (_kernel, _doc, _aliases) in _BITS.items():
    _bitwise(_name, _kernel, _doc, _aliases)
