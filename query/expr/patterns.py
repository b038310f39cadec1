"""Searching in text: LIKE, regular expressions (RE2: linear time, so a hostile pattern cannot stall a node),
positions and parts.

A pattern is usually a constant and becomes one kernel over the column. Where it is a column, rows are
grouped by pattern and each group takes that kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import BOOL, INT64, STRING
from query.expr.coerce import want
from query.expr.columns import map_unique, whole
from query.expr.errors import BadLiteral, EvalError, shown
from query.expr.nodes import Call, Kernel, Node, Value
from query.expr.registry import function
from query.expr.texts import limited, substring, text_bytes, text_function

FAMILY = "pattern"

Factory = Callable[..., Kernel]


def pattern_function(
    name: str,
    signature: str,
    doc: str,
    result: pa.DataType,
    factory: Factory,
    takes: Sequence[pa.DataType],
    *,
    optional: int = 0,
    aliases: Sequence[str] = (),
) -> None:
    """Registers a function of a text and arguments from which `factory` makes a kernel."""

    def bind(args: Sequence[Node]) -> Node:
        args = [want(a, k, name) for a, k in zip(args, takes, strict=False)]
        constants = [a.constant for a in args[1:]]
        if any(c is None or not c.is_valid for c in constants):
            return Call(result, _grouped(factory, result), args)
        values = [c.as_py() for c in constants if c is not None]
        try:
            kernel = factory(*values)
            kernel(pa.array([""]))
        except (pa.lib.ArrowException, EvalError) as error:
            raise BadLiteral(f"{name}: {error}") from None
        return Call(result, kernel, args[:1])

    function(name, FAMILY, signature, doc, args=(len(takes) - optional, len(takes)), aliases=aliases)(bind)


def _grouped(factory: Factory, result: pa.DataType) -> Kernel:
    """One kernel for each distinct combination of the arguments after the first."""

    @whole
    def run(texts: pa.Array, *arguments: pa.Array) -> pa.Array:
        groups: dict[tuple[object, ...], list[int]] = {}
        for row, values in enumerate(zip(*[a.to_pylist() for a in arguments], strict=True)):
            if None not in values:
                groups.setdefault(values, []).append(row)
        order = np.full(len(texts), -1, dtype=np.int64)
        pieces = [pa.nulls(0, result)]
        at = 0
        for values, rows in groups.items():
            pieces.append(factory(*values)(texts.take(pa.array(rows))))
            order[rows] = np.arange(at, at + len(rows))
            at += len(rows)
        return pa.concat_arrays(pieces).take(pa.array(order, mask=order < 0))

    return run


def like(pattern: str, escape: str = "") -> Kernel:
    """LIKE as the cheapest kernel that does it: equality, prefix, suffix, substring, else RE2."""
    parts = _like_parts(pattern, escape)
    if "_" not in parts:
        words = [p for p in parts if p]
        shape = "".join("%" if p == "%" else "w" for p in parts)
        text = words[0][1:] if shape == "w" else ""
        if shape in ("", "w"):
            return lambda v: pc.equal(v, pa.scalar(text))
        found = next((p[1:] for p in parts if p != "%"), "")
        if shape == "w%":
            return lambda v: pc.starts_with(v, pattern=found)
        if shape == "%w":
            return lambda v: pc.ends_with(v, pattern=found)
        if shape == "%w%":
            return lambda v: pc.match_substring(v, pattern=found)
    expression = "".join({"%": ".*", "_": "."}.get(p) or re2_quote(p[1:]) for p in parts)
    return lambda v: pc.match_substring_regex(v, pattern=rf"(?s)\A{expression}\z")


def _like_parts(pattern: str, escape: str) -> list[str]:
    """`%`, `_`, and literal runs marked by a leading `=`; runs of % are one."""
    if len(escape) > 1:
        raise EvalError("LIKE takes one escape character")
    parts: list[str] = []
    literal: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            following = next(letters, None)
            if following is None:
                raise EvalError("LIKE pattern ends with its escape character")
            literal.append(following)
            continue
        if letter not in "%_":
            literal.append(letter)
            continue
        if literal:
            parts.append("=" + "".join(literal))
            literal = []
        if letter == "_" or not parts or parts[-1] != "%":
            parts.append(letter)
    if literal:
        parts.append("=" + "".join(literal))
    return parts


def re2_quote(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_\u0080-\U0010ffff]", lambda m: f"\\x{{{ord(m[0]):x}}}", text)


def _ilike(pattern: str, escape: str = "") -> Kernel:
    lowered = pc.utf8_lower(pa.scalar(pattern)).as_py()
    kernel = like(lowered, pc.utf8_lower(pa.scalar(escape)).as_py())
    return lambda v: kernel(pc.utf8_lower(v))


def _negated(factory: Factory) -> Factory:
    def make(*values: str) -> Kernel:
        kernel = factory(*values)
        return lambda v: pc.invert(kernel(v))

    return make


_LIKE = "(s, pattern[, escape]) -> bool"
pattern_function(
    "like",
    _LIKE,
    "% stands for any text, _ for one code point.",
    BOOL,
    like,
    [STRING] * 3,
    optional=1,
    aliases=["~~"],
)
pattern_function(
    "ilike", _LIKE, "LIKE without regard to case.", BOOL, _ilike, [STRING] * 3, optional=1, aliases=["~~*"]
)
pattern_function(
    "not_like", _LIKE, "Not LIKE.", BOOL, _negated(like), [STRING] * 3, optional=1, aliases=["!~~"]
)
pattern_function(
    "not_ilike", _LIKE, "Not ILIKE.", BOOL, _negated(_ilike), [STRING] * 3, optional=1, aliases=["!~~*"]
)

_TWO = "(s, part) -> bool"
pattern_function(
    "contains",
    _TWO,
    "part occurs in s.",
    BOOL,
    lambda p: lambda v: pc.match_substring(v, pattern=p),
    [STRING] * 2,
)
pattern_function(
    "starts_with",
    _TWO,
    "s begins with part.",
    BOOL,
    lambda p: lambda v: pc.starts_with(v, pattern=p),
    [STRING] * 2,
    aliases=["prefix", "^@"],
)
pattern_function(
    "ends_with",
    _TWO,
    "s ends with part.",
    BOOL,
    lambda p: lambda v: pc.ends_with(v, pattern=p),
    [STRING] * 2,
    aliases=["suffix"],
)


def position(text: str, part: str) -> int:
    return text.find(part) + 1


def _position_kernel(part: str) -> Kernel:
    one = pa.scalar(1, INT64)

    @whole
    def run(texts: pa.Array) -> pa.Array:
        if pc.all(pc.string_is_ascii(texts)).as_py() is not False:
            return pc.add(pc.cast(pc.find_substring(texts, pattern=part), INT64), one)
        return map_unique(texts, lambda s: position(s, part), INT64)

    return run


text_function(
    "strpos",
    "(s, part) -> long",
    "Where part first occurs, counted from 1; 0 if it does not.",
    [STRING, STRING],
    INT64,
    position,
    fast=_position_kernel,
    aliases=["instr", "position"],
    family=FAMILY,
)

_FLAGS = {"c": "", "i": "i", "s": "s", "m": "", "n": "", "p": "", "g": "", "l": ""}


def _flagged(pattern: str, flags: str, allowed: str = "cisnmpl") -> str:
    """A pattern with DuckDB's options: i ignores case, s lets the dot match a newline, l takes it literally."""
    unknown = [f for f in flags if f not in allowed]
    if unknown:
        raise EvalError(f"unknown regular expression option {shown(unknown[0])}")
    if "l" in flags:
        pattern = re2_quote(pattern)
    inline = "".join(dict.fromkeys(_FLAGS[f] for f in flags))
    return f"(?{inline}){pattern}" if inline else pattern


