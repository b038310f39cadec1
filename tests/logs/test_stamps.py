"""Times: every layout against datetime, years across New Year, zones."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pier_node.logs import stamps
from pier_node.logs.block import block_of
from tests.logs.events import parse

DAY = datetime.timedelta(days=1)
MOMENTS = st.datetimes(
    datetime.datetime(1971, 1, 1), datetime.datetime(2198, 12, 31), timezones=st.just(datetime.UTC)
)


def micros(moment: datetime.datetime) -> int:
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)


def read(layout: str, text: str, reference: datetime.datetime, tz: str = "UTC") -> int | None:
    block = block_of(text.encode() + b"\n")
    context = stamps.Context(micros(reference), tz)
    function = getattr(stamps, layout)
    extra = () if layout in ("apache", "epoch") else (context,)
    found = function(block.data, block.starts, block.ends, *extra)
    return int(found.us[0]) if found.good[0] else None


@settings(max_examples=50, deadline=None)
@given(moment=MOMENTS)
def test_layouts_with_a_year_read_what_datetime_writes(moment: datetime.datetime) -> None:
    whole = micros(moment.replace(microsecond=0))
    assert read("iso", moment.isoformat(timespec="microseconds"), moment) == micros(moment)
    assert read("iso", moment.strftime("%Y-%m-%d %H:%M:%S"), moment) == whole
    assert read("syslog", moment.strftime("%b %d %Y %H:%M:%S"), moment) == whole
    assert read("apache", moment.strftime("%d/%b/%Y:%H:%M:%S +0000"), moment) == whole
    assert read("slashed", moment.strftime("%m/%d/%Y-%H:%M:%S.%f"), moment) == micros(moment)
    assert read("epoch", f"{whole // 10**6}.{moment.microsecond:06d}", moment) == micros(moment)


@settings(max_examples=60, deadline=None)
@given(reference=MOMENTS, age=st.timedeltas(datetime.timedelta(0), 365 * DAY))
def test_a_date_without_a_year_is_its_latest_before_the_reference(
    reference: datetime.datetime, age: datetime.timedelta
) -> None:
    moment = (reference - age).replace(microsecond=0)
    if moment.year < 1972:
        return
    text = moment.strftime("%b %d %H:%M:%S")
    got = read("syslog", text, reference)
    assert got is not None
    assert got <= micros(reference + DAY)
    # Within the year before the reference the date is unambiguous, but for the day of skew.
    if age < 363 * DAY:
        assert got == micros(moment)
    assert read("slashed", moment.strftime("%m/%d-%H:%M:%S.%f"), reference) == got


@pytest.mark.parametrize(
    ("text", "reference", "expected"),
    [
        ("Dec 31 23:59:59", "2025-01-01T00:00:05", "2024-12-31T23:59:59"),
        ("Jan  1 00:00:02", "2024-12-31T23:59:59", "2025-01-01T00:00:02"),
        ("Jan  2 10:00:00", "2024-12-31T23:59:59", "2024-01-02T10:00:00"),
        ("Feb 29 10:00:00", "2025-06-01T00:00:00", "2024-02-29T10:00:00"),
        ("Feb 29 10:00:00", "2023-06-01T00:00:00", "2020-02-29T10:00:00"),
        ("Jun  1 10:00:00", "2025-06-01T09:30:00", "2025-06-01T10:00:00"),
    ],
)
def test_across_new_year(text: str, reference: str, expected: str) -> None:
    parsed = datetime.datetime.fromisoformat(reference).replace(tzinfo=datetime.UTC)
    wanted = datetime.datetime.fromisoformat(expected).replace(tzinfo=datetime.UTC)
    assert read("syslog", text, parsed) == micros(wanted)


def test_a_followed_log_crosses_new_year_when_the_reference_moves() -> None:
    from pier_node.logs import Parser

    body = b" gate kernel: IN=eth0 OUT= SRC=198.51.100.7 DST=203.0.113.9 LEN=60 PROTO=ICMP\n"
    december = datetime.datetime(2024, 12, 31, 12, tzinfo=datetime.UTC)
    parser = Parser("iptables", reference_us=micros(december))
    years = []
    for text, now in ((b"Dec 31 11:00:00", december), (b"Jan 20 11:00:00", december + 20 * DAY)):
        batch = parser.feed(text + body, reference_us=micros(now))
        assert batch is not None
        years.append(batch["ts"][0].as_py().year)
    assert years == [2024, 2025]


@pytest.mark.parametrize(
    "text",
    [
        "Feb 30 10:00:00",
        "Foo  1 10:00:00",
        "Jan  0 10:00:00",
        "Jan  1 24:00:00",
        "Jan  1 10:60:00",
        "Jan  1 10:00",
        "",
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert read("syslog", text, datetime.datetime(2025, 6, 1, tzinfo=datetime.UTC)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2025-03-07T04:05:06Z", "2025-03-07T04:05:06"),
        ("2025-03-07T04:05:06.5+05:30", "2025-03-06T22:35:06.5"),
        ("2025-03-07T04:05:06,123456789-0800", "2025-03-07T12:05:06.123456"),
        ("2025-03-07T04:05:06", "2025-03-07T03:05:06"),
    ],
)
def test_zones_and_fractions(text: str, expected: str) -> None:
    wanted = datetime.datetime.fromisoformat(expected).replace(tzinfo=datetime.UTC)
    assert read("iso", text, wanted, tz="Europe/Berlin") == micros(wanted)


def test_days_agree_with_numpy() -> None:
    days = np.arange("1970-01-01", "2199-12-31", 37, dtype="datetime64[D]")
    parts = [(day.astype(object).year, day.astype(object).month, day.astype(object).day) for day in days]
    year, month, day = (np.array(column, np.int64) for column in zip(*parts, strict=True))
    assert stamps.days_from_civil(year, month, day).tolist() == days.astype(np.int64).tolist()


def test_mixed_layouts_within_one_block() -> None:
    body = " gate kernel: IN=eth0 OUT= SRC=198.51.100.7 DST=203.0.113.9 LEN=60 PROTO=ICMP\n"
    rows, _ = parse("iptables", ("Mar  7 04:05:06" + body + "2025-03-07T04:05:07Z" + body).encode())
    assert [row["ts"].second for row in rows] == [6, 7]
