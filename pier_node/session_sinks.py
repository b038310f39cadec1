"""The two ends that a service talks to: where an answer goes, and how a publication is answered.

Both pass things on to their session and keep the promises of `service.py` whatever the service does: after
the end nothing more goes out, a producer that does not wait is stopped, a client that is gone costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pier_node.protocol import messages as m
from pier_node.protocol.errors import LocalProtocolError
from pier_node.protocol.flow import BacklogFull
from pier_node.protocol.server import BatchArrived
from pier_node.reply_form import NAME_CHARS_MAX, bounded_account, clip, failure_message, reply_message
from pier_node.service import Failure, Feed, PublicationResult, QueryHandle
from runtime.message import Message

if TYPE_CHECKING:
    from pier_node.session import Session

TOO_SLOW = Failure(
    "limit",
    "the client reads more slowly than the answer comes, and the node keeps no more of it",
    hint="read faster, ask for fewer rows, or raise client.backlog_bytes_max",
)


class Answer:
    """An `AnswerSink` for one query of one client."""

    __slots__ = ("_ended", "_handle", "_on_ready", "_request", "_session", "waits_since")

    def __init__(self, session: Session, request: int) -> None:
        self._session = session
        self._request = request
        self._handle: QueryHandle | None = None
        self._on_ready: Callable[[], None] | None = None
        self._ended = False
        #: Since when rows wait for the reader; None when they do not.
        self.waits_since: float | None = None

    # ---- for the session -----------------------------------------------------------------------------

    def attach(self, handle: QueryHandle) -> None:
        self._handle = handle

    def became_ready(self) -> None:
        self.waits_since = None
        if self._on_ready is not None and not self._ended:
            self._on_ready()

    def cancel(self, reason: str) -> None:
        if self._handle is not None and not self._ended:
            self._handle.cancel(reason)

    def taps(self, on: bool, operators: tuple[str, ...]) -> None:
        if self._handle is not None and not self._ended:
            self._handle.taps(on, operators)

    def give_up(self, why: str) -> None:
        """The reader does not come: the rows go, the query ends."""
        self._session.counters.answers_given_up += 1
        self._session.machine.abandon(self._request)
        self.stop(Failure("limit", why, hint="client.reader_stall_s is the time a reader has"))

    def stop(self, failure: Failure) -> None:
        """Ends a query from this side."""
        handle, ended = self._handle, self._ended
        self.fail(failure)
        if handle is not None and not ended:
            handle.cancel(failure.message)

    # ---- for the engine ------------------------------------------------------------------------------

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        if self._ended or not self._session.open(self._request):
            return True
        try:
            full = self._session.overfull()
            if full is not None:
                self.stop(replace(TOO_SLOW, message=f"{TOO_SLOW.message}: {full}"))
                return False
            ready = self._session.machine.rows(self._request, table, batch, epoch)
        except BacklogFull:
            self.stop(TOO_SLOW)
            return False
        except LocalProtocolError as error:
            self.stop(Failure("limit", str(error)))
            return False
        self._session.flush()
        ready = ready and self._session.writable
        if not ready and self.waits_since is None:
            self.waits_since = self._session.now()
        return ready

    def ready(self) -> bool:
        return self._session.writable and self._session.machine.is_ready(self._request)

    def on_ready(self, handler: Callable[[], None]) -> None:
        self._on_ready = handler

    def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None:
        # A client that is behind on reading gains nothing from old progress.
        if self._alive() and self._session.writable:
            self._session.machine.say(m.Progress(self._request, asked, answered, rows, elapsed_s))
            self._session.flush()

    def epoch_account(self, account: m.Account) -> None:
        if not self._alive():
            return
        try:
            self._session.machine.say(m.AccountIs(self._request, bounded_account(account), final=False))
        except BacklogFull:
            self.stop(TOO_SLOW)
        self._session.flush()

    def tap(self, node: str, operator: str, text: str) -> None:
        if not self._alive():
            return
        if not self._session.writable:
            self._session.counters.taps_dropped += 1
            return
        self._session.machine.say(
            m.Tapped(self._request, clip(node, NAME_CHARS_MAX), clip(operator, NAME_CHARS_MAX), clip(text))
        )
        self._session.flush()

    def finish(self, account: m.Account) -> None:
        self._end(m.AccountIs(self._request, bounded_account(account)))

    def fail(self, failure: Failure) -> None:
        self._end(failure_message(self._request, failure))

    # ---- inside --------------------------------------------------------------------------------------

    def _alive(self) -> bool:
        return not self._ended and self._session.open(self._request)

    def _end(self, message: Message) -> None:
        if self._alive():
            self._ended = True
            self._session.finish(self._request, message)
        self._ended = True


class Publishing:
    """A `FeedControl` for one publication of one client."""

    __slots__ = ("_ended", "_feed", "_request", "_session")

    def __init__(self, session: Session, request: int) -> None:
        self._session = session
        self._request = request
        self._feed: Feed | None = None
        self._ended = False

    def attach(self, feed: Feed) -> None:
        self._feed = feed

    def batch(self, event: BatchArrived) -> None:
        assert self._feed is not None
        if not self._ended:
            self._feed.batch(event.batch, event.size_bytes)

    def end(self) -> None:
        assert self._feed is not None
        if not self._ended:
            self._feed.end()

    def cancel(self, reason: str) -> None:
        if self._feed is not None and not self._ended:
            self._ended = True
            self._feed.cancel(reason)

    def stop(self, failure: Failure) -> None:
        """Ends a publication from this side."""
        feed, ended = self._feed, self._ended
        self.fail(failure)
        if feed is not None and not ended:
            feed.cancel(failure.message)

    def consumed(self, size_bytes: int) -> None:
        if not self._ended and self._session.open(self._request):
            self._session.grant(self._request, size_bytes)

    def progress(self, objects: int, confirmed: int, rows_confirmed: int, elapsed_s: float) -> None:
        # As of an answer: a client that is behind on reading gains nothing from old progress.
        if not self._ended and self._session.open(self._request) and self._session.writable:
            self._session.machine.say(
                m.Progress(self._request, objects, confirmed, rows_confirmed, elapsed_s)
            )
            self._session.flush()

    def finish(self, result: PublicationResult) -> None:
        self._end(reply_message(self._request, result))

    def fail(self, failure: Failure) -> None:
        self._end(failure_message(self._request, failure))

    def _end(self, message: Message) -> None:
        if not self._ended:
            self._ended = True
            self._session.finish(self._request, message)
