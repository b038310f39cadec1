"""Continuous SQL on real processes: logs that are followed, a client that presses Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
import trio

from pier_node.client import Account, Piece
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir, ClusterNode
from tests.pier_node.processes.test_node_process import clean_environment

pytestmark = [pytest.mark.processes, pytest.mark.trio]
Process: TypeAlias = "subprocess.Popen[bytes]"
NODES = 3
QUERY = "SELECT src, count(*) AS n FROM fw GROUP BY src ORDER BY src EVERY '0.5 seconds' RANGE '0.5 seconds'"
LINE = (
    "2026-01-05T10:00:00+00:00 gw kernel: [UFW BLOCK] IN=eth0 OUT= MAC=00 SRC=10.0.0.{} DST=10.9.9.9 LEN=60 TOS=0x00 "
    "PREC=0x00 TTL=52 ID=1 DF PROTO=TCP SPT=4000 DPT=22 WINDOW=64240 RES=0x00 SYN URGP=0\n"
)


def append(folder: Path, *hosts: int) -> None:
    """The same lines to the log of every node."""
    for number in range(1, NODES + 1):
        with (folder / f"n{number:02d}.log").open("a") as log:
            log.write("".join(LINE.format(host) for host in hosts))


@asynccontextmanager
async def cluster(
    folder: Path, source: str
) -> AsyncIterator[tuple[ClusterDir, list[ClusterNode], list[Process]]]:
    """Nodes that have formed a ring, and their processes."""
    directory = ClusterDir(folder / "cluster")
    nodes = processes.prepare(directory, NODES, [source])
    started = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        yield directory, nodes, started
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


async def test_rows_of_followed_logs_are_counted_once_and_ctrl_c_ends_it_everywhere(tmp_path: Path) -> None:
    append(tmp_path, 9, 9, 9)
    async with (
        cluster(tmp_path, f"fw=firewall:{tmp_path}/{{name}}.log") as (directory, _, _),
        processes.connect_to(directory, directory.running()[0]) as conn,
    ):
        await counted_once(conn, tmp_path)
        await interrupted(directory, tmp_path)
        assert await conn.queries() == ()


async def counted_once(conn: Any, folder: Path) -> None:
    """Lines that come while the query runs are each in one epoch; those that were there before in none."""
    answer = conn.query(QUERY)
    coming: dict[str, int] = {}
    by_epoch: dict[int, dict[str, int]] = {}
    with trio.fail_after(60.0):
        async for event in answer.events():
            if isinstance(event, Piece):
                coming.update((row["src"], row["n"]) for row in event.batch.to_pylist())
            elif isinstance(event, Account) and event.epoch is not None:
                assert event.asked == NODES
                # An epoch that comes again is revised: its answer takes the place of the earlier one.
                fresh = event.epoch not in by_epoch
                by_epoch[event.epoch], coming = coming, {}
                if fresh and len(by_epoch) in (2, 4):
                    append(folder, 1, 1, 2)
                elif len(by_epoch) > 4 and total(by_epoch) == {"10.0.0.1": 4 * NODES, "10.0.0.2": 2 * NODES}:
                    answer.cancel()
    assert answer.account is not None
    assert answer.account.ended == "cancelled"
    assert "10.0.0.9" not in total(by_epoch)


def total(by_epoch: dict[int, dict[str, int]]) -> dict[str, int]:
    counts = Counter[str]()
    for rows in by_epoch.values():
        counts.update(rows)
    return dict(counts)


async def interrupted(directory: ClusterDir, folder: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "cli.main",
        "sql",
        "--dir",
        str(directory.path),
        "--format",
        "json",
        QUERY,
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment()
    )
    assert process.stderr is not None and process.stdout is not None
    first = await trio.to_thread.run_sync(process.stderr.readline)
    assert json.loads(first)["epoch"] in (0, 1)
    append(folder, 3)
    row = json.loads(await trio.to_thread.run_sync(process.stdout.readline))
    assert row["src"] == "10.0.0.3" and row["_epoch"] >= 0
    process.send_signal(signal.SIGINT)
    _, errors = await trio.to_thread.run_sync(process.communicate)
    assert process.returncode == 130
    account = json.loads(errors.splitlines()[-1])
    assert (account["ended"], account["asked"]) == ("cancelled", NODES)


async def test_a_killed_node_is_missing_in_the_next_epochs_and_back_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    (tmp_path / "fw.csv").write_text("g\n1\n2\n")
    async with cluster(tmp_path, f"fw=csv:{tmp_path}/fw.csv") as (directory, nodes, started):
        asked, killed = started[0], started[2]
        (state,) = (each for each in directory.running() if each.pid == asked.pid)
        async with processes.connect_to(directory, state) as conn:
            answer = conn.query("SELECT count(*) AS n FROM fw EVERY '1 second'", allow_partial=True)
            coming, steps = 0, [NODES, NODES - 1, NODES]
            with trio.fail_after(120.0):
                async for event in answer.events():
                    if isinstance(event, Piece):
                        coming = event.batch.column("n")[0].as_py()
                    elif isinstance(event, Account) and event.epoch is not None:
                        assert coming == 2 * event.answered
                        if not steps or event.answered != steps[0]:
                            continue
                        steps.pop(0)
                        if len(steps) == 2:
                            killed.kill()
                            killed.wait()
                        elif len(steps) == 1:
                            assert (event.failed, event.ended) == (1, "partial")
                            started += processes.start_missing(nodes)
                        else:
                            answer.cancel()
            assert steps == []
            assert answer.account is not None
            assert answer.account.ended == "cancelled"
            assert await conn.queries() == ()


async def test_published_rows_change_hands_when_a_node_leaves_and_joins_and_are_no_new_rows(
    tmp_path: Path,
) -> None:
    """An idle table: every answer that calls itself complete has all of it, and no row is given as new."""
    rows = 600
    (tmp_path / "fw.csv").write_text("g\n1\n")
    async with cluster(tmp_path, f"fw=csv:{tmp_path}/fw.csv") as (directory, nodes, started):
        asked, leaves = started[0], started[2]
        (state,) = (each for each in directory.running() if each.pid == asked.pid)
        async with (
            processes.connect_to(directory, state) as conn,
            processes.connect_to(directory, state) as other,
        ):
            done = await conn.publish("t", [pa.record_batch({"k": pa.array(range(rows))})], ["k"])
            assert done.refused == 0
            counts: list[tuple[int, str]] = []
            given: list[int] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow_rows, other, given)
                answer = conn.query("SELECT count(*) AS n FROM t EVERY '1 second' RANGE '1 hour'")
                coming, steps = 0, ["leave", "join", "end"]
                with trio.fail_after(120.0):
                    async for event in answer.events():
                        if isinstance(event, Piece):
                            coming = event.batch.column("n")[0].as_py()
                        elif isinstance(event, Account) and event.epoch is not None:
                            counts.append((coming, event.ended))
                            left = steps[0] == "join"
                            if event.answered != (NODES - 1 if left else NODES) or (
                                event.ended != "complete" and not left
                            ):
                                continue
                            step = steps.pop(0)
                            if step == "leave":
                                leaves.terminate()
                                await trio.to_thread.run_sync(leaves.wait)
                            elif step == "join":
                                started.extend(processes.start_missing(nodes))
                            else:
                                break
                nursery.cancel_scope.cancel()
    assert [each for each in counts if each[1] == "complete" and each[0] != rows] == []
    assert given == []


async def follow_rows(conn: Any, given: list[int]) -> None:
    async for event in conn.query("SELECT k FROM t EVERY '1 second'").events():
        if isinstance(event, Piece):
            given += event.batch.column("k").to_pylist()
        elif isinstance(event, Account) and event.epoch == 0:
            # Rows that were put just before the question may be in its first epoch.
            given.clear()
