"""The command line itself: help, exit codes, what goes where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.main import COMMANDS, commands, main
from pier_node.service import AnswerSink
from tests.cli.conftest import Served
from tests.pier_node.worlds import BATCH

ROOT = Path(__file__).resolve().parents[2]


def test_help_lists_every_command_without_importing_any(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for name, _, text in commands():
        assert name in out and text in out


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"usage: pier {name}" in out


def test_no_command_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "commands:" in captured.err


def test_a_slip_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clutser", "start"]) == 2
    assert "did you mean cluster?" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["sql", "SELECT 1", "--format", "xml"],
        ["sql", "SELECT 1", "--timeout", "soon"],
        ["sql", "SELECT 1", "--limit", "speed=1"],
        ["sql", "SELECT 1", "--node", "a:b"],
        ["sql", "SELECT 1", "--node", "a:1", "--dir", "x"],
        ["queries", "cancel"],
        ["publish", "t", "file.xyz", "--key", "a"],
        ["node", "--listen", "nowhere"],
        ["node", "--set", "node.lisen=1"],
        ["node", "--source", "fw=tape:/dev/st0"],
        ["cluster", "start", "-n", "0"],
        ["keys", "burn"],
    ],
)
def test_wrong_usage_is_exit_code_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err


def test_nobody_there_is_exit_code_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--node", "127.0.0.1:1"]) == 1
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err


def test_an_empty_cluster_directory_says_how_to_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ring", "--dir", str(tmp_path)]) == 1
    assert "pier cluster start" in capsys.readouterr().err


def test_a_missing_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ufl", "/nonexistent.ufl"]) == 1
    assert "/nonexistent.ufl: No such file" in capsys.readouterr().err


def test_a_reader_that_leaves_is_no_failure() -> None:
    run = subprocess.run(
        f"{sys.executable} -m cli.main node --describe-config | head -1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ,
        check=False,
    )
    assert run.stdout == "# Configuration\n" and run.stderr == ""


def test_a_checked_configuration_is_printed_as_toml(capsys: pytest.CaptureFixture[str]) -> None:
    import tomllib

    assert main(["node", "--check-config", "--listen", "127.0.0.1:5", "--set", "client.requests_max=9"]) == 0
    captured = capsys.readouterr()
    document = tomllib.loads(captured.out)
    assert document["node"]["listen"] == "127.0.0.1:5" and document["client"]["requests_max"] == 9
    assert "good" in captured.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--listen", "0.0.0.0:1"], "without a keyring a node listens on loopback only"),
        (["--client", "0.0.0.0:1"], "need TLS and a token"),
        (["--keyring", "/nonexistent"], "cannot read /nonexistent"),
    ],
)
def test_an_unsafe_configuration_is_refused(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", "--check-config", *flags]) == 1
    assert message in capsys.readouterr().err


def test_a_reader_that_leaves_ends_a_query_quietly(served: Served) -> None:
    def endless(sink: AnswerSink) -> None:
        def more() -> None:
            while sink.batch("t", BATCH):
                pass

        sink.on_ready(more)
        more()

    served.engine.on_query = endless
    run = subprocess.run(
        f"{sys.executable} -m cli.main sql x --format json --quiet --node {served.address} | head -1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        check=False,
    )
    assert run.stdout == '{"src": "10.0.0.1", "n": 1}\n'
    assert run.stderr == ""
