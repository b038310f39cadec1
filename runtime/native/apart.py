"""Computations in a process of their own: what they take of time and memory ends with them (`compute_apart`).

One worker process (`apart_worker`) is started when it is first needed, does one computation after the other, and ends
when it has had nothing to do for a while. A computation that takes too long, or more memory than it may, ends with
its process; the next one gets a new process. Requests and results are pickles on the worker's pipes, each behind its
length: the two processes are one program and trust each other.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trio

from runtime.api import OutOfMemory, OutOfTime

#: Computations that may wait for the worker.
WAITING_MAX = 64
#: A worker without work ends after this time: it holds some hundred megabytes.
IDLE_S = 60.0
#: To start a process and to import what a computation needs, on a busy machine; beside the computation's own time.
START_S = 10.0
#: A result is some megabytes; more is a fault of ours.
RESULT_BYTES_MAX = 1 << 30
LENGTH_BYTES = 8
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class _Job:
    fn: Callable[[Any], Any]
    argument: Any
    time_s: float
    memory_bytes: int
    done: Callable[[Any], None]


class Apart:
    """The worker process of one runtime, and what waits for it."""

    def __init__(self, nursery: trio.Nursery, guard: Callable[..., None]) -> None:
        self._nursery = nursery
        self._guard = guard
        self._waiting: deque[_Job] = deque()
        self._wake = trio.Event()
        self._serving = False
        self.done = self.refused = self.killed = 0

    def run(
        self,
        fn: Callable[[Any], Any],
        argument: Any,
        time_s: float,
        memory_bytes: int,
        done: Callable[[Any], None],
    ) -> bool:
        """Whether there is room for it to wait."""
        if len(self._waiting) >= WAITING_MAX:
            self.refused += 1
            return False
        self._waiting.append(_Job(fn, argument, time_s, memory_bytes, done))
        self._wake.set()
        if not self._serving:
            self._serving = True
            self._nursery.start_soon(self._serve)
        return True

    async def _serve(self) -> None:
        worker: trio.Process | None = None
        try:
            while await self._work_comes():
                job = self._waiting.popleft()
                result: Any
                try:
                    if worker is None:
                        worker = await _started()
                    result = await _answer(worker, job)
                except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    result = RuntimeError(f"no process for a computation: {error}")
                if isinstance(result, Exception) and worker is not None:
                    self.killed += 1
                    await _ended(worker)
                    worker = None
                self.done += 1
                self._guard(job.done, result)
        finally:
            self._serving = False
            if worker is not None:
                await _ended(worker)

    async def _work_comes(self) -> bool:
        if not self._waiting:
            self._wake = trio.Event()
            with trio.move_on_after(IDLE_S):
                await self._wake.wait()
        return bool(self._waiting)


async def _started() -> trio.Process:
    # The worker finds the program where this process found it, however that was started.
    paths = os.pathsep.join(path for path in sys.path if path)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "runtime.native.apart_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )
    assert isinstance(process, trio.Process)
    return process


async def _answer(worker: trio.Process, job: _Job) -> Any:
    """The result of a computation, or why there is none; after an exception the worker is not to be used again."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    request = pickle.dumps((job.fn, job.argument, job.time_s, job.memory_bytes))
    begun = None
    with trio.move_on_after(START_S):
        await worker.stdin.send_all(len(request).to_bytes(LENGTH_BYTES, "big") + request)
        # The worker says when it begins, so that its start is not part of the computation's time.
        begun = await _received(worker.stdout, 1)
    if begun is None:
        return RuntimeError("the process for computations did not start")
    with trio.move_on_after(job.time_s):
        length = await _received(worker.stdout, LENGTH_BYTES)
        if length is None:
            return OutOfMemory(f"it took more than {job.memory_bytes >> 20} MB, or its process was ended")
        size = int.from_bytes(length, "big")
        reply = None if size > RESULT_BYTES_MAX else await _received(worker.stdout, size)
        if reply is None:
            return RuntimeError("the process for computations broke off in its answer")
        return pickle.loads(reply)
    return OutOfTime(f"it took longer than {job.time_s:g} s")


async def _received(stream: trio.abc.ReceiveStream, count: int) -> bytes | None:
    """So many bytes; None at the end of the stream."""
    parts: list[bytes | bytearray] = []
    while count:
        part = await stream.receive_some(min(count, _CHUNK_BYTES))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


async def _ended(worker: trio.Process) -> None:
    worker.kill()
    with trio.CancelScope(shield=True):
        await worker.wait()
        for stream in (worker.stdin, worker.stdout):
            if stream is not None:
                await stream.aclose()
