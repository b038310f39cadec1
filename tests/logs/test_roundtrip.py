"""Events printed in a dialect parse back to themselves, in every dialect, however the bytes are cut."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pier_node.logs import DIALECTS, Parser, conform, print_events
from tests.logs.events import REFERENCE_US, batch_of, event

# Said in other words (a rule that must speak the verdict), or tied to another column, by some dialects.
_ADAPTED = {"ts", "action", "direction", "rule", "iface", "raw_format", "host"}


def _cut(raw: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({min(cut, len(raw)) for cut in cuts} | {0, len(raw)})
    return [raw[start:end] for start, end in itertools.pairwise(places)]


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=12, deadline=None)
@given(rows=st.lists(event(), min_size=1, max_size=12), cuts=st.lists(st.integers(0, 4000), max_size=4))
def test_what_is_printed_parses_back(name: str, rows: list[dict[str, Any]], cuts: list[int]) -> None:
    dialect = DIALECTS[name]
    expected = conform(dialect, batch_of(rows))
    raw = print_events(dialect, batch_of(rows))
    parser = Parser(name, reference_us=REFERENCE_US, engine="numpy")
    parsed = [parser.feed(piece) for piece in _cut(raw, cuts)] + [parser.finish()]
    got = [row for batch in parsed if batch is not None for row in batch.to_pylist()]
    assert got == expected.to_pylist()
    assert parser.statistics().unparsed == 0


@pytest.mark.parametrize("name", DIALECTS)
@settings(max_examples=6, deadline=None)
@given(rows=st.lists(event(), min_size=1, max_size=6))
def test_conforming_keeps_what_a_dialect_carries_and_is_final(name: str, rows: list[dict[str, Any]]) -> None:
    dialect = DIALECTS[name]
    given_batch = batch_of(rows)
    once = conform(dialect, given_batch)
    assert conform(dialect, once).to_pylist() == once.to_pylist()
    for row, kept in zip(rows, once.to_pylist(), strict=True):
        for column in dialect.carries.columns - _ADAPTED:
            assert kept[column] in (row[column], None) or row[column] is None
        for column in {"src", "dst", "spt", "dpt"} & dialect.carries.columns:
            assert kept[column] == row[column]
        assert kept["action"] in dialect.carries.actions
        assert 0 <= (row["ts"] - kept["ts"]).total_seconds() < 1.000001
        if row["action"] in dialect.carries.actions and row["proto"] in ("tcp", "udp"):
            assert kept["action"] == row["action"]