def _matches(pattern: str, flags: str = "") -> Kernel:
    expression = _flagged(pattern, flags)
    return lambda v: pc.match_substring_regex(v, pattern=expression)


def _full_match(pattern: str, flags: str = "") -> Kernel:
    expression = _flagged(pattern, flags)
    return lambda v: pc.match_substring_regex(v, pattern=rf"\A(?:{expression})\z")


_REGEX = "(s, pattern[, options]) -> bool"
pattern_function(
    "regexp_match",
    _REGEX,
    "The pattern occurs in s (RE2 syntax).",
    BOOL,
    _matches,
    [STRING] * 3,
    optional=1,
    aliases=["regexp_matches", "rlike", "regexp"],
)
pattern_function(
    "regexp_full_match",
    _REGEX,
    "The pattern matches the whole of s.",
    BOOL,
    _full_match,
    [STRING] * 3,
    optional=1,
    aliases=["~"],
)


def _regexp_replace(pattern: str, replacement: str, flags: str = "") -> Kernel:
    expression = _flagged(pattern, flags, allowed="cisnmplg")
    most = None if "g" in flags else 1
    size = len(replacement.encode())

    def run(value: Value) -> Value:
        rows = 1 if isinstance(value, pa.Scalar) else len(value)
        text = text_bytes(value)
        # A pattern may match the empty text between any two bytes, and a group may repeat the whole.
        limited(
            text + ((text + rows) * size if most is None else rows * size + text * replacement.count("\\"))
        )
        return pc.replace_substring_regex(
            value, pattern=expression, replacement=replacement, max_replacements=most
        )

    return run


