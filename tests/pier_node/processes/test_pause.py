"""A node whose process stands still for some seconds and goes on, while others are asked for a published table: no
answer that calls itself complete has a row twice or too few, and soon after all of them are complete again."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from subprocess import Popen

import pyarrow as pa
import pytest
import trio

from pier_node.client import Connection
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir

pytestmark = [pytest.mark.processes, pytest.mark.trio]

NODES = 8
ROWS = 600
LIFETIME_S = 600.0
#: Shorter than its neighbours' patience, and longer.
PAUSES_S = (4.0, 9.0)
#: How long after a pause the answers may be partial, on a machine that has better things to do.
WELL_AGAIN_S = 20.0
#: So many complete answers in a row, and it is well.
WELL = 5
QUESTIONS = (
    "SELECT count(*) AS n FROM kept",
    "SELECT a.k AS k FROM kept a JOIN kept b ON a.k = b.k",
    "SELECT k FROM kept WHERE k = 'k7'",
)


class Judge:
    """Asks all the time, and remembers what was wrong."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.ended: Counter[str] = Counter()
        self.complete_in_a_row = 0

    async def ask(self, conn: Connection, text: str) -> None:
        answer = conn.query(text, allow_partial=True)
        rows = await answer.table()
        account = answer.account
        assert account is not None
        self.ended[account.ended] += 1
        if account.ended != "complete":
            self.complete_in_a_row = 0
            return
        self.complete_in_a_row += 1
        if "n" in rows.column_names:
            counted, expected = sum(rows.column("n").to_pylist()), ROWS
        else:
            expected = 1 if "WHERE" in text else ROWS
            keys = rows.column("k").to_pylist()
            counted = len(keys) if len(set(keys)) == len(keys) else -len(keys)
        if counted != expected:
            self.wrong.append(f"{text}: {counted} and not {expected}: {account}")

    async def ask_until(self, conn: Connection, over: trio.Event) -> None:
        number = 0
        while not over.is_set():
            await self.ask(conn, QUESTIONS[number % len(QUESTIONS)])
            number += 1


async def test_a_node_that_stood_still_does_not_answer_twice(tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path)
    nodes = processes.prepare(directory, NODES)
    started: list[Popen[bytes]] = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        await pause_and_judge(directory)
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


async def pause_and_judge(directory: ClusterDir) -> None:
    states = directory.running()
    async with (
        processes.connect_to(directory, states[0]) as publisher,
        processes.connect_to(directory, states[1]) as one,
        processes.connect_to(directory, states[2]) as other,
    ):
        table = pa.table({"k": [f"k{n}" for n in range(ROWS)], "n": list(range(ROWS))})
        published = await publisher.publish("kept", table.to_batches(), ["k"], LIFETIME_S)
        assert (published.rows, published.refused) == (ROWS, 0)
        judge = Judge()
        for pid, pause_s in zip([state.pid for state in states[-2:]], PAUSES_S, strict=True):
            over = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(judge.ask_until, one, over)
                nursery.start_soon(judge.ask_until, other, over)
                await trio.sleep(1.0)
                os.kill(pid, signal.SIGSTOP)
                try:
                    await trio.sleep(pause_s)
                finally:
                    os.kill(pid, signal.SIGCONT)
                judge.complete_in_a_row = 0
                with trio.fail_after(WELL_AGAIN_S):
                    while judge.complete_in_a_row < WELL:
                        await trio.sleep(0.1)
                over.set()
        assert not judge.wrong, judge.wrong[:3]
        assert judge.ended["complete"] >= 2 * WELL and judge.ended["failed"] == 0, judge.ended
        print(judge.ended)
