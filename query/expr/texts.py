"""Functions over text: case, length, parts, padding, joining. Lengths and positions count code points.

Arguments after the first are usually constants, and then the whole column goes through one Arrow kernel, or
through one Python call a distinct value. Where they are columns too, rows are computed one by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import BINARY, INT32, INT64, NULL, STRING, type_name
from query.expr.casts import cast
from query.expr.coerce import want
from query.expr.columns import map_unique, numbers, row_wise, whole
from query.expr.errors import EvalError, EvalLimit, TypeClash
from query.expr.nodes import Call, Kernel, Node, Value
from query.expr.registry import function

FAMILY = "text"
#: Text that one call may produce for one batch: repeat, padding and replacing can multiply their input.
RESULT_BYTES_MAX = 256 << 20
#: DuckDB refuses positions beyond 32 bits; Python and Arrow would take them, for no gain.
POSITION_MAX = 2**32 - 1


def text_function(
    name: str,
    signature: str,
    doc: str,
    takes: Sequence[pa.DataType],
    result: pa.DataType,
    python: Callable[..., Any],
    *,
    fast: Callable[..., Kernel | None] | None = None,
    optional: int = 0,
    aliases: Sequence[str] = (),
    family: str = FAMILY,
) -> None:
    """Registers a function of text: `python` computes one value, `fast` makes a kernel from constant arguments."""

    def bind(args: Sequence[Node]) -> Node:
        args = [want(a, k, name) for a, k in zip(args, takes, strict=False)]
        constants = [a.constant for a in args[1:]]
        if any(c is None or not c.is_valid for c in constants):
            return Call(result, row_wise(python, result), args)
        values = [c.as_py() for c in constants if c is not None]
        kernel = fast(*values) if fast is not None else None
        if kernel is None:
            kernel = whole(lambda column: map_unique(column, lambda v: python(v, *values), result))
        return Call(result, kernel, args[:1])

    function(name, family, signature, doc, args=(len(takes) - optional, len(takes)), aliases=aliases)(bind)


def limited(size: int) -> None:
    if size > RESULT_BYTES_MAX:
        raise EvalLimit(f"text of more than {RESULT_BYTES_MAX} bytes from one batch")


def text_bytes(column: Value) -> int:
    """Bytes of all values of a text column or constant."""
    if isinstance(column, pa.Scalar):
        return len(column.as_buffer()) if column.is_valid else 0
    return pc.sum(pc.binary_length(column)).as_py() or 0


def _plain(kernel: Kernel) -> Callable[[], Kernel]:
    return lambda: kernel


text_function(
    "lower",
    "(s) -> string",
    "Small letters.",
    [STRING],
    STRING,
    str.lower,
    fast=_plain(pc.utf8_lower),
    aliases=["lcase"],
)
text_function(
    "upper",
    "(s) -> string",
    "Capital letters.",
    [STRING],
    STRING,
    str.upper,
    fast=_plain(pc.utf8_upper),
    aliases=["ucase"],
)
text_function(
    "length",
    "(s) -> long",
    "Number of code points.",
    [STRING],
    INT64,
    len,
    fast=lambda: lambda v: pc.cast(pc.utf8_length(v), INT64),
    aliases=["len", "char_length", "character_length"],
)
text_function(
    "reverse",
    "(s) -> string",
    "Code points in the other order.",
    [STRING],
    STRING,
    lambda s: s[::-1],
    fast=_plain(pc.utf8_reverse),
)


@function(
    "strlen",
    FAMILY,
    "(s) -> long",
    "Number of bytes of text or binary.",
    args=(1, 1),
    aliases=["octet_length"],
)
def _strlen(args: Sequence[Node]) -> Node:
    if args[0].type != BINARY:
        args = [want(args[0], STRING, "strlen")]
    return Call(INT64, lambda v: pc.cast(pc.binary_length(v), INT64), args)


def _range_check(*positions: int) -> None:
    if any(abs(p) > POSITION_MAX for p in positions):
        raise EvalError("position out of range")


def substring(text: str, start: int, length: int | None = None) -> str:
    """SQL's: positions from 1, negative ones from the end, a negative length goes backwards."""
    _range_check(start, length or 0)
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    if length is None:
        return text[max(begin, 0) :]
    if start == 0:
        begin = -1
    low, high = (begin, begin + length) if length >= 0 else (begin + length, begin)
    return text[max(low, 0) : max(high, 0)]


