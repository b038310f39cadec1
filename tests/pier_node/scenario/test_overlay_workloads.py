"""The kept scenarios of the DHT hold, in small; the workloads' own checks see what is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pier_node.scenario import Result, load_scenario, run_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios" / "dht"


def run(name: str, nodes: int, duration_s: float, seed: int = 3) -> Result:
    scenario, _ = load_scenario(SCENARIOS / name)
    return run_scenario(msgspec.structs.replace(scenario, nodes=nodes, duration_s=duration_s), seed)


def failures(result: Result) -> list[str]:
    return [f"{verdict.check}: {verdict.found}" for verdict in result.checks if not verdict.holds]


def test_broadcast_at_rest() -> None:
    result = run("broadcast.toml", 40, 130.0)
    assert failures(result) == []
    figures = result.figures
    assert figures["spreads"] >= 3
    assert figures["answered"] == 40 * figures["spreads"]
    assert figures["messages_down"] == 39 * figures["spreads"]


def test_broadcast_under_churn() -> None:
    result = run("broadcast-churn.toml", 60, 250.0)
    assert failures(result) == []


@pytest.mark.parametrize("name", ["published-churn.toml", "copies-churn.toml", "quarter-killed.toml"])
def test_published_objects(name: str) -> None:
    result = run(name, 40, 300.0)
    assert failures(result) == []
    assert result.figures["kept"] > 100


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.toml")), ids=lambda path: path.name)
def test_as_kept(path: Path) -> None:
    scenario, latencies = load_scenario(path)
    assert failures(run_scenario(scenario, 1, latencies=latencies)) == []
