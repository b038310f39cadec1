"""The client for scripts without an event loop: the same connection, run by a thread of its own.

    from pier_node.client import sync

    with sync.connect("127.0.0.1", 7701) as conn:
        answer = conn.query("SELECT src, count(*) FROM fw GROUP BY src")
        for batch in answer:
            print(batch.to_pylist())
        print(answer.account)

Nothing is written twice: each method runs its asynchronous namesake in the thread and waits for it.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
import trio

from pier_node.client import connection, requests
from pier_node.client.requests import WINDOW_BYTES
from pier_node.protocol import messages as m

T = TypeVar("T")
_END = object()


class _Portal:
    """A thread that runs trio with one connection in it, and takes calls from outside."""

    def __init__(self) -> None:
        self._started = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._stop: trio.Event | None = None
        self._conn: connection.Connection | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def open(self, *args: Any, **kwargs: Any) -> connection.Connection:
        self._thread = threading.Thread(
            target=self._serve, args=(args, kwargs), name="pier client", daemon=True
        )
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        assert self._conn is not None
        return self._conn

    def run(self, fn: Callable[..., Awaitable[T]], *args: Any) -> T:
        return trio.from_thread.run(fn, *args, trio_token=self._token)

    def run_sync(self, fn: Callable[..., T], *args: Any) -> T:
        return trio.from_thread.run_sync(fn, *args, trio_token=self._token)

    def close(self) -> None:
        assert self._stop is not None and self._thread is not None
        self.run_sync(self._stop.set)
        self._thread.join()

    def _serve(self, args: Any, kwargs: Any) -> None:
        try:
            trio.run(self._main, args, kwargs)
        except BaseException as error:
            self._error = error
            self._started.set()

    async def _main(self, args: Any, kwargs: Any) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with connection.connect(*args, **kwargs) as conn:
            self._conn = conn
            self._started.set()
            await self._stop.wait()


@contextmanager
def connect(
    host: str,
    port: int = connection.DEFAULT_PORT,
    *,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    timeout_s: float = connection.CONNECT_TIMEOUT_S,
    agent: str = "pier-python",
) -> Iterator[Connection]:
    """Opens a connection and closes it on the way out; see `pier_node.client.connect`."""
    portal = _Portal()
    conn = portal.open(
        host, port, token=token, tls=tls, server_name=server_name, timeout_s=timeout_s, agent=agent
    )
    try:
        yield Connection(portal, conn)
    finally:
        portal.close()


class Answer:
    """A query's answer: iterate it for record batches; see the asynchronous `Answer`."""

    def __init__(self, portal: _Portal, answer: requests.Answer) -> None:
        self._portal = portal
        self._answer = answer

    @property
    def account(self) -> m.Account | None:
        return self._answer.account

    @property
    def progress(self) -> m.Progress | None:
        return self._answer.progress

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return (event.batch for event in self.events() if isinstance(event, requests.Piece))

    def events(self) -> Iterator[requests.AnswerEvent]:
        events: AsyncIterator[requests.AnswerEvent] = self._answer.events()
        while (event := self._portal.run(_next, events)) is not _END:
            yield event

    def table(self) -> pa.Table:
        return self._portal.run(self._answer.table)

    def cancel(self) -> None:
        self._portal.run_sync(self._answer.cancel)

    def taps(self, on: bool, *operators: str) -> None:
        self._portal.run_sync(self._answer.taps, on, *operators)


async def _next(events: AsyncIterator[Any]) -> Any:
    return await anext(events, _END)


class Feed:
    """A publication; see the asynchronous `Feed`."""

    def __init__(self, portal: _Portal, feed: requests.Feed) -> None:
        self._portal = portal
        self._feed = feed

    def send(self, batch: pa.RecordBatch) -> None:
        self._portal.run(self._feed.send, batch)

    def finish(self) -> m.Published:
        return self._portal.run(self._feed.finish)