def _substring_kernel(start: int, length: int | None = None) -> Kernel | None:
    if not 0 < start <= POSITION_MAX or (length is not None and not 0 <= length <= POSITION_MAX):
        return None
    stop = None if length is None else start - 1 + length
    return lambda v: pc.utf8_slice_codeunits(v, start - 1, stop)


text_function(
    "substring",
    "(s, start[, length]) -> string",
    "Part of a text; positions count from 1, negative ones from the end.",
    [STRING, INT64, INT64],
    STRING,
    substring,
    fast=_substring_kernel,
    optional=1,
    aliases=["substr"],
)


def left(text: str, count: int) -> str:
    _range_check(count)
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def right(text: str, count: int) -> str:
    _range_check(count)
    return text[max(len(text) - count, 0) :] if count >= 0 else text[-count:]


text_function(
    "left",
    "(s, n) -> string",
    "The first n code points; all but the last -n when n is negative.",
    [STRING, INT64],
    STRING,
    left,
    fast=lambda n: (lambda v: pc.utf8_slice_codeunits(v, 0, n)) if abs(n) <= POSITION_MAX else None,
)
text_function(
    "right",
    "(s, n) -> string",
    "The last n code points; all but the first -n when n is negative.",
    [STRING, INT64],
    STRING,
    right,
    fast=lambda n: (lambda v: pc.utf8_slice_codeunits(v, -n)) if n and abs(n) <= POSITION_MAX else None,
)

for _name, _python, _kernel, _where in (
    ("trim", str.strip, pc.utf8_trim, "both ends"),
    ("ltrim", str.lstrip, pc.utf8_ltrim, "the start"),
    ("rtrim", str.rstrip, pc.utf8_rtrim, "the end"),
):
    text_function(
        _name,
        "(s[, characters]) -> string",
        f"Without spaces, or without the given characters, at {_where}.",
        [STRING, STRING],
        STRING,
        _python,
        fast=lambda characters=" ", kernel=_kernel: (
            (lambda v: kernel(v, characters=characters)) if characters else None
        ),
        optional=1,
    )


def replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _replace_kernel(old: str, new: str) -> Kernel:
    if not old:
        return lambda v: v
    grows = max(len(new.encode()) - len(old.encode()), 0)

    def run(value: Value) -> Value:
        if grows:
            found = pc.count_substring(value, pattern=old)
            count = found.as_py() if isinstance(found, pa.Scalar) else pc.sum(found).as_py()
            limited(text_bytes(value) + (count or 0) * grows)
        return pc.replace_substring(value, pattern=old, replacement=new)

    return run


text_function(
    "replace",
    "(s, old, new) -> string",
    "Every occurrence of old replaced.",
    [STRING] * 3,
    STRING,
    replace,
    fast=_replace_kernel,
)


def repeat(text: str, count: int) -> str:
    limited(len(text) * max(count, 0))
    return text * max(count, 0)


def _repeat_kernel(count: int) -> Kernel:
    times = max(count, 0)

    def run(value: Value) -> Value:
        limited(text_bytes(value) * times)
        return pc.binary_repeat(value, min(times, RESULT_BYTES_MAX))

    return run


@function("repeat", FAMILY, "(s, n) -> string", "The text n times.", args=(2, 2))
def _repeat(args: Sequence[Node]) -> Node:
    args = [want(args[0], STRING, "repeat"), want(args[1], INT64, "repeat")]
    count = args[1].constant
    if count is not None and count.is_valid:
        return Call(STRING, _repeat_kernel(count.as_py()), args[:1])
    return Call(STRING, _repeat_rows, args)


@whole
def _repeat_rows(texts: pa.Array, counts: pa.Array) -> pa.Array:
    # NULL slots hold anything, and Arrow sizes its result by them: they become zero for the call.
    times = pc.max_element_wise(counts.fill_null(0), pa.scalar(0))
    sizes = numbers(times).astype(np.float64)
    lengths = pc.binary_length(texts).fill_null(0).to_numpy(zero_copy_only=False)
    limited(int(min(float((sizes * lengths).sum()), 2.0**62)))
    repeated = pc.binary_repeat(texts, pc.min_element_wise(times, pa.scalar(RESULT_BYTES_MAX)))
    return pc.if_else(pc.is_null(counts), pa.scalar(None, STRING), repeated)


