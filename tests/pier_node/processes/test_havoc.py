"""The short form of bench/havoc: no answer that calls itself complete is wrong, whatever happens to the hosts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.havoc.run import havoc

pytestmark = [pytest.mark.processes, pytest.mark.trio]

HOSTS, DURATION_S, LONGEST_S = 4, 45.0, 8.0


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_short_havoc(tmp_path: Path, seed: int) -> None:
    verdict = await havoc(tmp_path, HOSTS, DURATION_S, seed, print, clients=2, longest_s=LONGEST_S)
    print(verdict)
    assert verdict["holds"], verdict["wrong"]
    assert verdict["answers"]["complete and right"] > 50, verdict  # type: ignore[index]