class Connection:
    """A node to talk to; see the asynchronous `Connection` for each method."""

    def __init__(self, portal: _Portal, conn: connection.Connection) -> None:
        self._portal = portal
        self._conn = conn

    @property
    def peer(self) -> str:
        """The node's address, as it was given."""
        return self._conn.peer

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
        def ask() -> requests.Answer:
            return self._conn.query(
                text,
                language,
                limits=limits,
                params=params,
                window_bytes=window_bytes,
                part=part,
                allow_partial=allow_partial,
                allow_unknown=allow_unknown,
            )

        return Answer(self._portal, self._portal.run_sync(ask))

    def describe(
        self, text: str, language: m.Language = "sql", params: Mapping[str, m.Scalar] | None = None
    ) -> tuple[pa.Schema | None, bool]:
        return self._portal.run(self._conn.describe, text, language, params)

    def open_log(
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
        async def open_log() -> m.LogIs:
            return await self._conn.open_log(
                log,
                text,
                language,
                lease_s=lease_s,
                limits=limits,
                params=params,
                allow_unknown=allow_unknown,
            )

        return self._portal.run(open_log)

    def log(self, log: str, action: m.LogAction = "look", offset: int = 0) -> m.LogIs:
        return self._portal.run(self._conn.log, log, action, offset)

    def read_log(self, log: str, start: int, end: int, window_bytes: int = WINDOW_BYTES) -> Answer:
        return Answer(self._portal, self._portal.run_sync(self._conn.read_log, log, start, end, window_bytes))

    def explain(self, text: str, language: m.Language = "sql") -> str:
        return self._portal.run(self._conn.explain, text, language)

    def queries(self) -> tuple[m.QueryEntry, ...]:
        return self._portal.run(self._conn.queries)

    def cancel(self, query: str) -> None:
        self._portal.run(self._conn.cancel, query)

    def status(self) -> m.StatusIs:
        return self._portal.run(self._conn.status)

    def ring(self, *, whole: bool = False) -> m.RingIs:
        async def ring() -> m.RingIs:
            return await self._conn.ring(whole=whole)

        return self._portal.run(ring)

    def doors(self) -> m.RingIs:
        return self._portal.run(self._conn.doors)

    def members(self) -> tuple[m.MemberEntry, ...]:
        return self._portal.run(self._conn.members)

    def retire(self, who: str) -> None:
        self._portal.run(self._conn.retire, who)

    def tables(self) -> tuple[m.TableEntry, ...]:
        return self._portal.run(self._conn.tables)

    def publish(
        self,
        table: str,
        batches: Iterable[pa.RecordBatch],
        keys: Iterable[str],
        lifetime_s: float | None = None,
    ) -> m.Published:
        feed = self.feed(table, keys, lifetime_s)
        for batch in batches:
            feed.send(batch)
        return feed.finish()

    def feed(
        self,
        table: str,
        keys: Iterable[str],
        lifetime_s: float | None = None,
        stage: m.Stage | None = None,
    ) -> Feed:
        return Feed(self._portal, self._portal.run_sync(self._conn.feed, table, keys, lifetime_s, stage))

    def settle(self, load: str, table: str, verdict: m.Verdict, tasks: Iterable[str] = ()) -> m.Published:
        return self._portal.run(self._conn.settle, load, table, verdict, tasks)

    def unpublish(self, table: str, keys: Iterable[str | tuple[str, ...]] = ()) -> m.Published:
        return self._portal.run(self._conn.unpublish, table, list(keys))

    def put(self, namespace: str, key: str, value: bytes, *, suffix: str = "", lifetime_s: float) -> None:
        async def put() -> None:
            await self._conn.put(namespace, key, value, suffix=suffix, lifetime_s=lifetime_s)

        self._portal.run(put)

    def get(self, namespace: str, key: str) -> list[tuple[str, bytes]]:
        return self._portal.run(self._conn.get, namespace, key)
