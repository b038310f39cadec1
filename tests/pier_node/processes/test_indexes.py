"""Indexes on real processes: a node is killed and comes back with nothing while questions are asked through them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import trio

from pier_node.client import Piece
from pier_node.cluster import processes
from tests.pier_node.processes.test_continuous import cluster

pytestmark = [pytest.mark.processes, pytest.mark.trio]


async def test_an_index_is_whole_or_says_so_after_a_node_is_killed_and_comes_back_empty(
    tmp_path: Path,
) -> None:
    """Every answer that calls itself complete has all rows, from the moment in which the index is made."""
    rows, values = 600, 30
    (tmp_path / "fw.csv").write_text("g\n1\n")
    async with cluster(tmp_path, f"fw=csv:{tmp_path}/fw.csv") as (directory, nodes, started):
        (state,) = (each for each in directory.running() if each.pid == started[0].pid)
        async with processes.connect_to(directory, state) as conn:
            batch = pa.record_batch({"k": range(rows), "v": [n % values for n in range(rows)]})
            assert (await conn.publish("t", [batch], ["k"])).refused == 0
            for using in ("pht", "hash"):
                answer = conn.query(f"CREATE INDEX {using}_v ON t (v) USING {using}")
                async for _ in answer.events():
                    pass
                assert answer.account is not None and answer.account.ended == "complete"
                complete = 0
                for step in range(60):
                    if step == 10:
                        started[2].kill()
                        started[2].wait()
                    elif step == 20:
                        started[2:] = processes.start_missing(nodes)
                    wanted = [n for n in range(rows) if n % values == step % values]
                    answer = conn.query(f"SELECT k FROM t WHERE v = {step % values}", allow_partial=True)
                    found: list[int] = []
                    with trio.fail_after(60.0):
                        async for event in answer.events():
                            if isinstance(event, Piece):
                                found += event.batch.column("k").to_pylist()
                    assert answer.account is not None
                    assert len(found) == len(set(found)) and set(found) <= set(wanted)
                    if answer.account.ended == "complete":
                        complete += 1
                        assert sorted(found) == wanted, (using, step, answer.account)
                    # Questions keep coming while the ring notices, heals and takes the node back.
                    await trio.sleep(0.2)
                assert complete >= 20
                async for _ in conn.query(f"DROP INDEX {using}_v").events():
                    pass
