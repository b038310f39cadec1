"""Bad questions and bad clients against real nodes: each gets its words, no node dies, no memory grows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from pier_node.client import Connection, QueryRejected
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.config.addresses import split_address
from pier_node.protocol.client import ClientMachine
from pier_node.protocol.frames import frame
from tests.query.engine.bad_inputs import BAD, DIVISION, query

pytestmark = [pytest.mark.processes, pytest.mark.trio]

ROWS = 50_000
PATIENCE_S = 60.0
#: What a node may gain over the whole test: far less than the hundreds of megabytes that it is asked for.
GROWTH_BYTES_MAX = 150 << 20
#: A hundred megabytes.
ALL = query(
    "%operator(m) { type = projection implementation = Generate sources[0] = s keep = yes\n"
    '        columns[pad] = repeat($src, "100"::long) }'
)


@asynccontextmanager
async def two(folder: Path) -> AsyncIterator[ClusterDir]:
    lines = "".join(f"10.{n % 256}.{n // 256 % 256}.{n % 7},{n % 1024}\n" for n in range(ROWS))
    (folder / "fw.csv").write_text("src,dpt\n" + lines)
    directory = ClusterDir(folder / "cluster")
    nodes = processes.prepare(directory, 2, [f"fw=csv:{folder}/fw.csv"])
    started = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        yield directory
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


def memory_bytes(directory: ClusterDir) -> list[int]:
    """What the nodes occupy."""
    status = [Path(f"/proc/{state.pid}/status").read_text() for state in directory.running()]
    return [int(text.partition("VmRSS:")[2].split()[0]) << 10 for text in status]


async def count(conn: Connection) -> int:
    text = query("%operator(m) { type = groupby sources[0] = s aggregates[n] = count() }")
    return sum(row["n"] for row in (await conn.query(text, "ufl").table()).to_pylist())


async def test_bad_questions_and_bad_clients_do_no_harm(tmp_path: Path) -> None:
    async with two(tmp_path) as directory:
        pids = [state.pid for state in directory.running()]
        first = directory.running()[0]
        async with processes.connect_to(directory, first) as conn:
            assert await count(conn) == 2 * ROWS
            before = memory_bytes(directory)
            await bad_questions(conn)
            await garbage(split_address(first.client_address))
            await a_reader_that_stops_and_vanishes(directory, conn)
            assert await count(conn) == 2 * ROWS
            grown = [now - then for now, then in zip(memory_bytes(directory), before, strict=True)]
            assert max(grown) < GROWTH_BYTES_MAX, grown
        assert [state.pid for state in directory.running()] == pids


async def bad_questions(conn: Connection) -> None:
    for bad in BAD:
        if bad.outcome == "rejected":
            with pytest.raises(QueryRejected) as caught:
                await conn.query(bad.text, "ufl").table()
            assert bad.words in str(caught.value), bad.what
        elif bad.outcome == "dropped":
            answer = conn.query(bad.text, "ufl")
            await answer.table()
            assert answer.account is not None
            assert any(bad.words in reason for reason in answer.account.dropped), bad.what
    answer = conn.query(DIVISION, "ufl")
    assert (await answer.table()).column("x").null_count == 2 * ROWS


async def garbage(address: tuple[str, int]) -> None:
    """Frames that are none."""
    for noise in noises():
        stream = await trio.open_tcp_stream(*address)
        with trio.fail_after(PATIENCE_S):
            async with stream:
                await stream.send_all(noise)
                await stream.send_eof()
                try:
                    while await stream.receive_some(65_536):
                        pass
                except trio.BrokenResourceError:
                    continue


def noises() -> Iterator[bytes]:
    yield b"\xff\xff\xff\xff" + b"x" * 1_000
    yield frame(b"\xc1" * 20)
    yield frame(b"\x91\xcd\xff\xff")
    yield frame(b"\xdd\xff\xff\xff\xff" + b"\x91" * 60_000)
    yield b"\x00\x00\x00\x00" * 10_000


async def a_reader_that_stops_and_vanishes(directory: ClusterDir, other: Connection) -> None:
    """It asks for a hundred megabytes and reads none; others are served; when it is gone, so is its query."""
    address = split_address(directory.running()[0].client_address)
    machine = ClientMachine(trio.current_time(), "", "stops reading")
    stream = await trio.open_tcp_stream(*address)
    async with stream:
        await stream.send_all(b"".join(machine.take_output()))
        machine.receive(await stream.receive_some(65_536), trio.current_time())
        machine.ask(ALL, "ufl", 64 << 20)
        await stream.send_all(b"".join(machine.take_output()))
        with trio.fail_after(PATIENCE_S):
            while not await other.queries():
                await trio.sleep(0.05)
        assert await count(other) == 2 * ROWS
        assert len(await other.queries()) == 1
    with trio.fail_after(PATIENCE_S):
        while await other.queries():
            await trio.sleep(0.05)
