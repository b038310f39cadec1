"""`pier sim`: what it prints, and its exit codes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from cli import sim

GOOD = """
name = "x"
nodes = 3
duration_s = 5.0
[workload]
kind = "exchange"
[[checks]]
figure = "answered_ratio"
at_least = 1.0
"""


def call(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    sim.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args(["sim", *arguments])
    code: int = args.run(args)
    return code


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.toml"
    path.write_text(GOOD)
    return path


def test_figures_are_one_json_object_that_ends_with_the_trace_hash(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(str(file), "--seed", "4", "--nodes", "7") == 0
    first = capsys.readouterr().out
    printed = json.loads(first)
    assert (printed["seed"], printed["nodes"]) == (4, 7)
    assert list(printed)[-1] == "trace_hash"
    assert call(str(file), "--seed", "4", "--nodes", "7") == 0
    assert capsys.readouterr().out == first


def test_a_failing_check_is_exit_code_1(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace("at_least = 1.0", "at_least = 2.0"))
    assert call(str(file)) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["holds"] is False
    assert "answered_ratio at_least 2.0" in captured.err


def test_a_bad_file_is_exit_code_2_with_the_key(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace("nodes = 3", "nodes = 3\nnods = 4"))
    assert call(str(file)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nods" in captured.err
    assert call(str(file.with_name("missing.toml"))) == 2
    assert call(str(file), "--nodes", "0") == 2


def test_several_seeds_run_and_each_has_its_own_trace(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(str(file), "--seeds", "3..5", "--jobs", "1") == 0
    captured = capsys.readouterr()
    assert "3 seeds, 0.01 simulated hours, 0 faults: all hold" in captured.err
    printed = json.loads(captured.out)
    assert (printed["scenario"], printed["seeds"], printed["seeds_failed"]) == ("x", 3, [])
    assert [run["seed"] for run in printed["runs"]] == [3, 4, 5]
    assert len(set(printed["trace_hash"])) == 3
    assert call(str(file), "--seed", "4") == 0
    assert json.loads(capsys.readouterr().out)["trace_hash"] == printed["trace_hash"][1]


def test_the_faults_of_several_seeds_are_added_up(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(
        GOOD.replace("duration_s = 5.0", "duration_s = 50.0")
        .replace("[[checks]]", "[[faults]]")
        .replace('figure = "answered_ratio"\nat_least = 1.0', 'kind = "random"\nevery_s = 5.0')
    )
    assert call(str(file), "--seeds", "1..2", "--jobs", "1") == 0
    captured = capsys.readouterr()
    printed = json.loads(captured.out)
    drawn = [count for run in printed["runs"] for name, count in run["faults"].items() if "drawn" in name]
    assert f"2 seeds, 0.03 simulated hours, {sum(drawn)} faults: all hold" in captured.err
    assert sum(drawn) > 5
    assert sum(count for name, count in printed["faults"].items() if "drawn" in name) == sum(drawn)


def test_a_seed_that_breaks_a_node_is_named_and_the_others_go_on(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Here:
        """Runs the seeds in this process, where the break can be made."""

        def __init__(self, *args: object, **kwargs: object) -> None: ...

        def __enter__(self) -> Here:
            return self

        def __exit__(self, *args: object) -> None: ...

        def submit(self, run: Callable[..., Any], *args: object) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(run(*args))
            return future

    ours = sim.run_scenario

    def breaks(scenario: Any, seed: int, **more: Any) -> Any:
        assert seed != 4, "what must be true is not"
        return ours(scenario, seed, **more)

    monkeypatch.setattr(sim, "ProcessPoolExecutor", Here)
    monkeypatch.setattr(sim, "run_scenario", breaks)
    assert call(str(file), "--seeds", "3..5") == 1
    captured = capsys.readouterr()
    assert "seed 4: AssertionError: what must be true is not" in captured.err
    assert "1 FAILED: 4" in captured.err
    assert json.loads(captured.out)["seeds_failed"] == [4]


@pytest.mark.parametrize("seeds", ["5", "5..3", "a..b", "0..99999"])
def test_seeds_that_are_no_range_are_a_usage_error(file: Path, seeds: str) -> None:
    with pytest.raises(SystemExit) as caught:
        call(str(file), "--seeds", seeds)
    assert caught.value.code == 2
