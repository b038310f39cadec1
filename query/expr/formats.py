"""strftime and strptime, column by column: each directive of a format is a kernel, none reads a locale.

Formatting joins the texts of the directives. Parsing turns the format into one RE2 pattern whose groups
are the directives, and puts the numbers together on the calendar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import INT64, STRING, TIMESTAMP, TIMESTAMP_UTC
from query.expr import calendar
from query.expr.casts import cast
from query.expr.coerce import want
from query.expr.columns import Mask, Numbers, column_of, whole
from query.expr.errors import BadLiteral, EvalError, TypeClash, shown
from query.expr.nodes import Call, Kernel, Node, Try, Value
from query.expr.patterns import re2_quote
from query.expr.reading import MICROS_DAY
from query.expr.registry import function

FAMILY = "time"
#: A format longer than this is no format.
FORMAT_CHARS_MAX = 500
_SHORTHANDS = {"%c": "%Y-%m-%d %H:%M:%S", "%x": "%Y-%m-%d", "%X": "%H:%M:%S", "%T": "%H:%M:%S"}
_DAYS, _MONTHS = calendar.DAY_NAMES, calendar.MONTH_NAMES


def _pieces(text: str) -> list[str]:
    """A format as directives (`%Y`, `%-d`) and literal characters."""
    if not text or len(text) > FORMAT_CHARS_MAX:
        raise BadLiteral(f"a time format has 1 to {FORMAT_CHARS_MAX} characters")
    for short, long in _SHORTHANDS.items():
        text = text.replace("%%", "\0").replace(short, long).replace("\0", "%%")
    pieces: list[str] = []
    at = 0
    while at < len(text):
        size = 1
        if text[at] == "%":
            size = 3 if text[at + 1 : at + 2] == "-" else 2
        pieces.append(text[at : at + size])
        at += size
    return pieces


def _format_of(node: Node, what: str) -> list[str]:
    if node.constant is None or node.type != STRING or not node.constant.is_valid:
        raise TypeClash(f"{what} takes a constant format")
    return _pieces(node.constant.as_py())


def _padded(kernel: Kernel, width: int) -> Kernel:
    return lambda v: pc.utf8_lpad(pc.cast(pc.cast(kernel(v), INT64), STRING), width, padding="0")


def _named(kernel: Kernel, names: Sequence[str], first: int) -> Kernel:
    table = pa.array(names)
    return whole(lambda v: table.take(pc.subtract(pc.cast(kernel(v), INT64), pa.scalar(first))))


def _twelve(v: Value) -> Value:
    hour = pc.hour(v)
    late = pc.if_else(pc.greater(hour, pa.scalar(12)), pc.subtract(hour, pa.scalar(12)), hour)
    return pc.if_else(pc.equal(hour, pa.scalar(0)), pa.scalar(12, INT64), late)


def _micros_of_second(v: Value) -> Value:
    return pc.add(pc.multiply(pc.millisecond(v), pa.scalar(1000)), pc.microsecond(v))


def _short_year(v: Value) -> Value:
    year = pc.year(v)
    return pc.subtract(year, pc.multiply(pc.divide(year, pa.scalar(100)), pa.scalar(100)))


def _week(first_day: int) -> Kernel:
    """Weeks of the year from its first Sunday or Monday; days before it are in week 0."""

    def run(v: Value) -> Value:
        day = pc.day_of_week(v, count_from_zero=True, week_start=first_day)
        return pc.divide(pc.subtract(pc.add(pc.day_of_year(v), pa.scalar(6)), day), pa.scalar(7))

    return run


_SUNDAY_FIRST = calendar.DATE_PARTS["dow"]
#: Directive to kernel and number of digits.
_NUMBERS: dict[str, tuple[Kernel, int]] = {
    "%Y": (pc.year, 4),
    "%m": (pc.month, 2),
    "%d": (pc.day, 2),
    "%H": (pc.hour, 2),
    "%I": (_twelve, 2),
    "%M": (pc.minute, 2),
    "%S": (pc.second, 2),
    "%f": (_micros_of_second, 6),
    "%g": (pc.millisecond, 3),
    "%n": (lambda v: pc.multiply(_micros_of_second(v), pa.scalar(1000)), 9),
    "%j": (pc.day_of_year, 3),
    "%y": (_short_year, 2),
    "%w": (_SUNDAY_FIRST, 1),
    "%u": (calendar.DATE_PARTS["isodow"], 1),
    "%U": (_week(7), 2),
    "%W": (_week(1), 2),
    "%V": (pc.iso_week, 2),
    "%G": (pc.iso_year, 4),
}
_TEXTS: dict[str, Kernel] = {
    "%a": _named(_SUNDAY_FIRST, [d[:3] for d in _DAYS], 0),
    "%A": _named(_SUNDAY_FIRST, _DAYS, 0),
    "%b": _named(pc.month, [m[:3] for m in _MONTHS], 1),
    "%B": _named(pc.month, _MONTHS, 1),
    "%p": lambda v: pc.if_else(pc.less(pc.hour(v), pa.scalar(12)), pa.scalar("AM"), pa.scalar("PM")),
}
_FIXED = {"%%": "%", "%z": "+00", "%Z": ""}
_UNPADDED = {f"%-{d}": f"%{d}" for d in "mdHIMSjy"}


def _writer(piece: str) -> Kernel:
    if piece in _UNPADDED:
        kernel = _NUMBERS[_UNPADDED[piece]][0]
        return lambda v: pc.cast(pc.cast(kernel(v), INT64), STRING)
    if piece in _NUMBERS:
        return _padded(*_NUMBERS[piece])
    if piece in _TEXTS:
        return _TEXTS[piece]
    if piece.startswith("%") and piece not in _FIXED:
        raise BadLiteral(f"unknown directive {shown(piece)} in a time format")
    text = pa.scalar(_FIXED.get(piece, piece))
    return lambda v: text


@function(
    "strftime",
    FAMILY,
    '(x, "format") -> string',
    "A date or timestamp as text: %Y-%m-%d %H:%M:%S.%f ...",
    args=(2, 2),
)
def _strftime(args: Sequence[Node]) -> Node:
    if args[0].type == STRING and args[1].type != STRING:
        args = [args[1], args[0]]
    writers = [_writer(p) for p in _format_of(args[1], "strftime")]
    moment = (
        cast(args[0], TIMESTAMP) if args[0].type == TIMESTAMP_UTC else want(args[0], TIMESTAMP, "strftime")
    )
    empty = pa.scalar("")

    @whole
    def run(value: pa.Array) -> pa.Array:
        text = pc.binary_join_element_wise(*[w(value) for w in writers], empty)
        if isinstance(text, pa.Scalar):
            text = pa.repeat(text, len(value))
        return pc.if_else(pc.is_null(value), pa.scalar(None, STRING), text)

    return Call(STRING, run, [moment])


class _Directive(NamedTuple):
    pattern: str
    #: The field it sets, and how its text becomes a number.
    field: str
    low: int = 0
    high: int = 10**9


_READ: dict[str, _Directive] = {
    "%Y": _Directive(r"-?\d{1,6}", "year", -(10**6), 10**6),
    "%y": _Directive(r"\d{1,2}", "short_year", 0, 99),
    "%m": _Directive(r"\d{1,2}", "month", 1, 12),
    "%d": _Directive(r"\d{1,2}", "day", 1, 31),
    "%H": _Directive(r"\d{1,2}", "hour", 0, 23),
    "%I": _Directive(r"\d{1,2}", "hour12", 1, 12),
    "%M": _Directive(r"\d{1,2}", "minute", 0, 59),
    "%S": _Directive(r"\d{1,2}", "second", 0, 59),
    "%f": _Directive(r"\d{1,6}", "micros"),
    "%j": _Directive(r"\d{1,3}", "day_of_year", 1, 366),
    "%b": _Directive("(?i:" + "|".join(m[:3] for m in _MONTHS) + ")", "month_name"),
    "%B": _Directive("(?i:" + "|".join(_MONTHS) + ")", "month_name"),
    "%a": _Directive("(?i:" + "|".join(d[:3] for d in _DAYS) + ")", "ignored"),
    "%A": _Directive("(?i:" + "|".join(_DAYS) + ")", "ignored"),
    "%p": _Directive("(?i:am|pm)", "half"),
    "%z": _Directive(r"[+-]\d{2}(?::?\d{2})?|Z", "zone"),
}
#: Fields by which a number of fixed width ends, where digits follow without a separator.
_FIXED_WIDTH = {
    "%Y": r"\d{4}",
    "%m": r"\d{2}",
    "%d": r"\d{2}",
    "%H": r"\d{2}",
    "%M": r"\d{2}",
    "%S": r"\d{2}",
    "%y": r"\d{2}",
    "%j": r"\d{3}",
    "%I": r"\d{2}",
}


def _parser(pieces: Sequence[str]) -> tuple[str, list[str]]:
    """The RE2 pattern of a format, and the field of each group."""
    pattern, fields = r"\A[ \t\n\v\f\r]*", []
    pieces = [_UNPADDED.get(p, p) for p in pieces]
    for i, piece in enumerate(pieces):
        if piece in _READ:
            following = pieces[i + 1] if i + 1 < len(pieces) else ""
            abuts = following in _FIXED_WIDTH and piece in _FIXED_WIDTH
            body = _FIXED_WIDTH[piece] if abuts else _READ[piece].pattern
            fields.append(piece)
            pattern += f"(?P<g{len(fields)}>{body})"
        elif piece.startswith("%") and piece != "%%":
            raise BadLiteral(f"unknown directive {shown(piece)} in a time format")
        elif piece.isspace():
            pattern += r"[ \t\n\v\f\r]+"
        else:
            pattern += re2_quote(piece[-1])
    return pattern + r"[ \t\n\v\f\r]*\z", fields


@function(
    "strptime",
    FAMILY,
    '(s, "format")',
    "Text read as a timestamp; text of another form is a fault of its row.",
    args=(2, 2),
)
def _strptime(args: Sequence[Node]) -> Node:
    pattern, fields = _parser(_format_of(args[1], "strptime"))
    if len(set(fields)) != len(fields):
        raise BadLiteral("a directive occurs twice in the format")
    kind = TIMESTAMP_UTC if "%z" in fields else TIMESTAMP

    @whole
    def run(texts: pa.Array) -> pa.Array:
        null = pc.is_null(texts).to_numpy(zero_copy_only=False)
        matched = (
            pc.match_substring_regex(texts, pattern=pattern).fill_null(True).to_numpy(zero_copy_only=False)
        )
        if not matched.all():
            raise EvalError("text does not have the format")
        groups = pc.extract_regex(texts, pattern=pattern) if fields else None
        values = {f: _Group(pc.struct_field(groups, [i]), null) for i, f in enumerate(fields)}
        return column_of(_assemble(values, len(texts)), kind, null if null.any() else None)

    return Call(kind, run, [want(args[0], STRING, "strptime")])


@function(
    "try_strptime",
    FAMILY,
    '(s, "format")',
    "Text read as a timestamp; NULL for text of another form.",
    args=(2, 2),
)
def _try_strptime(args: Sequence[Node]) -> Node:
    return Try(_strptime(args))


class _Group:
    """The texts of one directive."""

    def __init__(self, texts: pa.Array, null: Mask) -> None:
        self.texts = texts
        self.null = null

    def integers(self, directive: _Directive) -> Numbers:
        values = pc.cast(
            pc.if_else(pa.array(self.null), pa.scalar(str(max(directive.low, 0))), self.texts), INT64
        )
        numbers: Numbers = values.to_numpy(zero_copy_only=False)
        if np.any((numbers < directive.low) | (numbers > directive.high)):
            raise EvalError("a part of the time is out of range")
        return numbers

    def micros(self) -> Numbers:
        """Digits after the point, as microseconds."""
        filled = pc.utf8_rpad(pc.if_else(pa.array(self.null), pa.scalar("0"), self.texts), 6, padding="0")
        numbers: Numbers = pc.cast(filled, INT64).to_numpy(zero_copy_only=False)
        return numbers

    def looked_up(self, names: Sequence[str]) -> Numbers:
        lowered = pc.utf8_lower(pc.utf8_slice_codeunits(self.texts, 0, 3))
        found = pc.index_in(lowered, value_set=pa.array([n[:3].lower() for n in names]))
        values: Numbers = found.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return values


def _assemble(groups: dict[str, _Group], rows: int) -> Numbers:
    """Microseconds since 1970; what the format does not say is 1900-01-01 00:00:00."""

    def number(piece: str, default: int) -> Numbers:
        return (
            groups[piece].integers(_READ[piece])
            if piece in groups
            else np.full(rows, default, dtype=np.int64)
        )

    year = number("%Y", 1900)
    if "%y" in groups:
        short = number("%y", 0)
        year = np.where(short < 69, short + 2000, short + 1900)
    month, day = number("%m", 1), number("%d", 1)
    for name in ("%b", "%B"):
        if name in groups:
            month = groups[name].looked_up(_MONTHS) + 1
    days = _days(year, month, day)
    if "%j" in groups:
        days = _days(year, np.ones_like(month), np.ones_like(day)) + number("%j", 1) - 1
    fraction = groups["%f"].micros() if "%f" in groups else np.zeros(rows, dtype=np.int64)
    seconds = (_hours(groups, number) * 60 + number("%M", 0)) * 60 + number("%S", 0)
    total: Numbers = days * MICROS_DAY + seconds * 1_000_000 + fraction
    return total - _offset(groups["%z"]) if "%z" in groups else total


def _hours(groups: dict[str, _Group], number: Callable[[str, int], Numbers]) -> Numbers:
    if "%I" not in groups:
        return number("%H", 0)
    hour = np.mod(number("%I", 12), 12)
    if "%p" in groups:
        late = pc.equal(pc.utf8_lower(groups["%p"].texts), pa.scalar("pm")).fill_null(False)
        hour = hour + 12 * late.to_numpy(zero_copy_only=False).astype(np.int64)
    return hour


def _days(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    months = (year - 1970) * 12 + month - 1
    first = calendar.month_start(months) // MICROS_DAY
    length = calendar.month_start(months + 1) // MICROS_DAY - first
    if np.any(day > length):
        raise EvalError("the month has no such day")
    if np.any(np.abs(year) > 200_000):
        raise EvalError("the year is out of range")
    return first + day - 1


def _offset(group: _Group) -> Numbers:
    """Microseconds east of UTC of texts such as +02:30."""

    def micros(text: str | None) -> int:
        if not text or text == "Z":
            return 0
        digits = text[1:].replace(":", "").ljust(4, "0")
        seconds = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        return (-seconds if text[0] == "-" else seconds) * 1_000_000

    return np.array([micros(t) for t in group.texts.to_pylist()], dtype=np.int64)
