"""The short form of bench/soak.py: processes under load do not grow."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import GROWTH_MAX, Samples, Soak, soak
from pier_node.cluster.directory import ClusterDir

pytestmark = pytest.mark.processes

NODES, DURATION_S = 2, 18.0


@pytest.mark.trio
async def test_a_short_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    verdict = await soak(tmp_path, NODES, DURATION_S, clients=3, pause_s=0.05)
    print(verdict)
    assert verdict["holds"], verdict
    assert verdict["failures"] == 0, verdict
    assert sum(verdict["done"].values()) > 30, verdict  # type: ignore[attr-defined]


def test_growth_is_noticed(tmp_path: Path) -> None:
    run = Soak(ClusterDir(tmp_path), 90.0, 0.1)
    grown = int(100e6 * (1 + 2 * GROWTH_MAX))
    leaking = Samples(
        [(float(t), 100_000_000 if t < 60 else grown) for t in range(90)], [(float(t), t) for t in range(90)]
    )
    run.samples["n"] = leaking
    problems = run.verdict()["problems"]
    assert isinstance(problems, list) and len(problems) == 2, problems
