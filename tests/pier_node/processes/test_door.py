"""A node's doors as real clients meet them: what a command says of an answer, what a token opens, who is let wait."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow as pa
import pytest
import trio

from cli.exits import Exit
from pier_node.access.tokens import Token, added, digest
from pier_node.client import (
    AnswerLimited,
    Connection,
    Forbidden,
    LimitReached,
    Limits,
    PierError,
    QueryRejected,
    Refused,
    connect,
)
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.config.addresses import split_address
from pier_node.data_dir import NodeState
from pier_node.key_files import KeysDir, change_tokens, read_token
from pier_node.tls import client_context
from tests.pier_node.processes.test_many_ways import free_port
from tests.pier_node.processes.test_node_process import clean_environment, node

pytestmark = pytest.mark.processes

ROWS = 3_000
PATIENCE_S = 60.0
SLOW_CONNECTIONS = 900
#: Keeps its nodes busy and full for as long as nobody reads it.
CROSS = "SELECT a.n, b.n AS m, c.n AS o FROM fw a CROSS JOIN fw b CROSS JOIN fw c"
STOLEN = """%opgraph(g) {
    %operator(s) { type = scan implementation = Local table = fw }
    %operator(p) { type = put SPELT = stolen keys[0] = $n sources[0] = s }
}"""


def pier(*words: str) -> tuple[int, str, dict[str, object]]:
    """A command's exit code, what it wrote, and the account behind it."""
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *words],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=PATIENCE_S,
    )
    last = done.stderr.splitlines()[-1] if done.stderr else ""
    return done.returncode, done.stdout, json.loads(last) if last.startswith("{") else {}


