"""The files beside this one: every clause of the dialect, answered by a cluster as the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql.slt import Runner, records

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.slt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_answered_as_it_says(path: Path) -> None:
    runner = Runner(seed=len(path.stem))
    for record in records(path):
        runner.run(record)
    assert runner.queries > 0


def test_there_is_a_file_for_every_clause() -> None:
    assert len(FILES) >= 12
