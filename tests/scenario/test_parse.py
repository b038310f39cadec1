"""Scenario files: what is wrong with one is said by its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from pier_node.scenario import ScenarioError, load_scenario, parse_scenario, run_scenario

GOOD = """
name = "x"
nodes = 3
duration_s = 2.0
[workload]
kind = "exchange"
"""


def test_defaults_are_a_star_without_congestion_or_faults() -> None:
    result = run_scenario(parse_scenario(GOOD), 1)
    assert result.holds
    assert result.level == "message"
    assert result.figures["requests"] > 0


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ("nodes = 0", "nodes"),
        ('nodes = "many"', "nodes"),
        ("duration = 5", "duration"),
        ("arrival_s = 2.0", "arrival_s"),
        ('[topology]\nkind = "torus"', "topology.kind"),
        ('[topology]\nkind = "star"\nlatency = 3', "topology.latency"),
        ('[topology]\nkind = "star"\nlatency_s = -1.0', "topology.latency_s"),
        ('[links]\nkind = "fifo"\nout_bps = 0', "links.out_bps"),
        ('[network]\nlevel = "quantum"', "network.level"),
        ('[[faults]]\nkind = "loss"', "faults[0].rate"),
        ('[[faults]]\nkind = "loss"\nrate = 2.0', "faults[0].rate"),
        ('[[faults]]\nkind = "loss"\nrate = 0.5\nat_s = 3\nuntil_s = 2', "faults[0].until_s"),
        ('[[faults]]\nkind = "crash"', "faults[0].count"),
        ('[[faults]]\nkind = "churn"', "faults[0].session_median_s"),
        ('[[checks]]\nkind = "oracle"', "checks[0].kind"),
        ("[[checks]]\nat_least = 1", "checks[0].figure"),
        ('[[checks]]\nfigure = "x"\nat_lest = 1', "checks[0].at_lest"),
    ],
)
def test_a_mistake_is_named_by_its_key(change: str, key: str) -> None:
    text = change + "\n" + GOOD if not change.startswith("[") else GOOD + change
    if change.startswith("nodes"):
        text = GOOD.replace("nodes = 3", change)
    with pytest.raises(ScenarioError) as caught:
        run_scenario(parse_scenario(text), 1)
    assert str(caught.value).startswith(f"{key}:")


@pytest.mark.parametrize(
    ("workload", "key"),
    [
        ('kind = "nap"', "workload.kind"),
        ("period_s = 1.0", "workload.kind"),
        ('kind = "exchange"\nperiod = 1', "workload.period"),
        ('kind = "exchange"\nperiod_s = 0', "workload.period_s"),
    ],
)
def test_a_mistake_in_the_workload_is_named_too(workload: str, key: str) -> None:
    text = GOOD.replace('kind = "exchange"', workload)
    with pytest.raises(ScenarioError) as caught:
        run_scenario(parse_scenario(text), 1)
    assert str(caught.value).startswith(f"{key}:")


def test_what_is_not_toml_is_said_with_its_line() -> None:
    with pytest.raises(ScenarioError, match=r"not TOML.*line 2"):
        parse_scenario("name = 1\nnodes = = 2")


def test_a_matrix_file_is_found_beside_the_scenario(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text(GOOD + '[topology]\nkind = "matrix"\nfile = "rtt.txt"\n')
    with pytest.raises(ScenarioError, match=r"topology\.file"):
        load_scenario(path)
    (tmp_path / "rtt.txt").write_text("0 100\n100 0\n")
    scenario, latencies = load_scenario(path)
    result = run_scenario(scenario, 1, latencies=latencies)
    assert result.figures["latency_s"]["p95"] == 0.1
    with pytest.raises(ScenarioError, match=r"topology\.file"):
        run_scenario(scenario, 1, latencies="0 1 2\n")
