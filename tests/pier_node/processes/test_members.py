"""Members of a ring of real processes: who was killed is named in every answer until it is back or retired, and two
lives of one id do not live side by side."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import trio

from pier_node.client import Connection, RequestFailed
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir, ClusterNode
from pier_node.data_dir import DataDir, NodeState
from pier_node.process import EXIT_PUT_OUT
from pier_node.protocol.messages import Account

pytestmark = [pytest.mark.processes, pytest.mark.trio]

NODES, ROWS = 4, 200
SOURCE, PUBLISHED = "SELECT count(*) AS n FROM r", "SELECT count(*) AS n FROM kept"


@asynccontextmanager
async def cluster(path: Path, *, keys: bool) -> AsyncIterator[ClusterDir]:
    """Every node brings two rows of `r`."""
    directory = ClusterDir(path)
    if keys:
        directory.keys.make(["127.0.0.1"])
    rows = path / "r.csv"
    path.mkdir(exist_ok=True)
    rows.write_text("a,b\n1,2\n3,4\n")
    nodes = processes.prepare(directory, NODES, [f"r=csv:{rows}"])
    started = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        yield directory
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


async def ask(conn: Connection, text: str) -> tuple[int, Account]:
    answer = conn.query(text, allow_partial=True)
    table = await answer.table()
    assert answer.account is not None
    return sum(row["n"] for row in table.to_pylist()), answer.account


async def publish(conn: Connection) -> None:
    rows = pa.table({"k": [f"k{n}" for n in range(ROWS)], "n": list(range(ROWS))})
    published = await conn.publish("kept", rows.to_batches(), ["k"], 20.0)
    assert (published.rows, published.refused) == (ROWS, 0)


async def until_whole(conn: Connection, text: str, asked: int, within_s: float = 60.0) -> Account:
    with trio.fail_after(within_s):
        while True:
            _, account = await ask(conn, text)
            if account.ended == "complete" and account.asked == asked:
                return account
            await trio.sleep(0.2)


def kill(state: NodeState) -> None:
    os.kill(state.pid, signal.SIGKILL)
    os.waitpid(state.pid, 0)


async def states_of(conn: Connection) -> dict[str, str]:
    return {entry.id: entry.state for entry in await conn.members()}


async def test_a_killed_host_is_in_every_answer_until_it_is_back_or_retired(tmp_path: Path) -> None:
    async with cluster(tmp_path, keys=False) as directory:
        asked, victim = directory.running()[0], directory.running()[2]
        async with processes.connect_to(directory, asked) as conn:
            await publish(conn)
            await until_whole(conn, SOURCE, NODES)
            kill(victim)
            await missed_all_the_time(conn, victim)
            assert (await states_of(conn))[victim.node_id] == "absent"
            again = processes.start_missing(directory.nodes())
            await until_whole(conn, SOURCE, NODES)
            assert set((await states_of(conn)).values()) == {"here"}
            kill(victim_now := await state_of(directory, victim.node_id))
            await missed_all_the_time(conn, victim_now)
            with pytest.raises(RequestFailed, match="on the ring"):
                await conn.retire(asked.node_id)
            await conn.retire(victim.node_id[:10])
            assert (await ask(conn, SOURCE))[1].ended == "complete"
            await until_whole(conn, PUBLISHED, NODES - 1)
            assert (await states_of(conn))[victim.node_id] == "retired"
        for process in again:
            process.wait()


async def state_of(directory: ClusterDir, node_id: str) -> NodeState:
    (state,) = [state for state in directory.running() if state.node_id == node_id]
    return state


async def missed_all_the_time(conn: Connection, victim: NodeState) -> None:
    """While its neighbours doubt it, and when they have given it up: no answer is complete, and from then on each of
    them names it."""
    named = 0
    with trio.fail_after(60.0):
        while named < 10:
            for text in (SOURCE, PUBLISHED):
                _, account = await ask(conn, text)
                assert account.ended != "complete", (text, account)
                told = account.answered + account.empty + account.failed + account.unreachable
                assert (account.asked, account.asked + account.absent) == (told, NODES), account
                if account.absent:
                    named += 1
                    assert victim.node_id[:12] in account.absent_hosts[0]
                    assert any(victim.node_id[:12] in note for note in account.notes)
            await trio.sleep(0.2)


async def test_a_ring_that_starts_anew_remembers_whom_it_has_lost(tmp_path: Path) -> None:
    async with cluster(tmp_path, keys=False) as directory:
        lost = directory.running()[3]
        async with processes.connect_to(directory, directory.running()[0]) as conn:
            await until_whole(conn, SOURCE, NODES)
        await trio.sleep(5.0)
        for state in directory.running():
            kill(state)
        left = [node for node in directory.nodes() if node.data.path.name != "n04"]
        again = processes.start_missing(left)
        await processes.wait_formed(directory, left, again)
        async with processes.connect_to(directory, directory.running()[0]) as conn:
            _, account = await ask(conn, SOURCE)
            assert (account.ended, account.asked, account.absent) == ("partial", NODES - 1, 1)
            assert lost.node_id[:12] in account.absent_hosts[0]
        await processes.stop(directory)
        for process in again:
            process.wait()


@pytest.mark.parametrize("keys", [False, True])
async def test_of_two_lives_of_one_id_the_later_is_put_out(tmp_path: Path, keys: bool) -> None:
    async with cluster(tmp_path / "c", keys=keys) as directory:
        original = directory.nodes()[2]
        before = original.running()
        assert before is not None
        clone = copied(original, tmp_path / "copy")
        async with processes.connect_to(directory, before) as conn:
            await publish(conn)
            await until_whole(conn, PUBLISHED, NODES)
            process = started(clone, [state.address for state in directory.running()])
            try:
                wrong = []
                with trio.fail_after(30.0):
                    while process.poll() is None:
                        rows, account = await ask(conn, PUBLISHED)
                        if account.ended == "complete" and rows != ROWS:
                            wrong.append((rows, account))
                        await trio.sleep(0.05)
            finally:
                process.kill()
                process.wait()
            assert process.returncode == EXIT_PUT_OUT
            assert not wrong, wrong
            said = (clone / "node.log").read_text()
            assert "put out" in said and before.node_id in said and before.address in said
            assert "another node has this node's id" in original.log_file.read_text()
            remarks = (await conn.status()).remarks
            assert len(remarks) == 1 and "it began later and is put out" in remarks[0]
            assert original.running() == before
            await until_whole(conn, SOURCE, NODES)
            assert set((await states_of(conn)).values()) == {"here"}


def copied(original: ClusterNode, folder: Path) -> Path:
    """The data directory as it is, copied to where another host would have it; only addresses are its own."""
    shutil.copytree(original.data.path, folder)
    for name in ("node.lock", "node.json", "node.log"):
        (folder / name).unlink(missing_ok=True)
    ((port, client_port),) = processes.free_ports(1)
    lines = []
    for line in original.config_file.read_text().splitlines():
        if line.startswith("listen"):
            line = f'listen = "127.0.0.1:{port if "[client]" not in lines else client_port}"'
        lines.append(line.replace(str(original.data.path.resolve()), str(folder)))
    (folder / "pier.toml").write_text("\n".join(lines) + "\n")
    return folder


def started(folder: Path, gateways: list[str]) -> subprocess.Popen[bytes]:
    return processes.spawn(ClusterNode(folder.name, DataDir(folder)), gateways)
