"""Sixteen processes, a quarter of them killed with -9 while others read, then started again: the ring is whole, the
published table complete after its renewal period, and no read failed for good."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from subprocess import Popen

import pyarrow as pa
import pytest
import trio

from pier_node.client import Connection, RequestFailed
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir

pytestmark = [pytest.mark.processes, pytest.mark.trio]

NODES, KILLED = 16, 4
ROWS = 400
LIFETIME_S = 10.0
#: A node renews after this share of the lifetime at the latest and puts again what was lost; the rest is for the
#: machine, which has better things to do than start processes.
COMPLETE_WITHIN_S = LIFETIME_S + 30.0
READERS = 8
P99_S_MAX = 1.0
COUNT = """
%opgraph(here) {
    %operator(s) { type = scan implementation = DHT ns = kept }
    %operator(c) { type = groupby sources[0] = s aggregates[n] = count() mode = partial }
    %operator(p) { type = put implementation = IP sources[0] = c channel = all }
}
%opgraph(all) {
    at = asker
    %operator(a) { type = scan implementation = IP channel = all }
    %operator(c) { type = groupby sources[0] = a aggregates[n] = count() mode = final }
    %operator(r) { type = result sources[0] = c }
}
"""


class Reader:
    """Reads keys one after the other; a read that is refused is tried again, and all of it is one read."""

    def __init__(self, conn: Connection, number: int) -> None:
        self.conn = conn
        self.number = number
        self.times_s: list[float] = []
        self.failed = 0
        self.stop = False

    async def run(self) -> None:
        key = self.number
        while not self.stop:
            began_s = trio.current_time()
            for _ in range(3):
                try:
                    await self.conn.get("kept", f"k{key % ROWS}")
                    break
                except RequestFailed:
                    await trio.sleep(0)
            else:
                self.failed += 1
            self.times_s.append(trio.current_time() - began_s)
            key += READERS
            await trio.sleep(0.005)


async def count(conn: Connection) -> tuple[int, int]:
    """Rows of the table, and nodes that told how many they have."""
    answer = conn.query(COUNT, "ufl", allow_partial=True)
    rows = (await answer.table()).to_pylist()
    assert answer.account is not None
    return sum(row["n"] for row in rows), answer.account.answered + answer.account.empty


async def form(directory: ClusterDir, started: list[Popen[bytes]]) -> None:
    nodes = processes.prepare(directory, NODES)
    started += processes.start_missing(nodes)
    ring = await processes.wait_formed(directory, nodes, started)
    assert len(ring.nodes) == NODES


async def test_a_quarter_is_killed_and_comes_back(tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path)
    started: list[Popen[bytes]] = []
    try:
        await form(directory, started)
        await lose_and_recover(directory, started)
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


async def lose_and_recover(directory: ClusterDir, started: list[processes.subprocess.Popen[bytes]]) -> None:
    states = directory.running()
    async with processes.connect_to(directory, states[-1]) as conn:
        rows = pa.table({"k": [f"k{n}" for n in range(ROWS)], "n": list(range(ROWS))})
        published = await conn.publish("kept", rows.to_batches(), ["k"], LIFETIME_S)
        assert (published.rows, published.refused) == (ROWS, 0)
        assert await count(conn) == (ROWS, NODES)
        await kill_while_reading(conn, [state.pid for state in states[:KILLED]])
        del started[:KILLED]
        await form(directory, started)
        assert {state.node_id for state in directory.running()} == {state.node_id for state in states}
        with trio.fail_after(COMPLETE_WITHIN_S):
            while await count(conn) != (ROWS, NODES):
                await trio.sleep(0.2)


async def kill_while_reading(conn: Connection, victims: list[int]) -> None:
    readers = [Reader(conn, number) for number in range(READERS)]
    async with trio.open_nursery() as nursery:
        for reader in readers:
            nursery.start_soon(reader.run)
        await trio.sleep(0.5)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        await trio.sleep(6.0)
        for reader in readers:
            reader.stop = True
    times_s = sorted(time_s for reader in readers for time_s in reader.times_s)
    assert sum(reader.failed for reader in readers) == 0
    assert len(times_s) > 500
    assert times_s[int(len(times_s) * 0.99)] < P99_S_MAX, times_s[-20:]