def _pad(at_left: bool) -> Callable[[str, int, str], str]:
    def pad(text: str, count: int, padding: str) -> str:
        missing = count - len(text)
        if missing <= 0:
            return text[: max(count, 0)]
        if not padding:
            raise EvalError("padding with an empty text")
        limited(count)
        filler = (padding * (missing // len(padding) + 1))[:missing]
        return filler + text if at_left else text + filler

    return pad


def _pad_function(name: str, doc: str, at_left: bool) -> None:
    """Computed by distinct value, with the whole batch's size known before."""
    pad = _pad(at_left)

    def bind(args: Sequence[Node]) -> Node:
        args = [want(a, k, name) for a, k in zip(args, (STRING, INT64, STRING), strict=True)]

        @whole
        def run(texts: pa.Array, counts: pa.Array, paddings: pa.Array) -> pa.Array:
            widest = pc.max(counts).as_py() or 0
            limited(text_bytes(texts) + 4 * max(widest, 0) * len(texts))
            return _rows(texts, counts, paddings)

        _rows = row_wise(pad, STRING)
        return Call(STRING, run, args)

    function(name, FAMILY, "(s, n, padding) -> string", doc, args=(3, 3))(bind)


_pad_function("lpad", "Filled at the start, or cut, to n code points.", True)
_pad_function("rpad", "Filled at the end, or cut, to n code points.", False)


def _as_text(node: Node) -> Node:
    return cast(node, STRING)


@function(
    "concat",
    FAMILY,
    "(x, ...) -> string",
    "All arguments as text, one after the other; NULL counts as empty.",
    args=(1, None),
)
def _concat(args: Sequence[Node]) -> Node:
    empty = pa.scalar("")

    def run(*values: Value) -> Value:
        return pc.binary_join_element_wise(*values, empty, null_handling="replace", null_replacement="")

    return Call(STRING, run, [_as_text(a) for a in args])


@function(
    "concat_op",
    FAMILY,
    "(x, y) -> string",
    "x and y as one text; NULL if either is.",
    args=(2, 2),
    aliases=["||"],
)
def _concat_op(args: Sequence[Node]) -> Node:
    if BINARY in (args[0].type, args[1].type):
        if not all(a.type in (BINARY, NULL) for a in args):
            raise TypeClash(f"|| does not join {type_name(args[0].type)} and {type_name(args[1].type)}")
        args = [cast(a, BINARY) for a in args]
        return Call(BINARY, lambda x, y: pc.binary_join_element_wise(x, y, pa.scalar(b"")), args)
    return Call(
        STRING, lambda x, y: pc.binary_join_element_wise(x, y, pa.scalar("")), [_as_text(a) for a in args]
    )


@function(
    "concat_ws",
    FAMILY,
    "(separator, x, ...) -> string",
    "Texts joined by a separator, without NULLs.",
    args=(2, None),
)
def _concat_ws(args: Sequence[Node]) -> Node:
    separator = want(args[0], STRING, "concat_ws")

    @whole
    def run(separator: pa.Array, first: pa.Array, *others: pa.Array) -> pa.Array:
        # Arrow 26 leaves out a row all of whose values are skipped.
        nothing = first.is_null()
        for value in others:
            nothing = pc.and_(nothing, value.is_null())
        first = pc.if_else(nothing, pa.scalar(""), first)
        return pc.binary_join_element_wise(first, *others, separator, null_handling="skip")

    return Call(STRING, run, [separator, *(_as_text(a) for a in args[1:])])


def _chr(code: int) -> str:
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise EvalError(f"no code point {code}")
    return chr(code)


text_function("chr", "(n) -> string", "The code point of that number.", [INT64], STRING, _chr)
text_function(
    "ascii",
    "(s) -> int",
    "The number of the first code point; 0 for an empty text.",
    [STRING],
    INT32,
    lambda s: ord(s[0]) if s else 0,
)
text_function(
    "md5",
    "(s) -> string",
    "MD5 of the bytes, in hexadecimal.",
    [STRING],
    STRING,
    lambda s: hashlib.md5(s.encode(), usedforsecurity=False).hexdigest(),
)
text_function(
    "sha256",
    "(s) -> string",
    "SHA-256 of the bytes, in hexadecimal.",
    [STRING],
    STRING,
    lambda s: hashlib.sha256(s.encode()).hexdigest(),
)


def _translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for i, c in enumerate(old):
        table.setdefault(ord(c), new[i] if i < len(new) else None)
    return text.translate(table)


text_function(
    "translate",
    "(s, from, to) -> string",
    "Each character of `from` becomes the one at its place in `to`.",
    [STRING] * 3,
    STRING,
    _translate,
)
