"""`./run`: the command that a newcomer types."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROOT / "run"), *words], cwd=cwd, capture_output=True, text=True, check=False)


def test_help_lists_the_commands() -> None:
    told = run("help")
    assert told.returncode == 0
    for command in ("demo", "test", "pier", "pier-spark", "python", "setup"):
        assert f"./run {command}" in told.stdout


def test_an_unknown_command_is_a_mistake_of_use() -> None:
    told = run("dmeo")
    assert (told.returncode, told.stdout) == (2, "")
    assert "unknown command 'dmeo'" in told.stderr


def test_paths_are_those_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("no firewall wrote this\n")
    told = run("pier", "logs", "detect", "a.log", cwd=tmp_path)
    assert "a.log" in told.stdout + told.stderr
    assert "No such file" not in told.stderr
    where = run("python", "-c", "import os, bench; print(os.getcwd())", cwd=tmp_path)
    assert where.stdout.strip() == str(tmp_path)


def test_a_node_needs_neither_spark_nor_a_compiler_nor_tools() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = " ".join(project["dependencies"])
    for name in ("pyspark", "numba", "pandas", "duckdb", "polars", "mypy", "pytest"):
        assert name not in needed
    assert set(project["optional-dependencies"]) == {"base", "bench", "dev", "fast", "spark"}