@pytest.mark.trio
async def test_only_a_whole_answer_is_a_success(tmp_path: Path) -> None:
    (tmp_path / "fw.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(ROWS)))
    directory = ClusterDir(tmp_path / "ring")
    started: list[subprocess.Popen[bytes]] = []
    try:
        nodes = processes.prepare(directory, 3, [f"fw=csv:{tmp_path}/fw.csv"])
        started += processes.start_missing(nodes)
        await processes.wait_formed(directory, nodes, started)
        await trio.to_thread.run_sync(endings, directory, started, tmp_path)
    finally:
        for process in started:
            process.kill()
            process.wait()


def endings(directory: ClusterDir, started: list[subprocess.Popen[bytes]], folder: Path) -> None:
    asked = directory.running()[0]
    at = ["--node", asked.client_address, "--format", "json"]
    count = "SELECT count(*) AS n FROM fw"
    code, out, account = pier("sql", count, *at)
    assert (code, json.loads(out), account["ended"]) == (0, {"n": 3 * ROWS}, "complete")
    assert pier("sql", "SELECT count(*) AS n FROM fv", *at)[0] == Exit.UNKNOWN_TABLE
    code, out, _ = pier("sql", "SELECT count(*) AS n FROM fv", *at, "--allow-unknown")
    assert (code, json.loads(out)) == (0, {"n": 0})
    (folder / "q.ufl").write_text(
        "%opgraph(g) { %operator(s) { type = scan implementation = Local table = fv }"
        " %operator(r) { type = result sources[0] = s } }"
    )
    assert pier("ufl", str(folder / "q.ufl"), *at)[0] == Exit.UNKNOWN_TABLE
    limited = ["sql", "SELECT n FROM fw", *at, "--limit", "rows=10"]
    code, _, account = pier(*limited)
    assert (code, account["ended"]) == (Exit.LIMIT, "limit")
    assert pier(*limited, "--allow-partial")[0] == 0
    assert pier("sql", "SELEC 1", *at)[0] == Exit.FAILED
    victim = next(process for process in started if process.pid != asked.pid)
    victim.kill()
    victim.wait()
    until_s = time.monotonic() + PATIENCE_S
    while True:
        code, _, account = pier("sql", count, *at)
        assert code == {"complete": 0, "partial": Exit.PARTIAL}[str(account["ended"])], account
        if code == Exit.PARTIAL:
            break
        assert time.monotonic() < until_s, "the node that was killed was never missed"


def test_the_door_under_attack(tmp_path: Path) -> None:
    (tmp_path / "fw.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(ROWS)))
    keys = KeysDir(tmp_path / "keys")
    keys.make([])
    for name in ("asker", "asker@x"):
        token = Token(name, ("ask",), (digest(name),), int(time.time()))
        change_tokens(keys.tokens, lambda book, token=token: added(book, token))  # type: ignore[misc]
    flags = ["--keys", str(keys.path), "--source", f"fw=csv:{tmp_path}/fw.csv"]
    with node(tmp_path / "data", *flags) as (process, state):
        trio.run(attacks, state, keys)
        assert process.poll() is None


async def attacks(state: NodeState, keys: KeysDir) -> None:
    tls = client_context(keys.tls_authority)
    address = split_address(state.client_address)
    with trio.fail_after(2 * PATIENCE_S):
        async with (
            connect(*address, token="asker", tls=tls) as asker,
            connect(*address, token="asker@x", tls=tls) as other,
            connect(*address, token=read_token(keys.token), tls=tls) as root,
        ):
            await other_spellings(asker, root)
            await other_names(asker, other)
            await mistakes(asker)
            await all_the_logs(asker, other)
            await unread(asker, other)


async def other_spellings(asker: Connection, root: Connection) -> None:
    for spelt in ("ns", "NS", "Ns"):
        with pytest.raises(Forbidden, match="does not allow to publish into 'stolen'"):
            await asker.query(STOLEN.replace("SPELT", spelt), "ufl").table()
    rows = pa.record_batch({"k": [1, 2]})
    await root.publish("mine", [rows], ["k"])
    await root.query("CREATE INDEX by_k ON mine (k)").table()
    drop = STOLEN.replace("SPELT = stolen keys[0] = $n", "implementation = Index NS = mine index = by_k")
    drop = drop.rstrip("}") + "%operator(r) { type = result sources[0] = p } }"
    with pytest.raises(Forbidden):
        await asker.query(drop, "ufl").table()
    with pytest.raises(Forbidden):
        await asker.query("DROP INDEX by_k").table()
    figures = (await root.status()).figures
    assert figures["clients.client.asker.rights_refused"] == figures["clients.totals.rights_refused"] == 5


async def other_names(asker: Connection, other: Connection) -> None:
    live = other.query("SELECT count(*) AS n FROM fw EVERY '1 second'")
    async for _ in live.events():
        break
    (entry,) = await other.queries()
    assert await asker.queries() == ()
    with pytest.raises(Forbidden):
        await asker.cancel(entry.id)
    live.cancel()
    async for _ in live.events():
        pass
    assert live.account is not None and live.account.ended == "cancelled"


async def mistakes(conn: Connection) -> None:
    """Each ends its own request; the connection stays."""
    long = "n" * 5_000
    wrong: list[Callable[[], Awaitable[object]]] = [
        lambda: conn.get(long, "k"),
        lambda: conn.get("ns", long),
        lambda: conn.cancel(long),
        lambda: conn.query("SELECT $a", params={long: 1}).table(),
    ]
    for request in wrong:
        with pytest.raises(Refused):
            await request()
    with pytest.raises(QueryRejected):
        await conn.query(f'SELECT * FROM "{long}"').table()
    columns = ", ".join(f"n AS c{number}" for number in range(4_200))
    with pytest.raises(PierError, match=r"4,?096 columns"):
        await conn.query(f"SELECT {columns} FROM fw LIMIT 1").table()
    assert (await conn.status()).joined


async def all_the_logs(greedy: Connection, other: Connection) -> None:
    opened = 0
    for number in range(64):
        try:
            await greedy.open_log(f"log{number}", CROSS, lease_s=86_400.0)
            opened += 1
        except LimitReached as refused:
            assert "client.logs_max" in str(refused)
    assert 0 < opened <= 16
    state = await other.open_log("mine", "SELECT n FROM fw LIMIT 5", lease_s=60.0)
    assert state.first == 0
    await other.log("mine", "close")
    for number in range(opened):
        await greedy.log(f"log{number}", "close")


async def unread(greedy: Connection, other: Connection) -> None:
    """Five answers that nobody reads: who asks a small question is answered meanwhile."""
    answers = [greedy.query(CROSS, limits=Limits(time_s=60.0)) for _ in range(5)]
    slowest_s = 0.0
    for _ in range(20):
        began_s = trio.current_time()
        (row,) = (await other.query("SELECT count(*) AS n FROM fw").table()).to_pylist()
        slowest_s = max(slowest_s, trio.current_time() - began_s)
        assert row["n"] == ROWS
        await trio.sleep(0.2)
    assert slowest_s < 10.0
    for answer in answers:
        answer.cancel()
    with pytest.raises(AnswerLimited):
        await other.query("SELECT n FROM fw", limits=Limits(rows=10)).table()


def test_health_is_answered_while_the_door_is_held_open(tmp_path: Path) -> None:
    http = free_port()
    with node(tmp_path / "data", "--set", f"http.listen=127.0.0.1:{http}") as (process, _):
        trio.run(held_open, http)
        assert process.poll() is None


async def held_open(port: int) -> None:
    def healthy() -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5.0) as answer:
            return int(answer.status)

    async def slow() -> None:
        """A connection that asks a byte at a time, and comes again when it is put out."""
        while True:
            try:
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    while True:
                        await stream.send_all(b"G")
                        with trio.move_on_after(1.0):
                            if not await stream.receive_some(1_024):
                                break
            except (OSError, trio.BrokenResourceError):
                pass
            await trio.sleep(0.5)

    with trio.fail_after(2 * PATIENCE_S):
        async with trio.open_nursery() as nursery:
            for _ in range(SLOW_CONNECTIONS):
                nursery.start_soon(slow)
            await trio.sleep(2.0)
            for _ in range(10):
                assert await trio.to_thread.run_sync(healthy) == 200
                await trio.sleep(0.2)
            nursery.cancel_scope.cancel()
