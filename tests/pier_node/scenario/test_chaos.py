"""Chaos, short: many seeds of whole nodes under every fault, and judges that can say no."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pier_node.scenario import load_scenario, run_scenario
from pier_node.scenario.questions import QUESTIONS, ROWS, table_of
from pier_node.scenario.random_faults import MENU
from pier_node.scenario.workloads import chaos
from query.engine.executor import Executor
from runtime.rng import Rng

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
FILE, LONG, PACKETS = (SCENARIOS / f"{name}.toml" for name in ("chaos-short", "chaos", "chaos-packets"))
#: In groups, so that two workers share them.
SEEDS, GROUPS = 50, 10
SEEDS_PACKETS = 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_whole_nodes_come_through_everything(group: int) -> None:
    scenario, _ = load_scenario(FILE)
    drawn: dict[str, int] = {}
    ended: dict[str, int] = {}
    hours = queries = 0.0
    for seed in range(1 + group, SEEDS + 1, GROUPS):
        result = run_scenario(scenario, seed)
        assert result.holds, f"seed {seed}: {[each for each in result.checks if not each.holds]}"
        hours += result.figures["simulated_hours"]
        queries += result.figures["queries"]
        for name, count in result.faults.items():
            drawn[name] = drawn.get(name, 0) + count
        for kind, ways in result.figures["ended"].items():
            for how, count in ways.items():
                ended[how] = ended.get(how, 0) + count
                ended[kind] = ended.get(kind, 0) + count
    print(
        f"seeds {group + 1}, {group + 1 + GROUPS} ... {SEEDS}: {hours:.2f} h, {queries:g} queries, {ended}, {drawn}"
    )
    assert drawn["crashed"] + drawn["churn_ended"] > 0
    assert ended.keys() >= {"complete", "partial", "cancelled", *(question.name for question in QUESTIONS)}


@pytest.mark.parametrize("group", range(2))
def test_they_do_on_the_shipped_transport(group: int) -> None:
    """Packets are lost, doubled and overtaken; seals and congestion control are those of real nodes."""
    scenario, _ = load_scenario(PACKETS)
    assert scenario.network.level == "packet"
    lost = 0
    for seed in range(1 + group, 1 + 2 * SEEDS_PACKETS, 2):
        result = run_scenario(scenario, seed)
        assert result.holds, f"seed {seed}: {[each for each in result.checks if not each.holds]}"
        lost += result.traffic["drops"].get("lost", 0)
    assert lost > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_two_hundred_nodes_come_through_a_quarter_of_an_hour_of_it(seed: int) -> None:
    """The long form's own file, cut short: all of it takes minutes of CPU a seed (docs/simulation.md)."""
    scenario, _ = load_scenario(LONG)
    assert scenario.nodes == 200
    cut = msgspec.structs.replace(scenario, duration_s=900.0, checks=())
    result = run_scenario(cut, seed)
    assert result.holds, [each for each in result.checks if not each.holds]
    assert result.figures["queries"] >= 10 and result.faults["churn_ended"] + result.faults["crashed"] > 0


def test_every_fault_there_is_can_be_drawn() -> None:
    from pier_node.scenario import form

    kinds = {each.__struct_config__.tag for each in form.AnyFault.__args__}
    assert set(MENU) == kinds - {"random"}
    rng = Rng(7)
    for kind, make in MENU.items():
        assert make(rng, 100.0, 1).__struct_config__.tag == kind


def test_the_judges_see_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes whose rows are not all counted are found out."""
    scenario, _ = load_scenario(FILE)
    monkeypatch.setattr(chaos, "table_of", lambda node: table_of(node, rows=1 if node == 3 else ROWS))
    told = [each.found for each in run_scenario(scenario, 1).checks if not each.holds]
    assert any(text.startswith("answers:") for text in told), told


def test_rows_of_the_published_table_that_are_missing_or_doubled_are_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An asker that does not look whether the parts that nodes answered for cover the ring once."""
    scenario, _ = load_scenario(FILE)
    monkeypatch.setattr("query.engine.proxy.judged", lambda tiles, wanted, causes: [])
    monkeypatch.setattr("query.engine.spec.joined", lambda one, other: (one, 0))
    told = [each.found for seed in (2, 8) for each in run_scenario(scenario, seed).checks if not each.holds]
    assert any("are missing" in text and " 0 are missing" not in text for text in told), told
    assert any("are doubled" in text and " 0 are doubled" not in text for text in told), told


def test_a_node_that_is_said_to_have_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, _ = load_scenario(FILE)
    monkeypatch.setattr("query.dataflow.graph.Dataflow.gave_own_rows", lambda flow: False)
    told = [each.found for each in run_scenario(scenario, 1).checks if not each.holds]
    assert any(text.startswith("accounts:") for text in told), told


def test_a_spread_that_stays_open_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries that end without a word to who waits for them."""
    scenario, _ = load_scenario(FILE)
    monkeypatch.setattr("overlay.spread.branch.Branch.cancel", lambda branch: None)
    monkeypatch.setattr("query.engine.executor.Executor._stop", Executor._end)
    told = [each.found for each in run_scenario(scenario, 1).checks if not each.holds]
    assert any(text.startswith("leftovers:") for text in told), told


def test_a_lost_object_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishers that never look at what they published lose it to the first owner that dies."""
    scenario, _ = load_scenario(FILE)
    monkeypatch.setattr("overlay.dht.publisher.Publisher._arm", lambda publisher: None)
    told = [each.found for each in run_scenario(scenario, 4).checks if not each.holds]
    assert any(text.startswith("lost:") for text in told), told