pattern_function(
    "regexp_replace",
    "(s, pattern, replacement[, options]) -> string",
    r"The first match replaced, every one with option g; \1 is the first group.",
    STRING,
    _regexp_replace,
    [STRING] * 4,
    optional=1,
)


def _regexp_extract(pattern: str, group: int = 0, flags: str = "") -> Kernel:
    named, count = name_groups(_flagged(pattern, flags))
    if group < 0:
        raise EvalError("no group of a negative number")
    if group > count:
        return lambda v: pc.if_else(pc.is_null(v), pa.scalar(None, STRING), pa.scalar(""))

    @whole
    def run(texts: pa.Array) -> pa.Array:
        found = pc.struct_field(pc.extract_regex(texts, pattern=f"(?P<g0>{named})"), [group])
        return pc.if_else(pc.is_null(texts), pa.scalar(None, STRING), pc.coalesce(found, pa.scalar("")))

    return run


_GROUP = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\]\\])*\]|\((?:\?P?<\w+>|(?!\?))", re.DOTALL
)


def name_groups(pattern: str) -> tuple[str, int]:
    """The pattern with every capturing group named g1, g2, ...: Arrow extracts named groups only."""
    count = 0

    def rename(found: re.Match[str]) -> str:
        nonlocal count
        if not found[0].startswith("("):
            return found[0]
        count += 1
        return f"(?P<g{count}>"

    return _GROUP.sub(rename, pattern), count


pattern_function(
    "regexp_extract",
    "(s, pattern[, group[, options]]) -> string",
    "The first match, or one of its groups; empty if there is none.",
    STRING,
    _regexp_extract,
    [STRING, STRING, INT64, STRING],
    optional=2,
)


def _split_part(separator: str, index: int) -> Kernel:
    if not separator:
        return whole(
            lambda texts: map_unique(texts, lambda s: substring(s, index, 1) if index else "", STRING)
        )
    empty = pa.scalar("")

    @whole
    def run(texts: pa.Array) -> pa.Array:
        pieces = pc.split_pattern(texts, pattern=separator)
        starts = pieces.offsets.to_numpy()[:-1].astype(np.int64)
        counts = pc.list_value_length(pieces).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        place = index - 1 if index > 0 else counts + index
        outside = (place < 0) | (place >= counts) | (index == 0)
        found = pieces.values.take(pa.array(starts + place, mask=outside))
        return pc.if_else(pc.is_null(texts), pa.scalar(None, STRING), pc.coalesce(found, empty))

    return run


pattern_function(
    "split_part",
    "(s, separator, n) -> string",
    "The n-th piece between separators, from the end when n is negative; empty if there is none.",
    STRING,
    _split_part,
    [STRING, STRING, INT64],
)
