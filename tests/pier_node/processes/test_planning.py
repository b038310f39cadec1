"""Texts that are hard to plan, asked of a real node: others are answered as quickly as ever, and no memory grows."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import trio

from pier_node.client import Connection, RequestFailed
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from tests.pier_node.processes.test_bad_inputs import memory_bytes, two

pytestmark = [pytest.mark.processes, pytest.mark.trio]

#: What a tiny question may take while others are planned, on a busy machine; without them it is some milliseconds.
TINY_S_MAX = 2.0
GROWTH_BYTES_MAX = 150 << 20
HOSTILE = {
    "equal labels": f"SELECT {', '.join(['src'] * 2_400)} FROM fw LIMIT 1",
    "names of WITH that double": "WITH c0 AS (SELECT "
    + ", ".join(f"{n} AS x{n}" for n in range(300))
    + "), "
    + ", ".join(f"c{n + 1} AS (SELECT a.* FROM c{n} a, c{n} b)" for n in range(8))
    + " SELECT * FROM c8",
    "a list of a megabyte": f"SELECT src FROM fw WHERE dpt IN ({','.join(['1'] * 500_000)})",
    "a list of ten": f"SELECT src FROM fw WHERE dpt IN ({','.join(['1'] * 5_000_000)})",
    "a large text in the other language": "%opgraph(g) {\n" + "# nothing\n" * 500_000,
}


async def test_innocent_clients_do_not_wait_for_hostile_texts(tmp_path: Path) -> None:
    async with two(tmp_path) as directory:
        node = directory.running()[0]
        async with processes.connect_to(directory, node) as conn:
            await tiny(conn)
            before = memory_bytes(directory)
            took_s: list[float] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(hostile, directory, nursery.cancel_scope)
                while True:
                    took_s.append(await tiny(conn))
            assert len(took_s) > 10
            assert max(took_s) < TINY_S_MAX, sorted(took_s)[-5:]
            grown = [now - then for now, then in zip(memory_bytes(directory), before, strict=True)]
            assert max(grown) < GROWTH_BYTES_MAX, grown


async def tiny(conn: Connection) -> float:
    """How long a tiny question takes."""
    began_s = time.monotonic()
    answer = conn.query("SELECT 1 AS one")
    assert (await answer.table()).num_rows == 1
    return time.monotonic() - began_s


async def hostile(directory: ClusterDir, scope: trio.CancelScope) -> None:
    async with processes.connect_to(directory, directory.running()[0]) as conn:
        for what, text in HOSTILE.items():
            began_s = time.monotonic()
            language = "ufl" if text.startswith("%") else "sql"
            try:
                answer = conn.query(text, language)
                await answer.table()
                assert what == "equal labels"
            except RequestFailed as error:
                assert what != "equal labels", error
            assert time.monotonic() - began_s < 30.0, what
    scope.cancel()
