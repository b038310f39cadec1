"""The parser machine: any bytes, any cuts, every line accounted for, memory bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pier_node.logs import DIALECTS, Parser, generate
from pier_node.logs.parser import LINE_BYTES_MAX, TOO_LONG, UNPARSED_BYTES_MAX, UNPARSED_KEPT_MAX
from tests.logs.events import REFERENCE_US, parse

START_US = REFERENCE_US - 60 * 86_400_000_000
LOGS = {name: generate(name, seed=3, start_us=START_US, count=40, v6=0.4) for name in DIALECTS}
# Bytes that mean something to some dialect.
_TOKENS = [
    b"\n",
    b"\r\n",
    b" ",
    b"=",
    b'"',
    b"{",
    b"}",
    b",",
    b"|",
    b"SRC=",
    b" IN=",
    b"kernel: [",
    b"%ASA-4-106023: ",
]
_TOKENS += [
    b"#Fields:",
    b"#fields\t",
    b"srcaddr",
    b"\xff",
    b"\x00",
    b"<13>1 ",
    b"Feb 30 25:61:61 h ",
    b"2025-13-41T",
    b"-",
]
_NOISE = st.lists(st.sampled_from(_TOKENS) | st.binary(max_size=6), max_size=40).map(b"".join)


def check_account(parser: Parser, raw: bytes) -> None:
    figures = parser.statistics()
    assert figures.lines == raw.count(b"\n") + (not raw.endswith(b"\n") and raw != b"")
    assert figures.lines == figures.parsed + figures.unparsed + figures.skipped
    assert sum(count for _, count in figures.reasons) == figures.unparsed
    assert figures.unparsed_kept == min(figures.unparsed, UNPARSED_KEPT_MAX) == len(parser.unparsed())


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=20, deadline=None)
@given(raw=_NOISE)
@example(raw=b"\xef\xbb\xbf\r\n\xff=\x00")
@example(raw=b"{" * 5000 + b"\n{}\n{}{}\n[[]]")
def test_no_bytes_raise_and_every_line_is_counted(name: str, raw: bytes) -> None:
    rows, parser = parse(name, raw)
    assert len(rows) == parser.statistics().parsed
    check_account(parser, raw)


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_damaged_lines_raise_nothing_and_leave_others_alone(name: str, data: st.DataObject) -> None:
    lines = LOGS[name].splitlines(keepends=True)
    victim = data.draw(st.integers(len(lines) - 40, len(lines) - 1))
    line = lines[victim]
    at = data.draw(st.integers(0, len(line) - 1))
    until = data.draw(st.integers(at, len(line) - 1))
    lines[victim] = line[:at] + data.draw(_NOISE).replace(b"\n", b"") + line[until:].rstrip(b"\n") + b"\n"
    rows, parser = parse(name, b"".join(lines))
    whole, _ = parse(name, LOGS[name])
    check_account(parser, b"".join(lines))
    index = victim - (len(lines) - 40)
    assert rows[:index] == whole[:index]
    assert rows[len(rows) - (39 - index) :] == whole[index + 1 :]


@pytest.mark.parametrize("name", DIALECTS)
def test_byte_by_byte_is_the_same_as_at_once(name: str) -> None:
    raw = LOGS[name].rstrip(b"\n")
    parser = Parser(name, reference_us=REFERENCE_US, engine="numpy")
    pieces = [raw[:700], *(raw[at : at + 1] for at in range(700, 900)), raw[900:], b""]
    fed: list[Any] = [parser.feed(piece) for piece in pieces] + [parser.finish()]
    rows = [row for batch in fed if batch is not None for row in batch.to_pylist()]
    whole, other = parse(name, LOGS[name])
    assert rows == whole
    assert parser.statistics() == other.statistics()


def test_a_line_without_end_is_not_held() -> None:
    good = LOGS["ufw"].splitlines(keepends=True)[0]
    parser = Parser("ufw", reference_us=REFERENCE_US, engine="numpy")
    assert parser.feed(good) is not None
    for _ in range(40):
        assert parser.feed(b"x" * (LINE_BYTES_MAX // 10)) is None
    assert len(parser._carry) <= LINE_BYTES_MAX
    after = parser.feed(b"tail\n" + good)
    assert after is not None and len(after) == 1
    [kept] = parser.unparsed()
    assert (kept.number, kept.reason, len(kept.text)) == (2, TOO_LONG, UNPARSED_BYTES_MAX)
    check_account(parser, b"\n\n\n")


def test_a_long_line_within_one_piece_is_unparsed_too() -> None:
    good = LOGS["ufw"].splitlines(keepends=True)[0]
    long = good.rstrip(b"\n") + b" " + b"x" * LINE_BYTES_MAX + b"\n"
    rows, parser = parse("ufw", good + long + good)
    assert len(rows) == 2
    assert parser.statistics().reasons == ((TOO_LONG, 1),)


def test_unparsed_lines_are_kept_under_a_limit() -> None:
    raw = b"".join(b"junk %d\n" % number for number in range(UNPARSED_KEPT_MAX + 50))
    _, parser = parse("iptables", raw)
    assert parser.statistics().unparsed == UNPARSED_KEPT_MAX + 50
    kept = parser.unparsed()
    assert [kept[0].text, kept[-1].text] == [b"junk 50", b"junk %d" % (UNPARSED_KEPT_MAX + 49)]
    assert kept[0].number == 51


def test_reasons_are_bounded() -> None:
    from pier_node.logs.parser import OTHER_REASONS, REASONS_MAX

    lines = [f"Mar  7 04:05:06 a %ASA-6-{700_000 + n}: x\n" for n in range(REASONS_MAX + 20)]
    _, parser = parse("asa", "".join(lines).encode())
    reasons = dict(parser.statistics().reasons)
    assert len(reasons) == REASONS_MAX + 1
    assert reasons[OTHER_REASONS] == 20


def test_the_host_of_lines_that_name_none() -> None:
    rows, _ = parse("windows", LOGS["windows"], host="desk7")
    assert {row["host"] for row in rows} == {"desk7"}
    rows, _ = parse("ufw", LOGS["ufw"], host="desk7")
    assert "desk7" not in {row["host"] for row in rows}


def test_times_without_a_zone_are_placed_by_tz() -> None:
    line = b"2025-07-01 12:00:00 DROP TCP 198.51.100.7 203.0.113.9 1 2 60\n"
    [row], _ = parse("windows", line, tz="Europe/Berlin")
    assert row["ts"].isoformat() == "2025-07-01T10:00:00+00:00"
    [row], _ = parse("windows", line, tz="-03:30")
    assert row["ts"].isoformat() == "2025-07-01T15:30:00+00:00"


def test_bytes_that_are_no_utf8_become_replacement_characters() -> None:
    line = (
        LOGS["ufw"]
        .splitlines(keepends=True)[0]
        .replace(b"kernel", b"kernel", 1)
        .replace(b" fw", b" f\xffw", 1)
    )
    [row], _ = parse("ufw", line)
    assert row["host"].startswith("f\ufffdw")


def test_unknown_names_are_the_callers_error() -> None:
    for options in ({"dialect": "nosuch"}, {"tz": "Mars/Olympus"}, {"engine": "abacus"}):
        with pytest.raises(ValueError, match=r"nosuch|Mars|abacus"):
            Parser(**({"dialect": "ufw", "reference_us": 0} | options))  # type: ignore[arg-type]


def test_a_block_of_many_layouts_is_bounded() -> None:
    lines = []
    for number in range(30):
        lines.append(f"#Fields: date time action protocol src-ip dst-ip x{number}\n")
        lines.append("2025-07-01 12:00:00 DROP TCP 198.51.100.7 203.0.113.9 1\n")
    _, parser = parse("windows", "".join(lines).encode())
    figures = parser.statistics()
    assert figures.parsed == 7 and dict(figures.reasons) == {"too many header lines": 23}
    assert figures.skipped == 30


def test_one_broken_json_line_costs_only_itself() -> None:
    lines = LOGS["eve"].splitlines(keepends=True)
    twice = lines[3].replace(b'"src_ip"', b'"dest_ip"', 1)  # a key twice: only Arrow's reader minds
    typed = lines[5].replace(b'"src_ip":"', b'"src_ip":{"a":"', 1).rstrip(b"}\n") + b"}}}\n"
    raw = b"".join([*lines[:3], twice, lines[4], typed, b'{"event_type":\n', *lines[6:]])
    rows, parser = parse("eve", raw)
    assert parser.statistics().unparsed == 3
    whole, _ = parse("eve", LOGS["eve"])
    assert rows == [*whole[:3], whole[4], *whole[6:]]
