"""A connection to a node, for trio programs.

    async with connect("127.0.0.1", 7701) as conn:
        answer = conn.query("SELECT src, count(*) FROM fw GROUP BY src")
        async for batch in answer:
            print(batch.to_pylist())
        print(answer.account)

One task reads, one writes, one watches the clock; the protocol machine between them is the one the node's
own tests use. A cancelled caller never leaves half a frame on the wire, because only the writer writes.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import pyarrow as pa
import trio

from pier_node.client.errors import ConnectFailed, ConnectionLost
from pier_node.client.requests import WINDOW_BYTES, Answer, Call, Feed, Request
from pier_node.config.addresses import join_address
from pier_node.protocol import client as protocol
from pier_node.protocol import messages as m
from pier_node.protocol.arrow import read_schema
from pier_node.protocol.client import ClientMachine
from pier_node.protocol.server import Gone
from query.batch.key_text import KEY_SEPARATOR
from runtime.message import Message

#: The port of a node's door for clients, when none is named.
DEFAULT_PORT = 7701
#: To reach the node, to agree on TLS and to be welcomed, all together.
CONNECT_TIMEOUT_S = 10.0
#: How long leaving waits for a goodbye to get out.
_CLOSE_GRACE_S = 1.0
_READ_BYTES = 256 << 10
#: OpenSSL's numbers for a certificate of another host name, mail address or IP address.
_OTHER_NAME_CODES = (62, 63, 64)
OTHER_NAME = (
    "pier keys new node --name HOST makes a certificate for a host, pier keys rotate tls --name HOST adds to one; "
    "--tls-name NAME connects to a host whose certificate has another name"
)

T = TypeVar("T", bound=Message)


@asynccontextmanager
async def connect(
    host: str,
    port: int = DEFAULT_PORT,
    *,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
    agent: str = "pier-python",
) -> AsyncIterator[Connection]:
    """Opens a connection and closes it on the way out. Raises ConnectFailed when there is nobody to talk to.

    `tls` comes from `pier_node.tls.client_context`; without it the stream is plain, which nodes allow on
    loopback only."""
    stream = await _open_stream(host, port, tls, server_name, timeout_s)
    try:
        async with trio.open_nursery() as nursery:
            conn = Connection(stream, join_address(host, port), token, agent)
            nursery.start_soon(conn._read)
            nursery.start_soon(conn._write)
            nursery.start_soon(conn._watch)
            try:
                await conn._wait_welcome(timeout_s)
                yield conn
            finally:
                await conn._leave()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # The tasks above raise nothing of their own: a lone exception is the caller's, and stays as it was.
        if len(group.exceptions) == 1:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        raise


async def _open_stream(
    host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None, timeout_s: float
) -> trio.abc.Stream:
    try:
        with trio.fail_after(timeout_s):
            raw = await trio.open_tcp_stream(host, port)
            if tls is None:
                return raw
            secured: trio.SSLStream[trio.SocketStream] = trio.SSLStream(
                raw, tls, server_hostname=server_name or host, https_compatible=True
            )
            await secured.do_handshake()
            return secured
    except trio.TooSlowError:
        raise ConnectFailed(f"{host}:{port} did not answer within {timeout_s:g} s") from None
    except (OSError, ssl.SSLError, trio.BrokenResourceError) as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError) and _is_other_name(error.__cause__):
            raise ConnectFailed(
                f"{host}:{port} shows a certificate that is not for {server_name or host}", OTHER_NAME
            ) from error
        raise ConnectFailed(f"cannot connect to {host}:{port}: {_reason(error)}") from error


def _is_other_name(error: ssl.SSLCertVerificationError) -> bool:
    return error.verify_code in _OTHER_NAME_CODES


def _reason(error: BaseException) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        elif isinstance(cause, OSError) and cause.strerror:
            # The library's own wording repeats the address; a resolver's errors have negative numbers.
            return os.strerror(cause.errno) if cause.errno and cause.errno > 0 else cause.strerror
        else:
            cause = cause.__cause__
    return str(error)


class Connection:
    """A node to talk to; many requests may be open at once."""

    def __init__(self, stream: trio.abc.Stream, peer: str, token: str, agent: str) -> None:
        self.peer = peer
        self.machine = ClientMachine(trio.current_time(), token, agent)
        self._stream = stream
        self._requests: dict[int, Request] = {}
        self._wake = trio.Event()
        self._welcomed = trio.Event()
        self._written = trio.Event()
        self._gone: str | None = None

    # ---- queries -------------------------------------------------------------------------------------

    def query(
        self,
        text: str,
        language: m.Language = "sql",
        *,
        limits: m.Limits | None = None,
        params: Mapping[str, m.Scalar] | None = None,
        window_bytes: int = WINDOW_BYTES,
        part: m.Slice | None = None,
        allow_partial: bool = False,
        allow_unknown: bool = False,
    ) -> Answer:
        """Starts a query; rows come as the answer is iterated. Bounded by `window_bytes` ahead of the reader.
        With `part`, only nodes of that part of the ring are asked. With `allow_partial`, an answer that nodes or rows
        are missing from, or that a limit ended, is none the less an answer; with `allow_unknown`, a table that no node
        knows is an empty one."""
        self._require_open()
        request = self.machine.ask(text, language, window_bytes, limits, params, part, allow_unknown)
        return self._answer(request, window_bytes, allow_partial)

    async def describe(
        self, text: str, language: m.Language = "sql", params: Mapping[str, m.Scalar] | None = None
    ) -> tuple[pa.Schema | None, bool]:
        """The columns a query would give, None when they are not known before it runs; and whether parts of the
        ring can be asked one by one."""
        self._require_open()
        described = await self._call(m.Described, self.machine.describe(text, language, params))
        return (read_schema(described.data) if described.data else None), described.divisible

    async def explain(self, text: str, language: m.Language = "sql") -> str:
        """How a query would run, as text."""
        self._require_open()
        return (await self._call(m.Explained, self.machine.explain(text, language))).text

    async def queries(self) -> tuple[m.QueryEntry, ...]:
        return (await self._ask(m.QueriesAre, "queries")).queries

    async def cancel(self, query: str) -> None:
        """Cancels any query by its id."""
        await self._ask(m.Done, "cancel", query)

    # ---- logs of results -----------------------------------------------------------------------------

    async def open_log(
        self,
        log: str,
        text: str,
        language: m.Language = "sql",
        *,
        lease_s: float,
        limits: m.Limits | None = None,
        params: Mapping[str, m.Scalar] | None = None,
        allow_unknown: bool = False,
    ) -> m.LogIs:
        """Runs a query whose rows the node keeps, numbered, until they are released; finds the log if it is there.
        It ends when nobody asks for it within the lease."""
        self._require_open()
        request = self.machine.open_log(log, text, language, lease_s, limits, params, allow_unknown)
        return await self._call(m.LogIs, request)

    async def log(self, log: str, action: m.LogAction = "look", offset: int = 0) -> m.LogIs:
        """How a log stands; `release` lets its rows before `offset` go, `close` ends it."""
        self._require_open()
        return await self._call(m.LogIs, self.machine.log(log, action, offset))

    def read_log(self, log: str, start: int, end: int, window_bytes: int = WINDOW_BYTES) -> Answer:
        """Rows of a log, from `start` up to `end`."""
        self._require_open()
        return self._answer(self.machine.read_log(log, start, end, window_bytes), window_bytes)

    # ---- the node and its tables ---------------------------------------------------------------------

    async def status(self) -> m.StatusIs:
        return await self._ask(m.StatusIs, "status")

    async def ring(self, *, whole: bool = False) -> m.RingIs:
        """The node and its neighbours or, with `whole`, every node in order of its id."""
        return await self._ask(m.RingIs, "whole-ring" if whole else "ring")

    async def doors(self) -> m.RingIs:
        """Every node with the arc it owns and where clients reach it, in order of its id."""
        return await self._ask(m.RingIs, "doors")

    async def members(self) -> tuple[m.MemberEntry, ...]:
        """Everybody who belongs to the ring, on it or not."""
        return (await self._ask(m.MembersAre, "members")).members

    async def retire(self, who: str) -> None:
        """Expects a member no more that is absent, by its id or the beginning of it, or by its host name. Takes the
        role administer."""
        await self._ask(m.Done, "retire", who)

    async def tables(self) -> tuple[m.TableEntry, ...]:
        return (await self._ask(m.TablesAre, "tables")).tables

    # ---- data in -------------------------------------------------------------------------------------

    def feed(
        self,
        table: str,
        keys: Iterable[str],
        lifetime_s: float | None = None,
        stage: m.Stage | None = None,
    ) -> Feed:
        """Starts a publication to send batches to by hand; see `publish`. Staged rows wait for `settle`."""
        self._require_open()
        feed = Feed(self, self.machine.publish(table, keys, lifetime_s, stage), table)
        self._opened(feed)
        return feed

    async def settle(
        self, load: str, table: str, verdict: m.Verdict, tasks: Iterable[str] = ()
    ) -> m.Published:
        """Decides about rows of a load that were staged at this node, or published by it."""
        self._require_open()
        return await self._call(m.Published, self.machine.settle(load, table, verdict, tasks))

    async def publish(
        self,
        table: str,
        batches: Iterable[pa.RecordBatch],
        keys: Iterable[str],
        lifetime_s: float | None = None,
    ) -> m.Published:
        """Puts rows into the DHT, placed by their key columns: all of them are seen from when this returns, or none."""
        feed = self.feed(table, keys, lifetime_s)
        for batch in batches:
            await feed.send(batch)
        return await feed.finish()

    async def unpublish(self, table: str, keys: Iterable[str | tuple[str, ...]] = ()) -> m.Published:
        """Ends a published table everywhere, or what lies under some keys of it: a key is the text of its value or, of
        several columns, a tuple of texts. `objects` says how many went."""
        self._require_open()
        texts = [each if isinstance(each, str) else KEY_SEPARATOR.join(each) for each in keys]
        return await self._call(m.Published, self.machine.unpublish(table, texts))

    async def put(
        self, namespace: str, key: str, value: bytes, *, suffix: str = "", lifetime_s: float
    ) -> None:
        """One object under its name; it is gone after its lifetime."""
        self._require_open()
        await self._call(m.Done, self.machine.put_object(namespace, key, suffix, value, lifetime_s))

    async def get(self, namespace: str, key: str) -> list[tuple[str, bytes]]:
        """Suffix and value of every object under a name."""
        self._require_open()
        return list((await self._call(m.ObjectsAre, self.machine.get_objects(namespace, key))).objects)

    # ---- inside --------------------------------------------------------------------------------------

    def flush(self) -> None:
        self._wake.set()

    def _require_open(self) -> None:
        if self._gone is not None:
            raise ConnectionLost(self._gone)

    def _answer(self, number: int, window_bytes: int, allow_partial: bool = False) -> Answer:
        answer = Answer(self, number, window_bytes, allow_partial)
        self._opened(answer)
        return answer

    def _opened(self, request: Request) -> None:
        self._requests[request.number] = request
        self.flush()

    async def _ask(self, kind: type[T], what: m.Question, argument: str = "") -> T:
        self._require_open()
        return await self._call(kind, self.machine.call(what, argument))

    async def _call(self, kind: type[T], number: int) -> T:
        call = Call(self, number)
        self._opened(call)
        try:
            reply = await call.wait()
        except trio.Cancelled:
            self.machine.cancel(number)
            raise
        assert isinstance(reply, kind), f"{kind.__name__} was asked for, {type(reply).__name__} came"
        return reply

    def _deliver(self, events: list[protocol.Event]) -> None:
        for event in events:
            if isinstance(event, Gone):
                self._ended(event)
                return
            if isinstance(event, m.Welcome):
                self._welcomed.set()
                continue
            number: int = event.request  # type: ignore[union-attr]
            request = self._requests.get(number)
            if request is not None:
                request.deliver(event)
                if isinstance(event, m.CLOSING) and not (isinstance(event, m.AccountIs) and not event.final):
                    del self._requests[number]
        self.flush()

    def _ended(self, gone: Gone) -> None:
        self._gone = gone.reason or "the connection is closed"
        for request in self._requests.values():
            request.deliver(gone)
        self._requests.clear()
        self._welcomed.set()
        self.flush()

    async def _wait_welcome(self, timeout_s: float) -> None:
        with trio.move_on_after(timeout_s):
            await self._welcomed.wait()
        if not self._welcomed.is_set():
            raise ConnectFailed(
                f"{self.peer} accepts connections but does not answer; is it a node's client port?"
            )
        if self._gone is not None:
            raise ConnectFailed(f"{self.peer} refused the connection: {self._gone}")

    async def _read(self) -> None:
        try:
            while data := await self._stream.receive_some(_READ_BYTES):
                self._deliver(self.machine.receive(bytes(data), trio.current_time()))
            self._deliver(self.machine.lost("the node closed the connection"))
        except (trio.BrokenResourceError, trio.ClosedResourceError, ssl.SSLError) as error:
            self._deliver(self.machine.lost(f"the connection broke: {_reason(error)}"))

    async def _write(self) -> None:
        try:
            while True:
                pieces = self.machine.take_output()
                for piece in pieces:
                    await self._stream.send_all(piece)
                if pieces:
                    continue
                if self._gone is not None:
                    return
                await self._wake.wait()
                self._wake = trio.Event()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            self._deliver(self.machine.lost(f"the connection broke: {_reason(error)}"))
        finally:
            self._written.set()

    async def _watch(self) -> None:
        while self._gone is None:
            await trio.sleep_until(max(self.machine.next_check(), trio.current_time() + 0.05))
            self._deliver(self.machine.check(trio.current_time()))

    async def _leave(self) -> None:
        self._deliver(self.machine.close())
        with trio.move_on_after(_CLOSE_GRACE_S, shield=True):
            await self._written.wait()
        await trio.aclose_forcefully(self._stream)
