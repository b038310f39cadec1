"""`pier-spark` as a person runs it: processes, a ring of real nodes, and what is said when something is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from pyspark_pier.command import main
from pyspark_pier.errors import PierSparkError
from pyspark_pier.telling import told
from tests.spark.conftest import ROOT, Ring

LINES = 400

Command: TypeAlias = Callable[..., tuple[int, str]]


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "pyspark_pier", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture
def command(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> Command:
    """The same in this process, whose session it takes."""

    def run(*arguments: str) -> tuple[int, str]:
        code = main(list(arguments))
        return code, capsys.readouterr().err

    return run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "ufw.log"
    made = ("logs", "generate", "ufw", "--start", "2025-03-03T00:00:00Z", "--count", str(LINES))
    run = "import sys; from cli.main import main; sys.exit(main())"
    subprocess.run([sys.executable, "-c", run, *made, "--output", str(path)], check=True, cwd=ROOT)
    return path


def test_feeding_and_collecting_say_one_line(ring: Ring, log: Path, tmp_path: Path, command: Command) -> None:
    chosen = ("--select", "src, dst, upper(action) AS action", "--where", "dpt IS NOT NULL")
    code, said = command("feed", "by_command", str(log), "--key", "src", "--nodes", ring.nodes, *chosen)
    assert code == 0, said
    done = json.loads(said)
    assert done["lines"] == {"parsed": LINES, "unparsed": 0, "skipped": 0}
    assert 0 < done["rows"] < LINES
    output = tmp_path / "out"
    collect = ("collect", "SELECT src, action FROM by_command", str(output), "--nodes", ring.nodes)
    code, said = command(*collect, "--format", "csv")
    assert code == 0, said
    assert json.loads(said)["rows"] == done["rows"]
    rows = [row for part in output.glob("*.csv") for row in part.read_text().splitlines()[1:]]
    assert len(rows) == done["rows"]
    assert all(row.split(",")[1].isupper() for row in rows)
    assert command(*collect) == (1, f"pier-spark: {output} exists already; --overwrite replaces it\n")
    code, said = command(*collect, "--overwrite")
    assert code == 0, said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("collect", "SELECT nothere FROM by_nobody WHERE", "out"), "the query is refused: line 1"),
        (("collect", "SELECT 1", "out", "--nodes", "127.0.0.1:1"), "no node answers: cannot connect"),
        (("collect", "SELECT 1", "out", "--partitions", "abc"), "option numPartitions is a whole number"),
        (("feed", "t", "x.log", "--key", "src", "--lifetime", "x"), "option lifetime is a number of seconds"),
        (("feed", "t", "x.log", "--key", "src", "--dialect", "none"), "there is no dialect 'none'; there is"),
        (("feed", "t", "x.log", "--key", "src", "--tz", "Mars/One"), "no time zone 'Mars/One'"),
        (("feed", "t", "x.log", "--key", "src", "--nodes", "nowhere.invalid"), "no node answers:"),
    ],
)
def test_what_is_wrong_is_said_before_spark_starts(
    ring: Ring, arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyspark_pier.command._session", lambda *_: pytest.fail("Spark was started"))
        given = arguments if "--nodes" in arguments else (*arguments, "--nodes", ring.nodes)
        assert main(list(given)) == 1
    assert capsys.readouterr().err.startswith(f"pier-spark: {says}")


def test_what_spark_refuses_is_one_line(ring: Ring, log: Path, command: Command) -> None:
    to = ("--key", "src", "--nodes", ring.nodes)
    for arguments, says in (
        (("feed", "t", f"{log}.none", *to), f"Path does not exist: file:{log}.none."),
        (("feed", "t", str(log), "--where", "nope > 3", *to), "A column, variable, or function parameter"),
    ):
        code, said = command(*arguments)
        assert code == 1
        assert said.startswith(f"pier-spark: {says}") and said.count("\n") == 1, said


def test_a_process_of_its_own_says_one_line_too(ring: Ring, log: Path) -> None:
    """Java, Spark's log and its workers have the process's stderr."""
    run = process("feed", "t", str(log), "--format", "parquet", "--key", "src", "--nodes", ring.nodes)
    assert run.returncode == 1
    assert run.stderr.startswith(f"pier-spark: file:{log} is not a Parquet file"), run.stderr
    assert run.stderr.count("\n") == 1, run.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:/x. SQLSTATE: 42K03", "Path does not exist: file:/x."),
        (
            "An error occurred while calling o41.load.\n: org.apache.spark.SparkException: [A.B] outer\n"
            "\tat a.B.c(B.scala:1)\nCaused by: java.io.IOException: no room\n\tat d.E.f(E.java:2)\n\t... 3 more",
            "no room",
        ),
        ("Job aborted: Task 0\nx.PierSparkError: the query failed: gone\n\n\tat q", "the query failed: gone"),
        ("", "RuntimeError"),
    ],
)
def test_the_first_cause_is_told(text: str, says: str) -> None:
    assert told(RuntimeError(text)) == says


def test_our_own_words_are_told_whole() -> None:
    assert told(PierSparkError("line 1: no\n  ^\nhint: yes")) == "line 1: no\n  ^\nhint: yes"
