"""Aggregation on real processes: every algorithm of one-shot and continuous queries, groups that outgrow a tree,
aggregates of the node's owner, and many continuous queries at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from pier_node.client import Connection, sync
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.config.addresses import split_address
from query.aggregation.strategy import CONTINUOUS, ONE_SHOT
from tests.pier_node.processes.test_node_process import clean_environment, node

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[3]
NODES = 4
ROWS = 300
#: Groups of the second table on each node, and of those some that all nodes have.
MANY, SHARED = 14_000, 1_000

PLAN = """
%opgraph(local) {{
    %operator(rows) {{ type = scan implementation = Local table = {table} }}
    %operator(part) {{ type = groupby sources[0] = rows {groups} mode = partial }}
    %operator(send) {{ type = put implementation = Epochs sources[0] = part channel = c {settings} {groups} }}
}}
%opgraph(root) {{ at = asker
    %operator(results) {{ type = scan implementation = Epochs channel = c {groups} }}
    %operator(answer) {{ type = result sources[0] = results }}
}}
"""
COUNT = "aggregates[n] = count()"


@asynccontextmanager
async def cluster(folder: Path) -> AsyncIterator[Connection]:
    (folder / "r.csv").write_text("k\n" + "".join(f"{n % 7}\n" for n in range(ROWS)))
    directory = ClusterDir(folder / "cluster")
    nodes = processes.prepare(directory, NODES, [f"r=csv:{folder}/r.csv"])
    for number, each in enumerate(nodes):
        names = [f"10.0.{n >> 8}.{n & 255}" for n in range(SHARED)]
        names += [f"10.{number + 1}.{n >> 8}.{n & 255}" for n in range(MANY - SHARED)]
        (folder / f"many{number}.csv").write_text("src\n" + "\n".join(names) + "\n")
        text = each.config_file.read_text()
        each.config_file.write_text(
            re.sub(r"sources = \[", f'sources = ["many=csv:{folder}/many{number}.csv", ', text)
        )
    started = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        async with processes.connect_to(directory, directory.running()[0]) as conn:
            yield conn
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


async def last_rows(
    conn: Connection, settings: str, groups: str = COUNT, table: str = "r"
) -> dict[int, list[dict[str, int]]]:
    """The rows of the last revision of each epoch."""
    answer = conn.query(PLAN.format(table=table, groups=groups, settings=settings), "ufl")
    found: dict[int, list[dict[str, int]]] = {}
    for row in (await answer.table()).to_pylist():
        rows = found.setdefault(row["epoch"], [])
        if rows and rows[0]["revision"] < row["revision"]:
            rows.clear()
        rows.append(row)
    account = answer.account
    assert account is not None
    assert (account.asked, account.answered, account.ended) == (NODES, NODES, "complete"), settings
    return found


@pytest.mark.trio
async def test_every_algorithm_on_real_nodes(tmp_path: Path) -> None:
    async with cluster(tmp_path) as conn:
        wrong: list[str] = []

        async def check(settings: str, epochs: int) -> None:
            found = await last_rows(conn, f"{settings} nodes = {NODES}")
            counted = {epoch: [(row["nodes"], row["n"]) for row in rows] for epoch, rows in found.items()}
            if counted != {epoch: [(NODES, NODES * ROWS)] for epoch in range(epochs)}:
                wrong.append(f"{settings}: {counted}")

        async with trio.open_nursery() as nursery:
            for each in ONE_SHOT:
                nursery.start_soon(check, f'strategy = "{each.name}" count = 1 timeout = 0.5', 1)
            for each in CONTINUOUS:
                settings = f'strategy = "{each.name}" every = 1 count = 4 timeout = 0.5'
                nursery.start_soon(check, settings, 4)
        assert not wrong, "\n".join(wrong)
        await groups_that_outgrow_a_tree(conn)


async def groups_that_outgrow_a_tree(conn: Connection) -> None:
    groups = "keys[src] = $src aggregates[n] = count()"
    found = await last_rows(conn, "every = 2 count = 5", groups, "many")
    assert sorted(found) == list(range(5))
    for epoch, rows in found.items():
        assert len(rows) == SHARED + NODES * (MANY - SHARED), epoch
        assert Counter(row["n"] for row in rows) == {NODES: SHARED, 1: NODES * (MANY - SHARED)}
        assert {row["nodes"] for row in rows} == {NODES}


def test_an_aggregate_of_the_owner_is_known_by_its_name_where_it_is_registered(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "aggregates.md").read_text(), re.DOTALL)
    assert code is not None
    (tmp_path / "product.py").write_text(code[1])
    (tmp_path / "v.csv").write_text("v\n2\n3\n")
    with ExitStack() as running:
        own = ("--aggregates", str(tmp_path / "product.py"), "--source", f"t=csv:{tmp_path}/v.csv")
        _, first = running.enter_context(node(tmp_path / "a", *own))
        _, second = running.enter_context(node(tmp_path / "b", *own, "--join", first.address))
        with sync.connect(*split_address(second.client_address)) as conn:
            while not conn.status().joined or len(conn.ring(whole=True).nodes) < 2:
                continue
            assert conn.query("SELECT product(v) AS p FROM t").table().to_pylist() == [{"p": 36.0}]


def test_many_continuous_queries_at_once() -> None:
    """The short form of `bench/experiments/continuous.py`, which runs a hundred of them on eight nodes."""
    script = [sys.executable, str(ROOT / "bench" / "experiments" / "continuous.py"), "--nodes", "3"]
    done = subprocess.run(
        [*script, "--queries", "24", "--seconds", "5", "--every", "1"],
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert (figures["missed"], figures["ended_otherwise"], figures["epochs"]) == ({}, {}, 5)
