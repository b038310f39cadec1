"""The client library against a node's door on a real socket, the engine behind it scripted."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio

from pier_node import client
from pier_node.client import sync
from pier_node.data_dir import DataDir
from pier_node.key_files import KeysDir, TlsPair
from pier_node.node_service import ComposedService
from pier_node.protocol import messages as m
from pier_node.server import ClientServer, ServerOptions
from pier_node.service import AnswerSink, Failure
from pier_node.tls import client_context, server_context
from runtime.native import open_native
from tests.pier_node.worlds import BATCH, FixedOverlay, ListJournal, ScriptedEngine, book

pytestmark = pytest.mark.trio


class Node:
    """A door with a scripted engine behind it."""

    def __init__(self, engine: ScriptedEngine, server: ClientServer, port: int) -> None:
        self.engine, self.server, self.port = engine, server, port


@asynccontextmanager
async def a_node(
    options: ServerOptions | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Node]:
    engine = ScriptedEngine()
    async with open_native() as runtime:
        service = ComposedService(FixedOverlay(), engine)
        server = ClientServer(runtime, service, "ab" * 20, options or ServerOptions(), ListJournal())
        address = runtime.listen("127.0.0.1:0", server.accept, tls)
        yield Node(engine, server, int(address.rpartition(":")[2]))


def answer_with(count: int) -> Callable[[AnswerSink], None]:
    def push(sink: AnswerSink) -> None:
        for _ in range(count):
            sink.batch("t", BATCH)
        sink.progress(2, 2, 2 * count, 0.1)
        sink.finish(m.Account("q1", asked=2, answered=2, rows=2 * count))

    return push


async def test_a_query_yields_batches_and_carries_its_account() -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        node.engine.on_query = answer_with(3)
        answer = conn.query("SELECT 1", limits=client.Limits(rows=10))
        batches = [batch async for batch in answer]
        assert len(batches) == 3 and batches[0].equals(BATCH)
        assert answer.account is not None and answer.account.answered == 2
        assert answer.progress is not None and answer.progress.rows == 6
        assert node.engine.asked[0].limits.rows == 10


async def test_many_queries_share_a_connection() -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        node.engine.on_query = answer_with(2)
        got: list[int] = []

        async def one() -> None:
            got.append((await conn.query("q").table()).num_rows)

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(one)
        assert got == [4] * 30


async def test_a_slow_reader_makes_the_engine_wait_and_gets_everything() -> None:
    big = pa.record_batch({"v": ["x" * 1_000] * 100})
    sent = 0

    def push(sink: AnswerSink) -> None:
        def more() -> None:
            nonlocal sent
            while sent < 100:
                sent += 1
                if not sink.batch("t", big):
                    return
            sink.finish(m.Account("q1"))

        sink.on_ready(more)
        more()

    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        node.engine.on_query = push
        answer = conn.query("q", window_bytes=200_000)
        await conn.status()
        assert sent < 10, "the engine did not wait for the reader"
        assert sum([batch.num_rows async for batch in answer]) == 10_000


async def test_errors_say_whose_fault_it_is() -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        failure = Failure("syntax", "what is this", m.Position(1, 3), "try that", m.Account("q1", asked=1))
        node.engine.on_query = lambda sink: sink.fail(failure)
        answer = conn.query("q")
        with pytest.raises(client.QueryRejected) as caught:
            await answer.table()
        assert caught.value.position == m.Position(1, 3) and caught.value.hint == "try that"
        assert answer.account is not None and answer.account.asked == 1
        with pytest.raises(client.Refused, match="no query nope"):
            await conn.cancel("nope")


def ends(ended: str) -> Callable[[AnswerSink], None]:
    def push(sink: AnswerSink) -> None:
        sink.batch("t", BATCH)
        sink.finish(m.Account("q1", asked=3, answered=1, failed=2, rows=2, ended=ended, notes=("why",)))

    return push


@pytest.mark.parametrize(
    ("ended", "kind", "is_allowed"),
    [
        ("partial", client.AnswerPartial, True),
        ("limit", client.AnswerLimited, True),
        ("cancelled", client.AnswerCancelled, False),
        ("failed", client.AnswerFailed, False),
        ("of a word that nobody knows", client.AnswerFailed, False),
    ],
)
async def test_an_answer_that_is_not_whole_raises_with_its_rows(
    ended: str, kind: type[client.AnswerIncomplete], is_allowed: bool
) -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        node.engine.on_query = ends(ended)
        answer = conn.query("q")
        with pytest.raises(kind, match="1 of 3 nodes answered, 2 rows; why") as caught:
            await answer.table()
        assert caught.value.account == answer.account
        assert caught.value.table is not None and caught.value.table.to_batches()[0].equals(BATCH)
        got = 0
        with pytest.raises(kind):
            async for batch in conn.query("q"):
                got += batch.num_rows
        assert got == 2, "the rows came first"
        allowed = conn.query("q", allow_partial=True)
        if is_allowed:
            assert (await allowed.table()).num_rows == 2
            assert allowed.account is not None and allowed.account.ended == ended
        else:
            with pytest.raises(kind):
                await allowed.table()


async def test_who_cancels_does_not_expect_the_whole() -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        node.engine.on_query = lambda sink: sink.batch("t", BATCH) and None
        answer = conn.query("q")
        async for _ in answer:
            answer.cancel()
        assert answer.account is not None and answer.account.ended == "cancelled"


async def test_an_epoch_that_is_not_whole_is_told_by_its_account() -> None:
    def epochs(sink: AnswerSink) -> None:
        sink.batch("t", BATCH, 1)
        sink.epoch_account(m.Account("q1", asked=2, answered=1, failed=1, epoch=1, ended="partial"))
        sink.finish(m.Account("q1", asked=2, answered=2))

    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        node.engine.on_query = epochs
        seen = [event async for event in conn.query("q").events()]
        assert [event.ended for event in seen if isinstance(event, m.Account)] == ["partial", "complete"]


async def test_leaving_an_answer_cancels_its_query() -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        node.engine.on_query = lambda sink: sink.batch("t", BATCH) and None
        async with conn.query("q") as answer:
            async for _ in answer:
                break
        await conn.status()
        assert node.engine.told == [("cancel", "cancelled by the client")]


async def test_a_body_s_own_exception_comes_out_as_itself() -> None:
    async with a_node() as node:
        with pytest.raises(KeyError):
            async with client.connect("127.0.0.1", node.port):
                raise KeyError("mine")


async def test_a_node_that_goes_ends_every_request() -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        answer = conn.query("q")
        await conn.status()
        node.server.close("going")
        with pytest.raises(client.ConnectionLost, match="going"):
            await answer.table()
        with pytest.raises(client.ConnectionLost):
            await conn.status()


async def test_publishing_and_objects() -> None:
    async with a_node() as node, client.connect("127.0.0.1", node.port) as conn:
        done = await conn.publish("t", [BATCH] * 50, ["src"], lifetime_s=9.0)
        assert done.rows == 100
        await conn.put("ns", "k", b"v", suffix="s", lifetime_s=5.0)
        assert await conn.get("ns", "k") == [("s", b"v")]
        assert (await conn.ring(whole=True)).whole
        assert (await conn.tables())[0].name == "fw"
        assert (await conn.queries())[0].id == "q1"
        assert await conn.explain("SELECT 1") == "plan of SELECT 1"


async def test_nobody_there() -> None:
    async with open_native() as runtime:
        port = int(runtime.listen("127.0.0.1:0", lambda stream: stream.close()).rpartition(":")[2])
        with pytest.raises(client.ConnectFailed, match="refused the connection"):
            async with client.connect("127.0.0.1", port):
                raise AssertionError("connected")
    with pytest.raises(client.ConnectFailed, match="Connection refused"):
        async with client.connect("127.0.0.1", port, timeout_s=5):
            raise AssertionError("connected")


async def test_tls_and_token(tmp_path: Path) -> None:
    keys = KeysDir(tmp_path / "keys")
    keys.make(["localhost", "127.0.0.1"])
    tls = server_context(keys.tls_certificate, keys.tls_key)
    async with a_node(ServerOptions(tokens=book("secret")), tls) as node:
        trusting = client_context(keys.tls_authority)
        async with client.connect("127.0.0.1", node.port, token="secret", tls=trusting) as conn:
            assert (await conn.status()).pid == 7
        with pytest.raises(client.ConnectFailed, match="token not accepted"):
            async with client.connect("127.0.0.1", node.port, token="guess", tls=trusting):
                raise AssertionError("connected")
        with pytest.raises(client.ConnectFailed):
            async with client.connect("127.0.0.1", node.port, tls=client_context()):
                raise AssertionError("connected")
        with pytest.raises(client.ConnectFailed):
            async with client.connect("127.0.0.1", node.port, token="secret", timeout_s=5):
                raise AssertionError("connected")


async def test_a_certificate_is_good_for_its_own_host(tmp_path: Path) -> None:
    """A host whose certificate was taken from another is found out, and never hears the token."""
    keys, data = KeysDir(tmp_path / "keys"), DataDir(tmp_path / "db1")
    keys.make([])
    data.path.mkdir()
    pair = TlsPair(data.tls_certificate, data.tls_key)
    keys.renew_tls(["db1.example.net"], pair)
    shown = server_context(pair.certificate, pair.key)
    checking = client_context(keys.tls_authority)
    heard: list[str] = []

    async with a_node(ServerOptions(tokens=book("secret")), shown) as node:
        node.server._admits = lambda token: heard.append(token)  # type: ignore[method-assign]
        for name in ("db2.example.net", "10.0.0.7"):
            with pytest.raises(client.ConnectFailed, match=f"a certificate that is not for {name}") as caught:
                async with client.connect(
                    "127.0.0.1", node.port, token="secret", tls=checking, server_name=name
                ):
                    raise AssertionError("connected")
            assert "pier keys new node --name" in caught.value.hint
        assert not heard
    async with a_node(ServerOptions(tokens=book("secret")), shown) as node:
        for name in ("db1.example.net", "localhost", None):
            opened = client.connect("127.0.0.1", node.port, token="secret", tls=checking, server_name=name)
            async with opened as conn:
                assert (await conn.status()).pid == 7
        unchecked = client_context(keys.tls_authority, check_names=False)
        opened = client.connect(
            "127.0.0.1", node.port, token="secret", tls=unchecked, server_name="db2.example.net"
        )
        async with opened as conn:
            assert (await conn.status()).pid == 7


async def test_scripts_without_an_event_loop() -> None:
    def script(port: int) -> dict[str, Any]:
        with sync.connect("127.0.0.1", port) as conn:
            answer = conn.query("q", "ufl")
            rows = sum(batch.num_rows for batch in answer)
            conn.put("ns", "k", b"v", lifetime_s=5.0)
            failing = pytest.raises(client.Refused)
            with failing:
                conn.cancel("nope")
            return {
                "rows": rows,
                "account": answer.account,
                "published": conn.publish("t", [BATCH], ["src"]).rows,
                "got": conn.get("ns", "k"),
                "ring": conn.ring().nodes[0].role,
                "table": conn.query("q").table().num_rows,
                "status": conn.status().pid,
            }

    async with a_node() as node:
        node.engine.on_query = answer_with(2)
        got = await trio.to_thread.run_sync(script, node.port)
    assert got["rows"] == got["table"] == 4 and got["account"].answered == 2
    assert (got["published"], got["got"], got["ring"], got["status"]) == (2, [("", b"v")], "me", 7)


async def test_a_script_hears_of_a_part_as_a_trio_program_does() -> None:
    def script(port: int) -> tuple[int, int]:
        with sync.connect("127.0.0.1", port) as conn:
            with pytest.raises(client.AnswerPartial) as caught:
                conn.query("q").table()
            with pytest.raises(client.AnswerPartial):
                for _ in conn.query("q"):
                    pass
            assert caught.value.table is not None
            return caught.value.table.num_rows, conn.query("q", allow_partial=True).table().num_rows

    async with a_node() as node:
        node.engine.on_query = ends("partial")
        assert await trio.to_thread.run_sync(script, node.port) == (2, 2)


async def test_a_script_that_cannot_connect_is_told() -> None:
    def script() -> None:
        with sync.connect("127.0.0.1", 1, timeout_s=5):
            raise AssertionError("connected")

    with pytest.raises(client.ConnectFailed):
        await trio.to_thread.run_sync(script)
