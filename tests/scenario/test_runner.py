"""Running scenarios: faults strike as written, checks judge, workloads of others plug in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pier_node.scenario import Workload, load_scenario, parse_scenario, register_workload, run_scenario
from pier_node.scenario.form import Form
from runtime.message import Message
from runtime.sim import SimHost

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
BASE = """
name = "x"
nodes = 40
duration_s = 20.0
[workload]
kind = "exchange"
"""


@pytest.mark.parametrize(
    "name", ["exchange", "everything-goes-wrong", "fan-in", "two-flows", "lossy-flow", "dead-peer"]
)
def test_the_scenarios_that_come_with_the_product_hold(name: str) -> None:
    scenario, latencies = load_scenario(SCENARIOS / f"{name}.toml")
    result = run_scenario(scenario, 11, latencies=latencies)
    assert result.holds, [verdict for verdict in result.checks if not verdict.holds]


def test_a_healthy_network_answers_everything_and_a_fault_shows() -> None:
    healthy = run_scenario(parse_scenario(BASE), 1)
    assert healthy.figures["answered_ratio"] == 1.0
    cut = run_scenario(
        parse_scenario(BASE + '[[faults]]\nkind = "partition"\nfraction = 0.5\nat_s = 5\nuntil_s = 10'), 1
    )
    assert 0.80 < cut.figures["answered_ratio"] < 0.95, "half of a quarter of the requests"
    assert cut.traffic["drops"].keys() == {"partitioned"}


@pytest.mark.parametrize(("one_way", "least", "most"), [("false", 0.80, 0.95), ("true", 0.80, 0.97)])
def test_a_share_of_the_pairs_is_cut_for_a_while(one_way: str, least: float, most: float) -> None:
    fault = f'[[faults]]\nkind = "pairs"\nfraction = 0.5\none_way = {one_way}\nat_s = 5\nuntil_s = 10'
    cut = run_scenario(parse_scenario(BASE + fault), 1)
    assert least < cut.figures["answered_ratio"] < most
    assert cut.traffic["drops"].keys() == {"partitioned"}


def test_crashed_hosts_come_back_and_the_spared_are_spared() -> None:
    text = BASE + '[[faults]]\nkind = "crash"\ncount = 50\nspare = 35\nat_s = 5\nrestart_after_s = 3'
    result = run_scenario(parse_scenario(text), 1)
    assert (result.faults["crashed"], result.faults["restarted"]) == (5, 5)
    assert result.holds


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        ('figure = "answered_ratio"\nat_least = 0.99', True),
        ('figure = "latency_s.p50"\nat_most = 0.05', False),
        ('figure = "traffic.failed"\nequals = 0', True),
        ('figure = "no.such.figure"\nat_least = 0', False),
    ],
)
def test_checks_judge_figures(check: str, holds: bool) -> None:
    result = run_scenario(parse_scenario(f"{BASE}[[checks]]\n{check}"), 1)
    assert result.holds is holds


class Ring(Message, frozen=True, tag=1):
    hops: int


class RingForm(Form, frozen=True):
    laps: int = 2


@register_workload("test-ring")
class RingWorkload(Workload[RingForm]):
    """A token goes round: what a workload needs at least."""

    form = RingForm
    messages = (Ring,)
    hops = 0

    def build(self, host: SimHost) -> None:
        def pass_on(_: str, ring: Ring) -> None:
            self.hops = ring.hops
            following = self.world.hosts[(host.index + 1) % len(self.world.hosts)]
            if ring.hops < self.form_values.laps * len(self.world.hosts):
                host.messenger.send(following.address, Ring(ring.hops + 1))

        host.messenger.on(Ring, pass_on)

    def start(self) -> None:
        first = self.world.hosts[0]
        first.messenger.send(first.address, Ring(0))

    def figures(self) -> dict[str, Any]:
        return {"hops": self.hops}

    def check(self) -> list[str]:
        whole = self.form_values.laps * len(self.world.hosts)
        return [] if self.hops == whole else [f"the token made {self.hops} of {whole} hops"]


def test_a_workload_of_ones_own_plugs_in_and_its_own_check_counts() -> None:
    text = BASE.replace('"exchange"', '"test-ring"\nlaps = 3')
    result = run_scenario(parse_scenario(text), 1)
    assert (result.figures, result.holds) == ({"hops": 120}, True)
    lost = run_scenario(parse_scenario(text + '[[faults]]\nkind = "crash"\ncount = 5\nat_s = 2'), 1)
    assert not lost.holds
    assert "hops" in lost.checks[0].found
