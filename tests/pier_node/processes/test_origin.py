"""Which host a row came from, on real nodes: the ids that the ring shows, and the name of this machine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pier_node.cluster import processes
from tests.pier_node.processes.test_bad_inputs import ROWS, two

pytestmark = [pytest.mark.processes, pytest.mark.trio]


async def test_rows_say_which_node_and_host_they_came_from(tmp_path: Path) -> None:
    async with two(tmp_path) as directory, processes.connect_to(directory, directory.running()[0]) as conn:
        ids = {node.id for node in (await conn.ring(whole=True)).nodes}
        answer = await conn.query("SELECT _node, _host, count(*) AS n FROM fw GROUP BY _node, _host").table()
        assert len(ids) == 2
        assert {row["_node"] for row in answer.to_pylist()} == ids
        assert {(row["_host"], row["n"]) for row in answer.to_pylist()} == {(socket.gethostname(), ROWS)}
