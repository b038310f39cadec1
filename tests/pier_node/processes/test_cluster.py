"""A cluster of real processes: forming, losing nodes, getting them back, with and without keys."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pier_node.client import ConnectFailed, PierError, connect
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir, ClusterNode
from pier_node.config.addresses import split_address
from pier_node.key_files import rotate_keyring

pytestmark = [pytest.mark.processes, pytest.mark.trio]
PATIENCE_S = 60.0


@asynccontextmanager
async def cluster(path: Path, count: int, *, keys: bool = False) -> AsyncIterator[ClusterDir]:
    directory = ClusterDir(path)
    if keys:
        directory.keys.make(["127.0.0.1"])
    started = await start(directory, count)
    try:
        yield directory
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


async def start(directory: ClusterDir, count: int) -> list[processes.subprocess.Popen[bytes]]:
    nodes = processes.prepare(directory, count)
    started = processes.start_missing(nodes)
    ring = await processes.wait_formed(directory, nodes, started)
    assert len(ring.nodes) == count
    return started


async def test_a_quarter_is_killed_and_comes_back(tmp_path: Path) -> None:
    """Of four; of sixteen, with a table and readers, in `test_churn.py`."""
    count, killed = 4, 1
    async with cluster(tmp_path, count) as directory:
        before = {state.node_id for state in directory.running()}
        for victim in directory.running()[:killed]:
            os.kill(victim.pid, signal.SIGKILL)
            os.waitpid(victim.pid, 0)
        reports = await processes.report(directory)
        assert [report.state is None for report in reports] == [True] * killed + [False] * (count - killed)
        again = await start(directory, count)
        assert len(again) == killed
        assert {state.node_id for state in directory.running()} == before
        await exchange(directory)
        for process in again:
            process.terminate()
            assert await trio.to_thread.run_sync(process.wait) == 0


async def exchange(directory: ClusterDir) -> None:
    """What one node puts, another gets."""
    first, *_, last = directory.running()
    async with (
        processes.connect_to(directory, first) as here,
        processes.connect_to(directory, last) as there,
    ):
        for number in range(20):
            await here.put("t", str(number), b"v%d" % number, lifetime_s=60.0)
        for number in range(20):
            assert await there.get("t", str(number)) == [("", b"v%d" % number)]


async def test_a_cluster_stops_whole_and_starts_again_as_itself(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as directory:
        before = {(state.node_id, state.address) for state in directory.running()}
        assert await processes.stop(directory) == (2, 0)
        assert directory.running() == []
        again = await start(directory, 2)
        assert {(state.node_id, state.address) for state in directory.running()} == before
        await processes.stop(directory)
        for process in again:
            process.wait()


async def test_a_frozen_node_is_stopped_by_force(tmp_path: Path) -> None:
    async with cluster(tmp_path, 2) as directory:
        frozen = directory.running()[1]
        os.kill(frozen.pid, signal.SIGSTOP)
        assert await processes.stop(directory, timeout_s=4.0) == (2, 1)


async def test_keys_protect_a_cluster_and_rotate_while_it_runs(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3, keys=True) as directory:
        state = directory.running()[0]
        host, port = split_address(state.client_address)
        with pytest.raises(ConnectFailed):
            async with connect(host, port, timeout_s=5):
                raise AssertionError("connected without TLS")
        for changes in (1, 2):
            ring = rotate_keyring(directory.keys.keyring)
            with trio.fail_after(PATIENCE_S):
                while not all(followed(node, changes) for node in directory.nodes()):
                    await trio.sleep(0.1)
            await exchange(directory)
        assert ring.staged is None and len(ring.keys) == 2
        async with processes.connect_to(directory, state) as conn:
            assert len((await conn.ring(whole=True)).nodes) == 3


def followed(node: ClusterNode, changes: int) -> bool:
    """Whether a node says it has taken so many new keyrings."""
    return node.log_file.read_text().count("keyring changed") >= changes


async def test_a_bad_configuration_says_which_node_and_why(tmp_path: Path) -> None:
    directory = ClusterDir(tmp_path)
    nodes = processes.prepare(directory, 1)
    nodes[0].config_file.write_text("[node]\nlisten = 'nowhere'\n[client]\n")
    started = processes.start_missing(nodes)
    with pytest.raises(processes.ClusterError, match=r"(?s)n01.node\.log says:.*node\.listen"):
        await processes.wait_formed(directory, nodes, started)


async def test_bytes_of_any_kind_on_the_client_port_do_no_harm(tmp_path: Path) -> None:
    async with cluster(tmp_path, 1) as directory:
        (state,) = directory.running()
        host, port = split_address(state.client_address)
        for noise in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\xff" * 100_000,
            b"\x00\x00\x00\x02\xc1\xc1",
            b"\x16\x03\x01",
        ):
            stream = await trio.open_tcp_stream(host, port)
            async with stream:
                try:
                    await stream.send_all(noise)
                    await stream.send_eof()
                    while await stream.receive_some(65_536):
                        pass
                except trio.BrokenResourceError:
                    # The node hung up, maybe before all of it was sent.
                    continue
        idle = [await trio.open_tcp_stream(host, port) for _ in range(50)]
        try:
            async with processes.connect_to(directory, state) as conn:
                assert (await conn.status()).figures["clients.connections"] == 51
        except PierError as error:
            raise AssertionError(f"the node is gone: {error}") from error
        for stream in idle:
            await stream.aclose()
