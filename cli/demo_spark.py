"""The demo's Spark job as a process beside it: fed while the live answers run, asked at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from cli.failure import CommandFailed

if TYPE_CHECKING:
    from cli.demo_traffic import World

#: For each step of the job, on a slow machine.
STEP_TIMEOUT_S = 240.0
_TAIL_CHARS = 1_500


class SparkJob:
    """A running `pyspark_pier.demo_job`."""

    def __init__(self, process: trio.Process, errors: Path) -> None:
        self._process = process
        self._errors = errors
        self._lines = bytearray()

    async def fed(self) -> None:
        """Waits until both tables are there, and says so."""
        print("Spark feeds two tables meanwhile … ", end="", flush=True)
        session = await self._step("session")
        reputation = await self._step("reputation")
        history = await self._step("history")
        lines = await self._step("lines")
        print(
            f"it was up after {session['seconds']} s, fed the reputation table ({reputation['seconds']} s)\n"
            f"and {lines['parsed']:,} old events from raw logs ({history['seconds']} s).",
            flush=True,
        )

    async def collected(self, query: str) -> list[dict[str, Any]]:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(f"{query}\n".encode())
        rows: list[dict[str, Any]] = (await self._step("collected"))["rows"]
        return rows

    async def _step(self, name: str) -> dict[str, Any]:
        assert self._process.stdout is not None
        with trio.move_on_after(STEP_TIMEOUT_S):
            while True:
                line, newline, rest = bytes(self._lines).partition(b"\n")
                if newline:
                    self._lines = bytearray(rest)
                    if line.startswith(b"{"):
                        told: dict[str, Any] = json.loads(line)
                        assert told["step"] == name, f"{name} was expected, {told['step']} came"
                        return told
                    continue
                data = await self._process.stdout.receive_some(65_536)
                if not data:
                    break
                self._lines += data
        tail = self._errors.read_text(errors="replace")[-_TAIL_CHARS:]
        raise CommandFailed(
            f"the Spark job did not get to {name!r}; --no-spark does without. It said:\n{tail}"
        )


@asynccontextmanager
async def spark_job(world: World, directory: Any, *, wanted: bool) -> AsyncIterator[SparkJob | None]:
    """Starts the job, unless it is not wanted; ends it on the way out."""
    if not wanted:
        yield None
        return
    nodes = ",".join(state.client_address for state in directory.running())
    arguments = [nodes, str(world.reputation), str(world.old_logs), str(world.folder / "summary.parquet")]
    with tempfile.TemporaryDirectory(prefix="pier-demo-spark-") as folder:
        errors = Path(folder) / "stderr"
        with errors.open("wb") as log:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-m", "pyspark_pier.demo_job", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=folder,
            )
        try:
            yield SparkJob(process, errors)
        finally:
            with trio.CancelScope(shield=True):
                process.terminate()
                with trio.move_on_after(15):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()
