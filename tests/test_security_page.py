"""The table of bad input in docs/security.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMED = re.compile(r"`(tests/[a-z_/]+\.py)::(test_\w+)`")
#: What the page promises to show, by a word of its row.
ROWS = (
    "random bytes, any size, on the node port",
    "random bytes on the client port",
    "hostile fields",
    "slowloris on TCP",
    "10,000 connections",
    "oversized",
    "old keys",
    "replays",
    "forged node id",
    "query bomb",
)


def test_every_row_names_a_test_that_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    rows = [line for line in page.partition("## Bad input")[2].splitlines() if line.startswith("| ")][1:]
    for row in rows:
        named = NAMED.findall(row)
        assert named, row
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"
    for words in ROWS:
        assert any(words in row for row in rows), f"no row about {words}"
