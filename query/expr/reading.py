"""Text to values as DuckDB reads it: numbers with spaces, underscores and exponents, dates, times, intervals.

Literals of a query and strings of a column both pass through here (columns only where Arrow's own, faster
and narrower, parser gave up). Every function returns a value that Arrow takes for the type, or raises
EvalError; none is quadratic or unbounded in its input.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP as HALF_AWAY
from decimal import Context, Decimal, InvalidOperation
from zoneinfo import ZoneInfo

import pyarrow as pa

from query.expr.errors import EvalError, shown

#: Longer texts are no numbers or times; the limit keeps big-integer parsing from being quadratic.
TEXT_CHARS_MAX = 1_000
#: An exponent beyond this overflows every type we have.
EXPONENT_MAX = 1_000

_SPACE = " \t\n\v\f\r"
_INTEGER = re.compile(r"[+-]?\d+(?:_\d+)*\Z", re.ASCII)
_HEX = re.compile(r"0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)*\Z")
_BITS = re.compile(r"0[bB][01]+(?:_[01]+)*\Z")
_REAL = re.compile(r"[+-]?(?:\d+(?:_\d+)*\.?(?:\d+(?:_\d+)*)?|\.\d+(?:_\d+)*)(?:[eE][+-]?\d+)?\Z", re.ASCII)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity|nan)\Z", re.IGNORECASE)
_TRUE, _FALSE = frozenset({"true", "t", "yes", "y", "1"}), frozenset({"false", "f", "no", "n", "0"})
_WIDE = Context(prec=100, Emax=10**6, Emin=-(10**6))


def _fail(text: str, what: str) -> EvalError:
    return EvalError(f"{shown(text)} is not {what}")


def _tidy(text: str, what: str) -> str:
    if len(text) > TEXT_CHARS_MAX:
        raise _fail(text, what)
    return text.strip(_SPACE)


def read_integer(text: str) -> int:
    """Also `10.5` (11: halves away from zero), `1e3`, `1_000`, `0x1F`."""
    tidy = _tidy(text, "an integer")
    if _INTEGER.match(tidy):
        return int(tidy)
    if _HEX.match(tidy) or _BITS.match(tidy):
        return int(tidy, 0)
    if tidy.lower().endswith(("inf", "infinity", "nan")):
        raise _fail(text, "an integer")
    return int(read_decimal(text, 0))


def read_decimal(text: str, scale: int) -> Decimal:
    """A decimal rounded to `scale` digits, halves away from zero."""
    tidy = _tidy(text, "a number")
    if not _REAL.match(tidy):
        raise _fail(text, "a number")
    value = Decimal(tidy.replace("_", ""))
    if value and abs(value.adjusted()) > EXPONENT_MAX:
        if value.adjusted() > 0:
            raise _fail(text, "a number in range")
        value = Decimal(0)
    try:
        return value.quantize(Decimal(1).scaleb(-scale), HALF_AWAY, _WIDE)
    except InvalidOperation:
        raise _fail(text, "a number in range") from None


def read_double(text: str) -> float:
    tidy = _tidy(text, "a number")
    if _REAL.match(tidy) or _SPECIAL.match(tidy):
        return float(tidy.replace("_", ""))
    raise _fail(text, "a number")


def read_bool(text: str) -> bool:
    lower = text.lower()
    if lower in _TRUE:
        return True
    if lower in _FALSE:
        return False
    raise _fail(text, "a boolean")


_DATE = re.compile(r"(-?\d{1,6})([-/ \\])(\d{1,2})\2(\d{1,2})", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9})\d*)?)?", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?\Z", re.ASCII)
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+\-/]{0,63}\Z")
_EPOCH_DAY = date(1970, 1, 1).toordinal()
MICROS_DAY = 86_400_000_000


def _date_days(found: re.Match[str], text: str) -> int:
    try:
        return date(int(found[1]), int(found[3]), int(found[4])).toordinal() - _EPOCH_DAY
    except (ValueError, OverflowError):
        raise _fail(text, "a date") from None


def _time_micros(found: re.Match[str], text: str, what: str) -> int:
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    micros = int((found[4] or "").ljust(6, "0")[:6])
    whole_day = hour == 24 and not (minute or second or micros)
    if (hour > 23 and not whole_day) or minute > 59 or second > 59:
        raise _fail(text, what)
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros


def read_date(text: str) -> int:
    """Days since 1970; a time of day after the date is read and dropped."""
    tidy = _tidy(text, "a date")
    found = _DATE.match(tidy)
    if found is None:
        if tidy.lower() == "epoch":
            return 0
        raise _fail(text, "a date")
    if found.end() != len(tidy):
        _moment(tidy, text, "a date")
    return _date_days(found, text)


def read_time(text: str) -> int:
    """Microseconds since midnight; a date before the time is read and dropped."""
    tidy = _tidy(text, "a time")
    found = _TIME.match(tidy)
    if found is None:
        return _moment(_left_tidy(text, "a time"), text, "a time")[0] % MICROS_DAY
    if found.end() != len(tidy) and not _OFFSET.match(tidy, found.end()):
        raise _fail(text, "a time")
    return _time_micros(found, text, "a time")


def _left_tidy(text: str, what: str) -> str:
    """Space after a date alone is an error to DuckDB, so it is kept where that matters."""
    _tidy(text, what)
    return text.lstrip(_SPACE)


def read_timestamp(text: str) -> int:
    """Microseconds since 1970 of the clock time; an offset is read and dropped, as DuckDB does."""
    return _moment(_left_tidy(text, "a timestamp"), text, "a timestamp")[0]


def read_instant(text: str) -> int:
    """Microseconds since 1970, UTC; a text without offset is UTC."""
    micros, offset = _moment(_left_tidy(text, "a timestamp"), text, "a timestamp")
    return micros - offset


def _moment(tidy: str, text: str, what: str) -> tuple[int, int]:
    """Clock time and offset from UTC, both in microseconds."""
    if tidy.rstrip(_SPACE).lower() == "epoch":
        return 0, 0
    found = _DATE.match(tidy)
    if found is None:
        raise _fail(text, what)
    micros = _date_days(found, text) * MICROS_DAY
    rest = tidy[found.end() :]
    if not rest:
        return micros, 0
    clock = _TIME.match(rest[1:].lstrip(" ")) if rest[0] in "T \t" else None
    if clock is None:
        raise _fail(text, what)
    micros += _time_micros(clock, text, what)
    return micros, _zone_micros(clock.string[clock.end() :].strip(_SPACE), micros, text, what)


def _zone_micros(zone: str, micros: int, text: str, what: str) -> int:
    if zone in ("", "Z", "z") or zone.upper() == "UTC":
        return 0
    found = _OFFSET.match(zone)
    if found:
        seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60 + int(found[4] or 0)
        return (-seconds if found[1] == "-" else seconds) * 1_000_000
    if _ZONE.match(zone):
        try:
            local = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
            offset = local.replace(tzinfo=ZoneInfo(zone)).utcoffset()
        except (KeyError, ValueError, OverflowError, OSError):
            raise _fail(text, what) from None
        return 0 if offset is None else int(offset.total_seconds()) * 1_000_000
    raise _fail(text, what)


_MONTHS = {"month": 1, "mon": 1, "quarter": 3, "year": 12, "yr": 12, "y": 12, "decade": 120, "century": 1200}
_MONTHS |= {"centurie": 1200, "millennium": 12_000, "millennia": 12_000, "decad": 120, "c": 1200}
_DAYS = {"day": 1, "d": 1, "week": 7, "w": 7}
_MICROS = {
    "hour": 3_600_000_000,
    "h": 3_600_000_000,
    "hr": 3_600_000_000,
    "minute": 60_000_000,
    "m": 60_000_000,
}
_MICROS |= {"min": 60_000_000, "second": 1_000_000, "s": 1_000_000, "sec": 1_000_000, "": 1_000_000}
_MICROS |= {"millisecond": 1_000, "ms": 1_000, "msec": 1_000, "microsecond": 1, "us": 1, "usec": 1}
_PART = re.compile(
    r"\s*(?:(?P<sign>[+-]?)(?P<h>\d{1,9}):(?P<m>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<f>\d{1,9}))?)?"
    r"|(?P<n>[+-]?\d{1,18}(?:\.\d{1,9})?)\s*(?P<unit>[A-Za-z]{0,12}))",
    re.ASCII,
)


def read_interval(text: str) -> pa.MonthDayNano:
    """`1 year -2 days 03:04:05.5`, `90 minutes`, `1 week ago`."""
    tidy = _tidy(text, "an interval").lower()
    backwards = tidy.endswith(" ago")
    rest = tidy[:-4] if backwards else tidy
    months = days = micros = 0
    at = 0
    while at < len(rest):
        found = _PART.match(rest, at)
        if found is None or found.end() == at:
            raise _fail(text, "an interval")
        at = found.end()
        more = _part(found, text)
        months, days, micros = months + more[0], days + more[1], micros + more[2]
    if at == 0:
        raise _fail(text, "an interval")
    if backwards:
        months, days, micros = -months, -days, -micros
    return interval(months, days, micros)


def _part(found: re.Match[str], text: str) -> tuple[int, int, int]:
    if found["h"] is not None:
        seconds = (int(found["h"]) * 60 + int(found["m"])) * 60 + int(found["s"] or 0)
        micros = seconds * 1_000_000 + int((found["f"] or "").ljust(6, "0")[:6])
        return 0, 0, -micros if found["sign"] == "-" else micros
    amount, unit = Decimal(found["n"]), found["unit"]
    unit = unit[:-1] if unit.endswith("s") and len(unit) > 1 and unit not in _MICROS else unit
    if unit in _MONTHS:
        months = amount * _MONTHS[unit]
        days = (months % 1) * 30
        return int(months), int(days), int((days % 1) * MICROS_DAY)
    if unit in _DAYS:
        days = amount * _DAYS[unit]
        return 0, int(days), int((days % 1) * MICROS_DAY)
    if unit in _MICROS:
        return 0, 0, int(amount * _MICROS[unit])
    raise _fail(text, f"an interval: unknown unit {shown(unit)}")


def interval(months: int, days: int, micros: int) -> pa.MonthDayNano:
    """An interval within Arrow's range (292 years of time of day, 32 bits of months and days)."""
    if max(abs(months), abs(days)) > 2**31 - 1 or abs(micros) > (2**63 - 1) // 1000:
        raise EvalError("interval out of range")
    return pa.MonthDayNano([months, days, micros * 1000])


_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")


def read_binary(text: str) -> bytes:
    r"""ASCII as it is, other bytes as `\xAA`."""
    plain = _ESCAPE.sub("", text)
    if "\\" in plain or not plain.isascii():
        raise _fail(text, "binary: write other bytes as \\xAA")
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)), text).encode("latin-1")
