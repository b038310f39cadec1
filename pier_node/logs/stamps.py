"""Texts of time to microseconds since 1970 UTC, a column at a time.

Layouts have fixed widths, so each is read by gathering its digits at known offsets. Invariant: no clock is
read here; a date without a year is placed by the reference the caller passes, and a time without a zone by
the caller's zone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs.block import Bytes, Mask, Positions

Micros = npt.NDArray[np.int64]

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
# A line may be stamped this far after the reference (clock skew, zones) before it must be of last year.
SKEW_US = DAY_US
# The earliest and latest year a log can speak of; int64 microseconds and Arrow hold both.
YEAR_MIN, YEAR_MAX = 1970, 2199

_MONTHS = (b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec")


def _month_table() -> npt.NDArray[np.int8]:
    """From the low five bits of three letters to the month, 0 for none; case folds away."""
    table = np.zeros(1 << 15, np.int8)
    for number, name in enumerate(_MONTHS, start=1):
        table[(name[0] & 31) << 10 | (name[1] & 31) << 5 | (name[2] & 31)] = number
    return table


_MONTH_OF = _month_table()
_MONTH_DAYS = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@dataclass(frozen=True, slots=True)
class Context:
    """What a line does not say itself. `reference_us`: a time no line is much later than (now, or the
    file's last change). `tz`: the zone of times without one, an IANA name or an offset like +02:00."""

    reference_us: int
    tz: str = "UTC"
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Stamps:
    """`us` where `good`; `end` is the position after the stamp; `zoned` where it named its zone."""

    us: Micros
    good: Mask
    end: Positions
    zoned: Mask


def days_from_civil(year: Micros, month: Micros, day: Micros) -> Micros:
    """Days since 1970-01-01 in the proleptic Gregorian calendar (Hinnant's algorithm)."""
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    days: Micros = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
    return days


def _is_leap(year: Micros) -> Mask:
    leap: Mask = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    return leap


def _number(data: Bytes, at: Positions, width: int, good: Mask) -> Micros:
    """The number of `width` digits at each position; clears `good` where a byte is no digit."""
    value = np.zeros(len(at), np.int64)
    for column in range(width):
        digit = data[at + column] - np.uint8(48)  # wraps round for bytes below '0'
        good &= digit <= 9
        value = value * 10 + digit
    return value


def _expect(data: Bytes, at: Positions, byte: str, good: Mask) -> None:
    good &= data[at] == ord(byte)


def _clock(data: Bytes, at: Positions, good: Mask) -> Micros:
    """HH:MM:SS as microseconds of the day."""
    hour, minute, second = (_number(data, at + offset, 2, good) for offset in (0, 3, 6))
    _expect(data, at + 2, ":", good)
    _expect(data, at + 5, ":", good)
    good &= (hour < 24) & (minute < 60) & (second <= 60)
    return ((hour * 60 + minute) * 60 + second) * SECOND_US


def _fraction(data: Bytes, at: Positions, limit: Positions) -> tuple[Micros, Positions]:
    """Up to nine digits after a dot or comma as microseconds (finer ones are cut), and where they end."""
    us = np.zeros(len(at), np.int64)
    end = at.copy()
    going: Mask = ((data[at] == ord(".")) | (data[at] == ord(","))) & (at < limit)
    if not going.any():
        return us, end
    scale = SECOND_US
    for column in range(1, 10):
        digit = data[at + column] - np.uint8(48)
        going &= (digit <= 9) & (at + column < limit)
        scale //= 10
        us += np.where(going, digit.astype(np.int64) * scale, 0)
        end = np.where(going, at + column + 1, end)
    return us, end


def _zone(data: Bytes, at: Positions, limit: Positions) -> tuple[Micros, Mask, Positions]:
    """Z, +HH:MM or +HHMM: offset in microseconds, whether there was one, and where it ends."""
    first = data[at]
    zulu = ((first == ord("Z")) | (first == ord("z"))) & (at < limit)
    signed: Mask = ((first == ord("+")) | (first == ord("-"))) & (at + 5 <= limit)
    hours = _number(data, at + 1, 2, signed)
    colon = data[at + 3] == ord(":")
    minutes = _number(data, at + 3 + colon, 2, signed)
    offset = (hours * 60 + minutes) * 60 * SECOND_US
    offset = np.where(signed, np.where(first == ord("-"), -offset, offset), 0)
    end = np.where(zulu, at + 1, np.where(signed, at + 5 + colon, at))
    return offset, zulu | signed, end


def _day_us(year: Micros, month: Micros, day: Micros, good: Mask) -> Micros:
    good &= (year >= YEAR_MIN) & (year <= YEAR_MAX) & (month >= 1) & (month <= 12) & (day >= 1)
    month = np.where(good, month, 1)
    good &= (day <= _MONTH_DAYS[month]) & ((month != 2) | (day != 29) | _is_leap(year))
    return days_from_civil(year, month, day) * DAY_US


def local_to_utc(us: Micros, tz: str) -> Micros:
    """Wall-clock microseconds in `tz` to UTC; of two readings in autumn the earlier."""
    if tz == "UTC" or not len(us):
        return us
    wall = pa.array(us, pa.timestamp("us"))
    utc = pc.assume_timezone(wall, tz, ambiguous="earliest", nonexistent="earliest")
    return np.asarray(utc.cast(pa.int64()))


def check_zone(tz: str) -> None:
    """A zone that does not exist is the caller's error, told before any line is read."""
    try:
        local_to_utc(np.zeros(1, np.int64), tz)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise ValueError(
            f"no time zone {tz!r}: use a name like Europe/Berlin or an offset like +02:00"
        ) from error


def iso(data: Bytes, at: Positions, limit: Positions, context: Context, separator: str = "-") -> Stamps:
    """YYYY-MM-DD HH:MM:SS[.frac][zone], with T or a space in the middle; no zone: the context's."""
    good: Mask = limit - at >= 19
    at = np.where(good, at, 0)
    year, month, day = (
        _number(data, at, 4, good),
        _number(data, at + 5, 2, good),
        _number(data, at + 8, 2, good),
    )
    _expect(data, at + 4, separator, good)
    _expect(data, at + 7, separator, good)
    good &= (data[at + 10] == ord("T")) | (data[at + 10] == ord(" "))
    us = _clock(data, at + 11, good) + _day_us(year, month, day, good)
    fraction, end = _fraction(data, at + 19, limit)
    offset, zoned, end = _zone(data, end, limit)
    us = us + fraction
    us = us - offset if zoned.all() else np.where(zoned, us - offset, local_to_utc(us, context.tz))
    return Stamps(us, good, end, zoned)


def resolve_year(month: Micros, day: Micros, clock_us: Micros, context: Context) -> Micros:
    """Wall-clock microseconds of a date without a year: its latest occurrence not after reference + skew."""
    limit = context.reference_us + SKEW_US
    year = int(np.datetime64(limit, "us").astype("datetime64[Y]").astype(np.int64)) + 1970
    years = np.full(len(month), year, np.int64)
    at = days_from_civil(years, month, day) * DAY_US + clock_us
    # The reference is UTC and `at` is wall clock: the skew covers the difference.
    late = at > limit
    leap_day = np.flatnonzero((month == 2) & (day == 29))
    if not late.any() and not len(leap_day):
        return at
    years -= late
    # Eight years back holds a leap year even around 1900 or 2100.
    for _ in range(8):
        years[leap_day] -= ~_is_leap(years[leap_day])
    return days_from_civil(years, month, day) * DAY_US + clock_us


def syslog(data: Bytes, at: Positions, limit: Positions, context: Context) -> Stamps:
    """`Mon dd HH:MM:SS` (RFC 3164), `Mon dd YYYY HH:MM:SS` (Cisco), both with a fraction or without."""
    good: Mask = limit - at >= 15
    at = np.where(good, at, 0)
    letters = [data[at + column].astype(np.int64) & 31 for column in range(3)]
    month = _MONTH_OF[letters[0] << 10 | letters[1] << 5 | letters[2]].astype(np.int64)
    for column in range(3):
        good &= data[at + column] >= 65
    _expect(data, at + 3, " ", good)
    tens = data[at + 4]
    ones = data[at + 5].astype(np.int64) - 48
    day = np.where(tens == ord(" "), 0, tens.astype(np.int64) - 48) * 10 + ones
    good &= (tens == ord(" ")) | ((tens >= 48) & (tens <= 51))
    good &= (ones >= 0) & (ones <= 9) & (month >= 1) & (day >= 1)
    good &= day <= _MONTH_DAYS[month]
    _expect(data, at + 6, " ", good)
    with_year = good & (data[at + 11] == ord(" ")) & (limit - at >= 20)
    clock_at = at + 7 + 5 * with_year
    clock_us = _clock(data, clock_at, good)
    month, day = np.where(good, month, 1), np.where(good, day, 1)
    us = resolve_year(month, day, clock_us, context)
    if with_year.any():
        years = np.where(with_year, _number(data, at + 7, 4, with_year), 1972)
        dated = _day_us(years, month, day, with_year) + clock_us
        us = np.where(data[at + 11] == ord(" "), dated, us)
        good &= with_year | (data[at + 11] != ord(" "))
    fraction, end = _fraction(data, clock_at + 8, limit)
    return Stamps(local_to_utc(us + fraction, context.tz), good, end, np.zeros(len(at), np.bool_))


def apache(data: Bytes, at: Positions, limit: Positions) -> Stamps:
    """`20/Jun/2022:13:09:14 +0200`, as pve-firewall writes it."""
    good: Mask = limit - at >= 26
    at = np.where(good, at, 0)
    letters = [data[at + 3 + column].astype(np.int64) & 31 for column in range(3)]
    month = _MONTH_OF[letters[0] << 10 | letters[1] << 5 | letters[2]].astype(np.int64)
    day, year = _number(data, at, 2, good), _number(data, at + 7, 4, good)
    for column in (2, 6):
        _expect(data, at + column, "/", good)
    _expect(data, at + 11, ":", good)
    _expect(data, at + 20, " ", good)
    us = _clock(data, at + 12, good) + _day_us(year, month, day, good)
    offset, zoned, end = _zone(data, at + 21, limit)
    return Stamps(us - offset, good & zoned, end, zoned)


def slashed(data: Bytes, at: Positions, limit: Positions, context: Context) -> Stamps:
    """`MM/DD[/YY[YY]]-HH:MM:SS.ffffff`, as Snort and Suricata write it."""
    good: Mask = limit - at >= 14
    at = np.where(good, at, 0)
    month, day = _number(data, at, 2, good), _number(data, at + 3, 2, good)
    _expect(data, at + 2, "/", good)
    yearless = data[at + 5] == ord("-")
    short = (data[at + 5] == ord("/")) & (data[at + 8] == ord("-"))
    long = (data[at + 5] == ord("/")) & (data[at + 10] == ord("-"))
    good &= (yearless | short | long) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    clock_at = at + np.select([short, long], [9, 11], 6)
    clock_us = _clock(data, clock_at, good)
    ignored = np.ones(len(at), np.bool_)
    year = np.where(long, _number(data, at + 6, 4, ignored), 2000 + _number(data, at + 6, 2, ignored.copy()))
    valid = good.copy()
    dated = _day_us(np.where(yearless, 1972, year), month, day, valid) + clock_us
    good &= valid
    month, day = np.where(good, month, 1), np.where(good, day, 1)
    us = np.where(yearless, resolve_year(month, day, clock_us, context), dated)
    fraction, end = _fraction(data, clock_at + 8, limit)
    return Stamps(local_to_utc(us + fraction, context.tz), good, end, np.zeros(len(at), np.bool_))


def epoch(data: Bytes, at: Positions, limit: Positions) -> Stamps:
    """`1379288667[.706265]` seconds since 1970."""
    good: Mask = limit > at
    at = np.where(good, at, 0)
    seconds = np.zeros(len(at), np.int64)
    end = at.copy()
    going = good.copy()
    for column in range(11):
        digit = data[at + column] - np.uint8(48)
        going &= (digit <= 9) & (at + column < limit)
        seconds = np.where(going, seconds * 10 + digit, seconds)
        end += going
    good &= (end > at) & (end - at <= 10)
    fraction, end = _fraction(data, end, limit)
    return Stamps(seconds * SECOND_US + fraction, good & (end == limit), end, np.ones(len(at), np.bool_))
