"""Published rows and their publisher as real processes: kills, restarts, clients that die, tokens that are revoked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import trio

from pier_node.access import tokens
from pier_node.access.tokens import Token
from pier_node.client import Connection, PierError, connect
from pier_node.cluster.directory import ClusterDir
from pier_node.config.addresses import split_address
from pier_node.data_dir import NodeState
from pier_node.key_files import KeysDir, change_tokens, read_token
from pier_node.tls import client_context
from tests.pier_node.processes.test_cluster import cluster, start
from tests.pier_node.processes.test_node_process import clean_environment, node
from tests.pier_node.processes.test_siege import until

pytestmark = pytest.mark.processes

ROWS = 2_000
#: Seconds that rows outlive whoever keeps them alive.
LIFETIME_S = 5.0
WORD = "the word of somebody who publishes"


def batch(rows: int = ROWS, start_at: int = 0) -> pa.RecordBatch:
    numbers = range(start_at, start_at + rows)
    return pa.record_batch({"k": list(numbers), "v": [f"value {n}" for n in numbers]})


async def count(conn: Connection, table: str = "t") -> int | None:
    """The rows that a complete answer has; None when it is not complete, or there is no such table."""
    answer = conn.query(f"SELECT count(*) AS n FROM {table}")
    try:
        rows = (await answer.table()).to_pylist()
    except PierError:
        return None
    if answer.account is None or answer.account.ended != "complete":
        return None
    return int(rows[0]["n"])


async def complete(conn: Connection, table: str = "t") -> int:
    """The rows of the first complete answer: on a busy machine a node may not be sure of its part for a moment."""
    found: list[int] = []

    async def asked() -> bool:
        rows = await count(conn, table)
        found.extend([] if rows is None else [rows])
        return bool(found)

    await until("a complete answer", asked)
    return found[0]


def door(state: NodeState) -> tuple[str, int]:
    return split_address(state.client_address)


@pytest.mark.trio
async def test_rows_outlive_a_kill_of_the_node_that_keeps_them_alive(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3) as directory:
        publisher, reader = directory.running()[0], directory.running()[2]
        async with connect(*door(publisher)) as conn:
            done = await conn.publish("t", [batch()], ["k"], LIFETIME_S)
            assert (done.rows, done.refused, done.unconfirmed) == (ROWS, 0, 0)
            assert await complete(conn) == ROWS
        os.kill(publisher.pid, signal.SIGKILL)
        os.waitpid(publisher.pid, 0)
        again = await start(directory, 3)
        async with connect(*door(reader)) as conn:
            await trio.sleep(3 * LIFETIME_S)

            async def all_there() -> bool:
                return await count(conn) == ROWS

            await until("the rows are kept alive again", all_there)
            await unpublished(directory, conn)
        del again


async def unpublished(directory: ClusterDir, conn: Connection) -> None:
    """By the command, at a node that has published nothing; and not brought back by a restart."""
    asked = directory.running()[1]
    command = [sys.executable, "-m", "cli.main", "unpublish", "t", "--node", asked.client_address]
    some = [*command, "--key", "7", "--key", "8"]
    for words, objects, left in ((some, 2, ROWS - 2), (command, ROWS - 2, 0)):
        done = await trio.run_process(
            words, capture_stderr=True, env=clean_environment(), check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stderr) == {"table": "t", "objects": objects}
        assert (await complete(conn) if left else await count(conn) or 0) == left
    await trio.sleep(2 * LIFETIME_S)
    assert not await count(conn)


@pytest.mark.trio
async def test_a_client_that_dies_half_way_leaves_nothing_and_a_reader_sees_all_or_nothing(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, 3) as directory:
        first, second, _ = directory.running()
        script = (
            "import sys, time, pyarrow as pa\n"
            "from pier_node.client import sync\n"
            f"with sync.connect(*{door(first)!r}) as conn:\n"
            "    feed = conn.feed('t', ['k'], 600.0)\n"
            f"    feed.send(pa.record_batch({{'k': list(range({ROWS}))}}))\n"
            "    print('sent', flush=True)\n"
            "    time.sleep(60)\n"
        )
        client = await trio.to_thread.run_sync(
            lambda: subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        )
        assert client.stdout is not None
        await trio.to_thread.run_sync(client.stdout.readline)
        await trio.sleep(2.0)
        async with connect(*door(second)) as conn:
            assert not await count(conn)
            client.kill()
            await trio.to_thread.run_sync(client.wait)

            async def forgotten() -> bool:
                figures = [await stored(state) for state in directory.running()]
                return not any(figures)

            await until("nothing of it is kept", forgotten)
            assert not await count(conn)
            await all_or_nothing(first, conn)
            await long_keys(first, conn)


async def long_keys(publisher: NodeState, reader: Connection) -> None:
    """Texts of any length among others: each is found by its key, by a join and by an index."""
    names = [f"{'x' * 5_000}{n}" if n % 10 == 0 else f"short {n}" for n in range(300)]
    rows = pa.record_batch({"name": names, "n": list(range(300))})
    other = pa.record_batch({"k": list(range(300)), "name": names})
    async with connect(*door(publisher)) as conn:
        assert (await conn.publish("long", [rows], ["name"])).objects == 300
        assert (await conn.publish("other", [other], ["k"])).objects == 300
        await conn.query("CREATE INDEX by_name ON other (name) USING hash").table()
    assert await complete(reader, "long") == 300
    joined = "other JOIN long ON other.name = long.name"
    for strategy in ("fetch", "hash"):
        text = f"SELECT /*+ JOIN({strategy}) */ count(*) AS n FROM {joined}"

        async def whole(text: str = text) -> bool:
            answer = reader.query(text)
            try:
                rows = (await answer.table()).to_pylist()
            except PierError:
                return False
            whole = answer.account is not None and answer.account.ended == "complete"
            assert not whole or rows == [{"n": 300}], "a complete answer has every pair"
            return whole

        await until(f"a complete {strategy} join", whole)

    async def indexed() -> bool:
        answer = reader.query("SELECT k FROM other WHERE name = :name", params={"name": names[290]})
        try:
            return (await answer.table()).to_pylist() == [{"k": 290}]
        except PierError:
            return False

    await until("the index has the long text", indexed)


async def stored(state: NodeState) -> int:
    """Rows are objects here; entries of the dictionary are few."""
    async with connect(*door(state)) as conn:
        return max(0, int((await conn.status()).figures["overlay.dht.store.objects"] or 0) - 100)


async def all_or_nothing(publisher: NodeState, reader: Connection) -> None:
    seen: set[int | None] = set()
    published = trio.Event()

    async def publish() -> None:
        async with connect(*door(publisher)) as conn:
            done = await conn.publish("t", [batch(5_000, at) for at in range(0, 20_000, 5_000)], ["k"])
            assert (done.rows, done.objects, done.unconfirmed) == (20_000, 20_000, 0)
            published.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        while not published.is_set():
            seen.add(await count(reader))
    assert seen <= {0, None, 20_000}, "a complete answer has all rows or none"
    assert await complete(reader) == 20_000, "what the publisher was told is true when it is told"


def test_rows_of_a_revoked_token_go(tmp_path: Path) -> None:
    keys = KeysDir(tmp_path / "keys")
    keys.make(["localhost"])
    robot = Token("robot", ("ask", "publish"), (tokens.digest(WORD),), 1, namespaces=("t",))
    change_tokens(keys.tokens, lambda book: tokens.added(book, robot))
    flags = ["--keys", str(keys.path), "--set", "security.keyring_check_s=0.2"]
    with node(tmp_path / "first", *flags) as (_, state):
        trio.run(robot_publishes, keys, state)
    with node(tmp_path / "first", *flags) as (_, state):
        trio.run(robot_is_revoked, keys, state)


async def robot_publishes(keys: KeysDir, state: NodeState) -> None:
    async with connect(*door(state), tls=client_context(keys.tls_authority), token=WORD) as conn:
        assert (await conn.publish("t", [batch()], ["k"], 600.0)).rows == ROWS
        assert await complete(conn) == ROWS
        for attempt in (conn.unpublish("other"), conn.publish("other", [batch(1)], ["k"])):
            with pytest.raises(PierError, match="does not allow"):
                await attempt


async def robot_is_revoked(keys: KeysDir, state: NodeState) -> None:
    tls = client_context(keys.tls_authority)
    async with connect(*door(state), tls=tls, token=read_token(keys.token)) as admin:

        async def there() -> bool:
            return await count(admin) == ROWS

        await until("the node has brought its rows back", there)
        assert (await admin.publish("kept", [batch(10)], ["k"], 600.0)).rows == 10
        change_tokens(keys.tokens, lambda book: tokens.revoked(book, "robot"))

        async def gone() -> bool:
            return not await count(admin)

        await until("its rows are gone", gone)
        assert await complete(admin, "kept") == 10
