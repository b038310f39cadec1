"""`pier logs` as a person types it: rows on stdout, the account on stderr, exit codes."""

from __future__ import annotations

import gzip
import io
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from cli.main import main
from pier_node.logs import DIALECTS

GENERATE = ["logs", "generate", "ufw", "--start", "2025-03-03T00:00:00Z", "--count", "50", "--seed", "7"]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "ufw.log"
    assert main([*GENERATE, "--output", str(path)]) == 0
    os.utime(path, (1_741_500_000, 1_741_500_000))
    return path


def test_detect_names_the_dialect(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "detect", str(log)]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": str(log), "dialect": "ufw", "confidence": 1.0}
    (tmp_path / "other").write_text("hello\n")
    assert main(["logs", "detect", str(tmp_path / "other")]) == 1


def test_parse_prints_rows_and_the_account(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "parse", str(log), "--format", "json"]) == 0
    printed = capsys.readouterr()
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert len(rows) == 50
    # The file's last change says which year its dates are of.
    assert rows[0]["ts"].startswith("2025-03-03T00:00:00") and rows[0]["raw_format"] == "ufw"
    account = json.loads(printed.err.splitlines()[-1])
    assert (account["lines"], account["parsed"], account["unparsed"]) == (50, 50, 0)


def test_parse_reads_gz_and_writes_arrow(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = log.with_suffix(".log.gz")
    packed.write_bytes(gzip.compress(log.read_bytes()))
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["logs", "parse", str(packed), "--format", "arrow"]) == 0
    assert len(pa.ipc.open_stream(out.buffer.getvalue()).read_all()) == 50  # type: ignore[attr-defined]
    packed.write_bytes(packed.read_bytes()[:-20])
    assert main(["logs", "parse", str(packed), "--format", "csv"]) == 1


def test_unparsed_lines_can_be_seen(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes() + b"broken SRC=\n")
    assert main(["logs", "parse", str(log), "--unparsed", "--format", "csv"]) == 0
    assert "line 51: does not parse: broken SRC=" in capsys.readouterr().err


def test_a_log_without_events_still_has_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").write_text("")
    assert main(["logs", "parse", str(tmp_path / "empty"), "--dialect", "ufw", "--format", "csv"]) == 0
    assert capsys.readouterr().out.startswith('"ts","host"')


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["logs", "parse", "/no/such/file"], 1),
        (["logs", "parse", os.devnull], 1),
        (["logs", "parse", os.devnull, "--dialect", "nosuch"], 2),
        (["logs", "parse", os.devnull, "--dialect", "ufw", "--tz", "Mars"], 2),
        (["logs", "parse"], 2),
        (["logs", "generate", "ufw", "--count", "5"], 2),
        (["logs", "generate", "nosuch", "--start", "2025-03-03", "--count", "5"], 2),
        (["logs", "generate", "ufw", "--start", "yesterday", "--count", "5"], 2),
        (["logs", "generate", "ufw", "--start", "2025-03-03", "--count", "5", "--scans", "2"], 2),
        (["logs"], 2),
    ],
)
def test_exit_codes(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == code
    assert capsys.readouterr().out == ""


def test_generate_lists_what_it_can_write(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", "generate", "help"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(DIALECTS)
