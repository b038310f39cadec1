"""The prompt: what lines mean, what completes, what a failed query does."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from cli.failure import CommandFailed
from cli.repl import Prompt, completions, expanded, history_file


@pytest.mark.parametrize(
    ("line", "query"),
    [
        ("SELECT 1;", "SELECT 1"),
        ("select src\nfrom fw ;", "select src\nfrom fw"),
        ("\\d", "SHOW TABLES"),
        ("\\d fw", 'DESCRIBE "fw"'),
        ('\\d we"ird', 'DESCRIBE "we""ird"'),
        ("\\h", ""),
        ("\\nonsense", ""),
    ],
)
def test_lines_stand_for_queries(line: str, query: str) -> None:
    assert expanded(line) == query


def test_words_complete_in_the_case_they_are_typed() -> None:
    words = ["SELECT", "src", "SRCH", "sum("]
    assert completions("sel", words) == ["select"]
    assert completions("SEL", words) == ["SELECT"]
    assert completions("s", words) == ["select", "src", "SRCH", "sum("]
    assert completions("zzz", words) == []


def test_queries_are_read_until_the_end_and_failures_do_not_end_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    lines = iter(["SELECT 1", "+ 1;", "SELECT broken;", "\\d", "\\h", "SELECT 2;"])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines, None) or _end())
    asked: list[str] = []

    def ask(text: str) -> int:
        asked.append(text)
        if "broken" in text:
            raise CommandFailed("no such thing")
        return 0

    prompt = Prompt(argparse.Namespace(), ask)
    monkeypatch.setattr(Prompt, "_names", lambda self: ["fw"])
    assert prompt.run() == 0
    assert asked == ["SELECT 1\n+ 1", "SELECT broken", "SHOW TABLES", "SELECT 2"]
    assert "no such thing" in capsys.readouterr().err
    assert prompt.complete("f", 0) is not None
    assert history_file().parent == tmp_path / "pier"


def _end() -> str:
    raise EOFError
