"""Runs one scenario with one seed: builds the world, starts the load, lets things go wrong, judges the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from pier_node.scenario.build import build_links, build_topology
from pier_node.scenario.checks import Check, Verdict, make_check
from pier_node.scenario.form import Scenario
from pier_node.scenario.mischief import Mischief
from pier_node.scenario.parse import convert, split_kind
from pier_node.scenario.transport import caught_exceptions, sealed_transport
from pier_node.scenario.workload import Workload, find_workload
from runtime.message import Codec
from runtime.sim import ComputeModel, MessageConfig, MessengerFactory, Retransmission, SimHost, World


class Result(msgspec.Struct, frozen=True):
    """Everything here follows from the scenario and the seed."""

    scenario: str
    seed: int
    nodes: int
    level: str
    simulated_s: float
    events: int
    traffic: dict[str, Any]
    faults: dict[str, int]
    figures: dict[str, Any]
    checks: list[Verdict]
    holds: bool
    trace_hash: str


def run_scenario(
    scenario: Scenario,
    seed: int,
    *,
    latencies: str | None = None,
    packet_messenger: MessengerFactory | None = None,
) -> Result:
    """`latencies` is the text of the file that a matrix topology names. `packet_messenger` replaces the shipped
    transport at packet level."""
    kind, table = split_kind(scenario.workload, "workload")
    workload_type = find_workload(kind)
    form = convert(table, workload_type.form, "workload")
    checks = [make_check(check, f"checks[{number}]") for number, check in enumerate(scenario.checks)]
    world = _build_world(scenario, seed, latencies, workload_type, packet_messenger)
    workload = workload_type(world, form)
    mischief = Mischief(world, workload.build, scenario.duration_s)
    mischief.schedule(scenario.faults)
    _arrive(scenario, world, workload.build)
    with world.settled():
        world.run_until(scenario.arrival_s)
    with world.settled():
        workload.start()
        world.run_until(scenario.duration_s)
        workload.stop()
        world.run_for(scenario.drain_s)
    return _result(scenario, seed, world, workload, mischief, checks)


def _build_world(
    scenario: Scenario,
    seed: int,
    latencies: str | None,
    workload: type[Workload[Any]],
    packet_messenger: MessengerFactory | None,
) -> World:
    network = scenario.network
    if packet_messenger is None:
        packet_messenger = sealed_transport(seed)
    retransmission = Retransmission(give_up_s=network.give_up_s)
    return World(
        seed=seed,
        topology=build_topology(scenario.topology, seed, latencies),
        codec=Codec(workload.messages),
        links=build_links(scenario.links),
        serialise=network.serialise,
        messenger=packet_messenger if network.level == "packet" else None,
        messages=MessageConfig(header_bytes=network.header_bytes, retransmission=retransmission),
        compute=ComputeModel(cost_s=network.compute_s, fudge_factor=network.fudge_factor),
    )


def _arrive(scenario: Scenario, world: World, build: Callable[[SimHost], None]) -> None:
    """Hosts exist from the start, in order; their nodes are built one after the other over `arrival_s`."""
    step_s = scenario.arrival_s / scenario.nodes
    for number in range(scenario.nodes):
        world.call_at(number * step_s, build, world.add_host())


def _result(
    scenario: Scenario,
    seed: int,
    world: World,
    workload: Workload[Any],
    mischief: Mischief,
    checks: list[Check[Any]],
) -> Result:
    traffic = msgspec.to_builtins(world.statistics())
    faults = mischief.figures()
    figures = dict(workload.figures())
    everything = {**figures, "traffic": traffic, "faults": faults}
    verdicts = [check.judge(everything) for check in checks]
    verdicts += [Verdict("workload", False, complaint) for complaint in workload.check()]
    if caught := caught_exceptions(world):
        verdicts.append(Verdict("no exceptions", False, f"transports caught {caught}; they are in the log"))
    return Result(
        scenario=scenario.name,
        seed=seed,
        nodes=scenario.nodes,
        level=scenario.network.level,
        simulated_s=round(world.now, 6),
        events=world.wheel.run,
        traffic=traffic,
        faults=faults,
        figures=figures,
        checks=verdicts,
        holds=all(verdict.holds for verdict in verdicts),
        trace_hash=world.trace_hash(),
    )
