"""The kept scenarios of the router hold, in small; each as kept where it takes minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pier_node.scenario import Result, load_scenario, run_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios" / "overlay"
#: Minutes to hours of CPU on a small machine, or gigabytes: for `pier sim` by hand.
LARGE = {"joins-10000.toml", "static-100000.toml"}


def run(name: str, nodes: int, duration_s: float, arrival_s: float = 5.0, **workload: Any) -> Result:
    scenario, _ = load_scenario(SCENARIOS / name)
    changed = msgspec.structs.replace(
        scenario,
        nodes=nodes,
        duration_s=duration_s,
        arrival_s=arrival_s,
        workload={**scenario.workload, **workload},
    )
    return run_scenario(changed, 3)


def failures(result: Result) -> list[str]:
    return [f"{verdict.check}: {verdict.found}" for verdict in result.checks if not verdict.holds]


@pytest.mark.parametrize("session", ["churn-100-session-180s.toml", "churn-1000-median-6min.toml"])
def test_churn(session: str) -> None:
    result = run(session, 40, 200.0)
    assert failures(result) == []
    assert result.faults["churn_ended"] > 5
    assert result.figures["lookups"] > 100
    assert result.figures["deliverers_of_a_key"]["sampled"] > 100
    assert result.figures["deliverers_of_a_key"]["contested_share"] < 0.01


def test_proximity_gains() -> None:
    near = run("stretch-100.toml", 60, 400.0, settle_s=300.0)
    plain = run("stretch-100-no-proximity.toml", 60, 400.0, settle_s=300.0)
    assert failures(plain) == []
    assert near.figures["stretch"] < 0.97 * plain.figures["stretch"]
    assert 1.0 < near.figures["hops"]["mean"] < 2.0


def test_the_shipped_transport_with_loss_and_churn() -> None:
    result = run("churn-packet-loss.toml", 20, 130.0, lookups_per_s=3.0, routes_per_s=2.0)
    assert result.level == "packet"
    assert result.figures["right_share"] >= 0.99
    assert result.figures["lookups"] > 100


def test_half_killed() -> None:
    result = run("half-killed.toml", 80, 300.0)
    assert failures(result) == []
    assert result.figures["members"] == 40


def test_keys_of_a_ring_cut_in_two_have_two_deliverers() -> None:
    """The measure of consistency sees what it is for."""
    scenario, _ = load_scenario(SCENARIOS / "partition-hour.toml")
    (partition,) = scenario.faults
    cut = msgspec.structs.replace(partition, at_s=20.0, until_s=120.0)
    load = {**scenario.workload, "lookups_per_s": 5.0}
    changed = msgspec.structs.replace(scenario, nodes=12, duration_s=120.0, faults=(cut,), workload=load)
    figures = run_scenario(changed, 3).figures
    assert figures["deliverers_of_a_key"]["contested_share"] > 0.5


def test_static() -> None:
    result = run("static-100000.toml", 500, 22.0, 1.0)
    assert failures(result) == []
    assert result.figures["lookups"] > 500
    assert result.figures["hops"]["mean"] < 2.6


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(path.name for path in SCENARIOS.glob("*.toml") if path.name not in LARGE)
)
def test_as_kept(name: str) -> None:
    scenario, latencies = load_scenario(SCENARIOS / name)
    assert failures(run_scenario(scenario, 1, latencies=latencies)) == []
