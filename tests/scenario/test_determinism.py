"""One seed, one trace: over processes, hash seeds, and whether messages are objects or bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pier_node.scenario import Result, parse_scenario, run_scenario

ROOT = Path(__file__).resolve().parents[2]
#: Everything that could follow an address or a hash: thousands of hosts, crashes, churn, partitions, streams of
#: random numbers. Below about a thousand objects, set order by address often agrees by luck.
SCENARIO = """
name = "determinism"
nodes = 2_000
duration_s = 8.0
drain_s = 16.0
[topology]
kind = "king"
sites = 64
[links]
kind = "fifo"
[network]
serialise = {serialise}
[workload]
kind = "exchange"
[[faults]]
kind = "loss"
rate = 0.05
[[faults]]
kind = "reordering"
rate = 0.1
[[faults]]
kind = "crash"
at_s = 2.0
fraction = 0.2
restart_after_s = 2.0
[[faults]]
kind = "partition"
at_s = 3.0
until_s = 5.0
fraction = 0.3
[[faults]]
kind = "churn"
at_s = 1.0
session_median_s = 30.0
[[faults]]
kind = "slow"
fraction = 0.1
[[faults]]
kind = "skew"
fraction = 0.5
"""


def run(seed: int, serialise: bool = False, nodes: int | None = None, level: str = "message") -> Result:
    text = SCENARIO.format(serialise=str(serialise).lower())
    text = text.replace("[network]", f'[network]\nlevel = "{level}"')
    if nodes is not None:
        text = text.replace("2_000", str(nodes))
    return run_scenario(parse_scenario(text), seed)


def in_process(hash_seed: str, arguments: str) -> str:
    """The same in a process of its own."""
    code = (
        "from tests.scenario.test_determinism import run; import msgspec;"
        f"print(msgspec.json.encode(run(7, {arguments})).decode())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout


def test_one_seed_gives_one_trace_over_processes_hash_seeds_and_serialisation() -> None:
    outputs = {
        in_process("0", "serialise=False"),
        in_process("4242", "serialise=True"),
        in_process("random", "serialise=False"),
    }
    assert len(outputs) == 1
    assert '"holds":true' in outputs.pop()


def test_the_same_holds_for_the_real_transport_at_packet_level() -> None:
    outputs = {in_process(hash_seed, "nodes=100, level='packet'") for hash_seed in ("0", "4242")}
    assert len(outputs) == 1
    assert '"holds":true' in outputs.pop()


def test_another_seed_gives_another_trace() -> None:
    hashes = {run(seed, nodes=50).trace_hash for seed in range(5)}
    assert len(hashes) == 5


@pytest.mark.parametrize("serialise", [False, True])
def test_a_run_repeats_within_one_process(serialise: bool) -> None:
    assert run(3, serialise, nodes=50) == run(3, not serialise, nodes=50)
