"""Computations in a process of their own: results come back, and time and memory end with their bounds."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from runtime.api import OutOfMemory, OutOfTime
from runtime.native import open_native
from runtime.native.apart import WAITING_MAX
from tests.runtime.native import jobs

pytestmark = pytest.mark.trio

MEMORY_BYTES = 256 << 20


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(30):
        while not condition():
            await trio.sleep(0.01)


async def test_computations_run_one_after_the_other_in_another_process() -> None:
    async with open_native() as runtime:
        results: list[Any] = []
        for number in range(3):
            runtime.compute_apart(jobs.pid, number, 5.0, MEMORY_BYTES, results.append)
        await until(lambda: len(results) == 3)
        pids = {pid for _, pid in results}
        assert [number for number, _ in results] == [0, 1, 2]
        assert len(pids) == 1 and os.getpid() not in pids
        worker = pids.pop()
        assert Path(f"/proc/{worker}").exists()
        assert runtime.statistics().computations_apart == 3
    assert not Path(f"/proc/{worker}").exists(), "it ends with its runtime"


async def test_what_takes_too_long_or_too_much_is_ended_and_the_next_one_runs() -> None:
    async with open_native() as runtime:
        results: list[Any] = []
        runtime.compute_apart(jobs.forever, 0, 0.3, MEMORY_BYTES, results.append)
        runtime.compute_apart(jobs.large, 1_000, 5.0, MEMORY_BYTES, results.append)
        runtime.compute_apart(jobs.large, 100, 5.0, MEMORY_BYTES, results.append)
        runtime.compute_apart(jobs.death, 3, 5.0, MEMORY_BYTES, results.append)
        runtime.compute_apart(jobs.wrong, 0, 5.0, MEMORY_BYTES, results.append)
        runtime.compute_apart(jobs.pid, 7, 5.0, MEMORY_BYTES, results.append)
        await until(lambda: len(results) == 6)
        assert isinstance(results[0], OutOfTime)
        assert isinstance(results[1], OutOfMemory)
        assert results[2] == 100 << 20
        assert isinstance(results[3], OutOfMemory)
        assert isinstance(results[4], RuntimeError) and "ZeroDivisionError" in str(results[4])
        assert results[5][0] == 7
        assert runtime.statistics().computations_ended == 4


async def test_the_loop_goes_on_meanwhile_and_waiting_is_bounded() -> None:
    async with open_native() as runtime:
        results: list[Any] = []
        for _ in range(WAITING_MAX + 3):
            runtime.compute_apart(jobs.forever, 0, 60.0, MEMORY_BYTES, results.append)
        await until(lambda: len(results) >= 2)
        assert all(isinstance(result, RuntimeError) for result in results)
        ticks: list[None] = []
        runtime.call_later(0.05, ticks.append, None)
        await until(lambda: bool(ticks))
