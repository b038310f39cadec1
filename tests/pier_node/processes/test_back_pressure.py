"""Back-pressure by bytes, from a client's socket through its node to the sources on other nodes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio

from pier_node.client import Connection, connect
from pier_node.config.addresses import split_address
from pier_node.data_dir import NodeState
from query.engine.proxy import WINDOW_MOST_BYTES
from tests.pier_node.processes.test_node_process import node
from tests.pier_node.processes.test_siege import PATIENCE_S, figure, memory_bytes, until

pytestmark = pytest.mark.processes

#: Noise, so that no compression on the way makes it small.
ROWS, ROW_BYTES = 24_000, 1_000
#: What the reader lets its node send ahead of it, and what the node keeps for it beyond that.
AHEAD_BYTES = BACKLOG_BYTES = 1 << 20
#: A datagram between nodes carries no more than this, whatever it is for.
DATAGRAM_BYTES = 1_500
#: What a source may have sent when all is at rest: its window three times, for a batch that overruns it, for datagrams
#: that were not full or went twice, and for what nodes say to each other anyway; and what waits at the asker's node and
#: at the client. The whole table is 24 MB.
SOURCE_BYTES_MAX = 3 * WINDOW_MOST_BYTES + AHEAD_BYTES + BACKLOG_BYTES
#: What a node may gain while the answer waits.
GROWTH_BYTES_MAX = 64 << 20
#: Looks at the source that must agree before it is taken to be at rest, and what upkeep may send between two of them.
LOOKS, UPKEEP_BYTES = 5, 200_000
ALL = "SELECT noise FROM fw"
COUNT = "SELECT count(*) AS n FROM fw"


def test_a_slow_reader_holds_its_own_query_back_at_the_sources_and_nobody_else(tmp_path: Path) -> None:
    rng = random.Random(1)
    lines = "".join(f"{n},{rng.randbytes(ROW_BYTES // 2).hex()}\n" for n in range(ROWS))
    (tmp_path / "fw.csv").write_text("n,noise\n" + lines)
    flags = ["--source", f"fw=csv:{tmp_path}/fw.csv", "--set", f"client.backlog_bytes_max={BACKLOG_BYTES}"]
    with (
        node(tmp_path / "near", *flags) as (first, near),
        node(tmp_path / "far", *flags, "--join", near.address) as (second, far),
    ):
        trio.run(story, near, far, (first.pid, second.pid))


async def story(near: NodeState, far: NodeState, pids: tuple[int, int]) -> None:
    door = split_address(near.client_address)
    async with (
        connect(*door) as slow,
        connect(*door) as other,
        connect(*split_address(far.client_address)) as source,
    ):
        await until("both answer", lambda: is_whole(other))
        memory = [memory_bytes(pid) for pid in pids]
        begin = await sent_bytes(source)
        answer = slow.query(ALL, window_bytes=AHEAD_BYTES)
        batches = answer.__aiter__()
        rows = (await anext(batches)).num_rows
        stopped = await at_rest(source)
        assert stopped - begin < SOURCE_BYTES_MAX, "the source goes on for a reader that does not read"
        assert await is_whole(other), "somebody else waits for the slow reader"
        grown = [memory_bytes(pid) - before for pid, before in zip(pids, memory, strict=True)]
        assert max(grown) < GROWTH_BYTES_MAX, grown
        with trio.fail_after(PATIENCE_S):
            async for batch in batches:
                rows += batch.num_rows
        assert rows == 2 * ROWS, "rows were lost on the way"
        assert answer.account is not None and answer.account.ended == "complete"
        assert await sent_bytes(source) - stopped > WINDOW_MOST_BYTES, "there was nothing to hold back"


async def is_whole(conn: Connection) -> bool:
    (row,) = (await conn.query(COUNT).table()).to_pylist()
    return bool(row["n"] == 2 * ROWS)


async def sent_bytes(conn: Connection) -> int:
    """About what a node has sent to other nodes, and not less."""
    return await figure(conn, "runtime.datagrams_sent") * DATAGRAM_BYTES


async def at_rest(conn: Connection) -> int:
    """What the source has sent once it sends no more than upkeep."""
    last, alike = await sent_bytes(conn), 0
    with trio.fail_after(PATIENCE_S):
        while alike < LOOKS:
            await trio.sleep(0.2)
            now = await sent_bytes(conn)
            alike = alike + 1 if now - last < UPKEEP_BYTES else 0
            last = now
    return last
