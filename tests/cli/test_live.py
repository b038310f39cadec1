"""The answers of a continuous query on a terminal and elsewhere."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pytest

from cli.live import LiveTable, summary
from cli.output import JsonWriter
from pier_node.protocol.messages import Account


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"src": [f"s{n}" for n in range(count)], "n": list(range(count))})


def account(epoch: int, rows: int, revision: int = 0) -> Account:
    return Account(
        "q", asked=8, answered=7, failed=1, rows=rows, elapsed_s=5.04, epoch=epoch, revision=revision
    )


class Screen:
    """What a terminal shows after all that was written to it: lines, and the two moves that are used."""

    def __init__(self, text: str) -> None:
        self.lines: list[str] = []
        at = 0
        for part in text.split("\n"):
            while part.startswith("\x1b["):
                move, part = part[2:].split("F\x1b[J", 1)
                at -= int(move)
                self.lines = self.lines[:at]
            self.lines[at:] = [part]
            at += 1


def test_each_epoch_takes_the_place_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("COLUMNS", "60")
    out = io.StringIO()
    table = LiveTable(out, in_place=True)
    for epoch, count in enumerate((3, 20, 2, 0)):
        if count:
            table.write(rows(count), epoch)
        table.epoch(account(epoch, count))
        screen = Screen(out.getvalue()).lines
        assert len(screen) <= 10
        assert screen[-2] == f"epoch {epoch} · 7 of 8 nodes · {count} rows · 5.0 s"
        shown = [line for line in screen if line.startswith("s") and line != screen[0]]
        assert len(shown) == min(count, 5)
        assert ("… 15 more rows" in screen) == (count == 20)
    table.write(rows(1), 1)
    table.epoch(account(1, 1, revision=1))
    assert Screen(out.getvalue()).lines == screen, "an older epoch does not take the newer one's place"


def test_elsewhere_tables_follow_one_another() -> None:
    out = io.StringIO()
    table = LiveTable(out)
    for epoch in range(2):
        table.write(rows(1), epoch)
        table.epoch(account(epoch, 1, revision=epoch))
    assert out.getvalue().count("src  n") == 2
    assert "\x1b" not in out.getvalue()
    assert out.getvalue().endswith("epoch 1 · 7 of 8 nodes · 1 row · 5.0 s · revised\n\n")
    assert summary(account(3, 1_234)).startswith("epoch 3 · 7 of 8 nodes · 1,234 rows")


def test_json_rows_have_their_epoch_and_revisions_say_so() -> None:
    out = io.StringIO()
    table = JsonWriter(out)
    for revision in range(2):
        table.write(rows(1), 4)
        table.epoch(account(4, 1, revision))
    table.write(rows(1), 5)
    table.flush()
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"src": "s0", "n": 0, "_epoch": 4},
        {"src": "s0", "n": 0, "_epoch": 4, "_revision": 1},
    ]
