"""Open requests of a connection: where what the node says of each is kept until someone asks for it.

The connection's reader delivers events, the user's task takes them. Invariant: an answer holds at most the
credit it granted plus one frame; every request ends with a result or an error, also when the connection does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, TypeAlias

import pyarrow as pa
import trio

from pier_node.client.errors import AnswerIncomplete, ConnectionLost, PierError, error_of, incomplete
from pier_node.protocol import client as protocol
from pier_node.protocol import messages as m
from pier_node.protocol.client import BatchReceived, ClientMachine
from pier_node.protocol.errors import LocalProtocolError
from pier_node.protocol.server import BecameReady, Gone
from runtime.message import Message

#: Answer bytes on their way to us or waiting for our user; more hides latency, less holds less memory.
WINDOW_BYTES = 4 << 20
#: Messages from inside a query that wait for the user; older ones give way and are counted.
TAPS_MAX = 10_000


class Link(Protocol):
    """What a request needs of its connection."""

    machine: ClientMachine

    def flush(self) -> None: ...


class Request:
    """Something the node will answer."""

    def __init__(self, link: Link, number: int) -> None:
        self._link = link
        self.number = number
        self._error: PierError | None = None
        self._news = trio.Event()

    def deliver(self, event: protocol.Event) -> None:
        if isinstance(event, Gone):
            self._error = ConnectionLost(event.reason or "the connection is closed")
        elif isinstance(event, m.Failed):
            self._error = error_of(event)
        else:
            self.take(event)
        self._news.set()

    def take(self, event: protocol.Event) -> None:
        """Keeps what is not an error."""

    async def wait_news(self) -> None:
        await self._news.wait()
        self._news = trio.Event()


class Call(Request):
    """A question with one answer."""

    def __init__(self, link: Link, number: int) -> None:
        super().__init__(link, number)
        self._result: Message | None = None

    def take(self, event: protocol.Event) -> None:
        if isinstance(event, Message):
            self._result = event

    async def wait(self) -> Message:
        while self._result is None and self._error is None:
            await self.wait_news()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of an answer: the table they call themselves, and the epoch of a continuous query."""

    table: str
    batch: pa.RecordBatch
    epoch: int | None


AnswerEvent: TypeAlias = "Piece | m.Account | m.Tapped | m.Progress"


class Answer(Request):
    """A query's answer as it comes: `async for batch in answer`; afterwards `answer.account` says who answered.

    An answer that turns out not to be whole ends in an `AnswerIncomplete` behind its rows, unless it was asked for with
    `allow_partial`, or cancelled here. `progress` and, for continuous queries, `account` are also there while it runs;
    an epoch that is not whole is told by its account alone. Used as a context manager it cancels the query on the way
    out, if it still runs."""

    def __init__(self, link: Link, number: int, window_bytes: int, allow_partial: bool = False) -> None:
        super().__init__(link, number)
        self._allow_partial = allow_partial
        self._given_up = False
        self.progress: m.Progress | None = None
        self.account: m.Account | None = None
        self.taps_lost = 0
        self._window_bytes = window_bytes
        self._used_bytes = 0
        self._events: deque[BatchReceived | m.AccountIs | m.Tapped | m.Progress] = deque()
        self._taps = 0
        self._ended = False

    def take(self, event: protocol.Event) -> None:
        if isinstance(event, m.Progress):
            self.progress = event
            if self._events and isinstance(self._events[-1], m.Progress):
                self._events.pop()
            self._events.append(event)
        elif isinstance(event, m.Tapped):
            if self._taps < TAPS_MAX:
                self._taps += 1
                self._events.append(event)
            else:
                self.taps_lost += 1
        elif isinstance(event, BatchReceived | m.AccountIs):
            self._events.append(event)

    @property
    def ended(self) -> bool:
        return self._ended

    async def events(self) -> AsyncIterator[AnswerEvent]:
        """Rows, progress, accounts of epochs and taps in the order they came; ends with the final account, and then
        with an `AnswerIncomplete` if that says so."""
        while not self._ended:
            while self._events:
                event = self._events.popleft()
                if isinstance(event, BatchReceived):
                    self._use(event.size_bytes)
                    yield Piece(event.table, event.batch, event.epoch)
                elif isinstance(event, m.AccountIs):
                    self.account = event.account
                    self._ended = event.final
                    yield event.account
                else:
                    self._taps -= isinstance(event, m.Tapped)
                    yield event
            if self._ended:
                self._require_whole()
                return
            if self._error is not None:
                self._ended = True
                self.account = getattr(self._error, "account", None)
                raise self._error
            await self.wait_news()

    async def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        async for event in self.events():
            if isinstance(event, Piece):
                yield event.batch

    async def table(self) -> pa.Table:
        """The whole answer at once. A column that a batch lacks, or has no value of, is NULL there; types agree."""
        tables: list[pa.Table] = []
        try:
            async for batch in self:
                tables.append(pa.Table.from_batches([batch]))
        except AnswerIncomplete as error:
            error.table = _together(tables)
            raise
        return _together(tables)

    def _require_whole(self) -> None:
        """Who cancels a query does not expect the whole of it."""
        error = None if self.account is None else incomplete(self.account, self._allow_partial)
        if error is not None and not self._given_up:
            raise error

    def cancel(self) -> None:
        """Asks the node to end the query; what it has answered so far and the account still come."""
        self._given_up = True
        self._link.machine.cancel(self.number)
        self._link.flush()

    def taps(self, on: bool, *operators: str) -> None:
        """Switches messages from inside the query on or off, from some operators or from all."""
        self._link.machine.taps(self.number, on, operators)
        self._link.flush()

    async def __aenter__(self) -> Answer:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._ended:
            self.cancel()

    def _use(self, size_bytes: int) -> None:
        """Credit goes back in lumps of a quarter window: fewer messages, never a dry pipe."""
        self._used_bytes += size_bytes
        if self._used_bytes * 4 >= self._window_bytes:
            self._link.machine.grant(self.number, self._used_bytes)
            self._link.flush()
            self._used_bytes = 0


def _together(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


class Feed(Request):
    """A publication: `await feed.send(batch)` waits while the node is behind; `await feed.finish()` ends it."""

    def __init__(self, link: Link, number: int, table: str) -> None:
        super().__init__(link, number)
        self._table = table
        self._result: m.Published | None = None
        #: How far the node is with it: `asked` objects so far, `answered` of them confirmed by those who keep them.
        self.progress: m.Progress | None = None
        #: Called with each of these.
        self.on_progress: Callable[[m.Progress], None] = lambda progress: None

    def take(self, event: protocol.Event) -> None:
        if isinstance(event, m.Published):
            self._result = event
        elif isinstance(event, m.Progress):
            self.progress = event
            self.on_progress(event)
        else:
            assert isinstance(event, BecameReady)

    async def send(self, batch: pa.RecordBatch) -> None:
        await self._until(lambda: self._link.machine.is_ready(self.number))
        try:
            self._link.machine.rows(self.number, self._table, batch)
        except LocalProtocolError as error:
            # Nothing of it has left: the node need not be asked whether it would take it.
            self._link.machine.cancel(self.number)
            self._link.flush()
            raise error_of(m.Failed(self.number, "limit", str(error))) from None
        self._link.flush()

    async def finish(self) -> m.Published:
        self._link.machine.publish_end(self.number)
        self._link.flush()
        await self._until(lambda: self._result is not None)
        assert self._result is not None
        return self._result

    async def _until(self, true: Callable[[], bool]) -> None:
        while self._error is None and not true():
            await self.wait_news()
        if self._error is not None:
            raise self._error
        await trio.lowlevel.checkpoint()
