"""One client of a node: its stream, its protocol machine, and the requests it has open.

Bytes from the stream become events, events that the client has a right to (`access`) become calls of the
`NodeService`, what the service pushes becomes bytes. Invariants: every request gets exactly one closing message or
dies with the connection; a query whose client is gone is cancelled; an exception from the service ends one request,
never the node. While the stream is full the session reads nothing more, so a client that asks without reading
stops itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from pier_node.access.clients import ANYONE, Client
from pier_node.access.rates import Hold, Share
from pier_node.access.rights import holds, judged, may_cancel
from pier_node.protocol import messages as m
from pier_node.protocol import server as machine
from pier_node.protocol.server import (
    OPENING,
    BatchArrived,
    BecameReady,
    Gone,
    ServerMachine,
    Spoilt,
)
from pier_node.reply_form import failure_message, queries_message, reply_message, tables_message
from pier_node.service import (
    FORBIDDEN,
    Failure,
    LogName,
    NodeService,
    Publication,
    QueryRequest,
    Settlement,
)
from pier_node.session_holdings import Holdings
from pier_node.session_limits import SessionCounters, SessionLimits
from pier_node.session_sinks import Answer, Publishing
from runtime.api import Clock, Stream, Timer
from runtime.message import Message

T = TypeVar("T")


class SessionJournal(Protocol):
    """Where a session tells what an operator should know."""

    def client_event(self, event: str, peer: str, **details: object) -> None: ...

    def service_error(self, what: str, error: Exception) -> None: ...


class Session:
    """A `StreamHandler` for one accepted stream."""

    def __init__(
        self,
        stream: Stream,
        clock: Clock,
        service: NodeService,
        identity: m.Welcome,
        admits: Callable[[str], Client | None],
        share_of: Callable[[Client], Share],
        limits: SessionLimits,
        counters: SessionCounters,
        journal: SessionJournal,
        gone: Callable[[Session], None],
    ) -> None:
        """`admits` knows whose a token is, `share_of` what that client has used so far."""
        self.machine = ServerMachine(identity, self._admit, clock.now(), limits.machine)
        #: Who it is, once it has said its token; and the token.
        self.client: Client | None = None
        self.word = ""
        self._admits = admits
        self._share_of = share_of
        self.counters = counters
        self.peer = stream.peer
        self._limits = limits
        self._stream = stream
        self._clock = clock
        self._service = service
        self._journal = journal
        self._gone = gone
        self._answers: dict[int, Answer] = {}
        self._feeds: dict[int, Publishing] = {}
        #: What this connection holds of its client's share, once the client is known.
        self._holdings: Holdings | None = None
        #: When requests that the node answers by itself must have been answered.
        self._watched: dict[int, Timer] = {}
        self._writable = True
        self._timer: Timer | None = None
        stream.handle(self)
        self._look_later()

    # ---- the stream ----------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        self._dispatch(self.machine.receive(data, self._clock.now()))
        self._count_input()

    def _count_input(self) -> None:
        """The beginning of a large message is the client's as much as the whole."""
        holdings = None if self.machine.closed else self._holdings
        if holdings is not None and holdings.waiting(Hold.INPUT_BYTES, self.machine.held_bytes):
            too_much = holdings.share.too_much(Hold.INPUT_BYTES)
            if too_much is not None:
                self.close(too_much)

    def drained(self) -> None:
        if not self._writable:
            self._writable = True
            self._stream.resume_reading()
            self._dispatch(self.machine.set_writable(True))

    def closed(self, reason: str) -> None:
        self._dispatch(self.machine.lost(reason or "the client hung up"))

    def close(self, reason: str) -> None:
        """Hangs up from the node's side."""
        self._dispatch(self.machine.close(reason))

    # ---- events --------------------------------------------------------------------------------------

    def _dispatch(self, events: list[machine.Event]) -> None:
        for event in events:
            if isinstance(event, Gone):
                self._ended(event.reason)
                return
            request: int = event.request
            try:
                if isinstance(event, OPENING):
                    self._open(request, event)
                else:
                    self._event(request, event)
            except Exception as error:
                self.broke(request, type(event).__name__, error)
        self.flush()

    def _admit(self, token: str) -> str:
        """Why the client is not let in; empty when it is."""
        client = self._admits(token)
        if client is None:
            return "token not accepted"
        share = self._share_of(client)
        words = share.take(Hold.CONNECTIONS)
        if words is None:
            self.client, self.word, self._holdings = client, token, Holdings(share)
        return words or ""

    def _open(self, request: int, event: machine.Event) -> None:
        """A new request, if the client may."""
        assert self.client is not None and self._holdings is not None and isinstance(event, OPENING)
        self.counters.requests += 1
        self._drop_closed()
        refused = judged(self.client, self._holdings.share, event, self._clock.now())
        if refused is not None:
            self.counters.requests_refused += 1
            self.finish(request, failure_message(request, refused))
            return
        self._holdings.opened(request, holds(event))
        self._event(request, event)

    def _event(self, request: int, event: machine.Event) -> None:
        match event:
            case m.Ask():
                self._ask(event)
            case m.ReadLog(_, log, start, end):
                reading = self._answers[request] = Answer(self, request)
                reading.attach(self._service.read_log(self._own_log(log), start, end, reading))
            case BecameReady():
                if answer := self._answers.get(request):
                    answer.became_ready()
            case m.Cancel():
                self._cancel(request)
            case m.Taps():
                if answer := self._answers.get(request):
                    answer.taps(event.on, event.operators)
            case m.Publish():
                feed = self._feeds[request] = Publishing(self, request)
                asked = Publication(
                    event.table,
                    event.keys,
                    event.lifetime_s,
                    self.label,
                    event.stage,
                    self._name(),
                    self._share,
                )
                feed.attach(self._service.publish(asked, feed))
            case Spoilt():
                self._fail(request, Failure("refused", event.why))
            case BatchArrived():
                if publishing := self._feeds.get(request):
                    publishing.batch(event)
            case m.PublishEnd():
                if publishing := self._feeds.get(request):
                    self._watch(request, self._limits.publish_s_max, "client.publish_s_max")
                    publishing.end()
            case m.Settle() | m.Unpublish():
                self._watch(request, self._limits.publish_s_max, "client.publish_s_max")
                self._call(request, event)
            case _:
                self._watch(request, self._limits.call_s_max, "client.call_s_max")
                self._call(request, event)

    def _ask(self, event: m.Ask) -> None:
        answer = self._answers[event.request] = Answer(self, event.request)
        asked = self._query_request(event, event.limits, event.part, event.unknown_tables)
        answer.attach(self._service.query(asked, answer))

    def _query_request(
        self,
        event: m.Ask | m.Describe | m.OpenLog,
        limits: m.Limits | None = None,
        part: m.Slice | None = None,
        unknown_tables: bool = False,
    ) -> QueryRequest:
        return QueryRequest(
            event.text,
            event.language,
            limits or m.Limits(),
            event.params,
            self.label,
            part,
            self.client or ANYONE,
            self._share,
            unknown_tables,
        )

    def _name(self) -> str:
        return (self.client or ANYONE).name

    def _own_log(self, log: str) -> LogName:
        """Logs have the names their readers gave them: each client has its own."""
        return LogName(self._name(), log)

    def _call(self, request: int, event: machine.Event) -> None:
        """A question with one answer."""

        def done(result: object) -> None:
            self.finish(request, reply_message(request, result))

        match event:
            case m.Call(what="status"):
                self._service.status(done)
            case m.Call(what="ring" | "whole-ring" as what):
                self._service.ring(what == "whole-ring", done)
            case m.Call(what="doors"):
                self._service.doors(done)
            case m.Call(what="members"):
                self._service.members(done)
            case m.Call(what="retire"):
                self._service.retire(event.argument, done)
            case m.Call(what="tables"):
                self._service.tables(lambda result: self.finish(request, tables_message(request, result)))
            case m.Call(what="queries"):
                self._queries(lambda result: self.finish(request, queries_message(request, result)))
            case m.Call(what="cancel"):
                self._cancel_any(event.argument, done)
            case m.Explain():
                self._service.explain(QueryRequest(event.text, event.language, client=self.label), done)
            case m.PutObject(_, namespace, key, suffix, value, lifetime_s):
                self._service.put(namespace, key, suffix, value, lifetime_s, done)
            case m.GetObjects():
                self._service.get(event.namespace, event.key, done)
            case m.Describe():
                self._service.describe(self._query_request(event), done)
            case m.Settle(_, load, table, verdict, tasks):
                self._service.settle(Settlement(load, table, verdict, tasks), done)
            case m.Unpublish(_, table, keys):
                self._service.unpublish(table, keys, done)
            case m.OpenLog():
                asked = self._query_request(event, event.limits, unknown_tables=event.unknown_tables)
                self._service.open_log(self._own_log(event.log), event.lease_s, asked, done)
            case m.LogCall(_, log, action, offset):
                self._service.log(self._own_log(log), action, offset, done)

    def _queries(self, done: Callable[[tuple[m.QueryEntry, ...] | Failure], None]) -> None:
        """The queries this client may know of: its own, or everybody's for one who administers."""
        client = self.client

        def mine(result: tuple[m.QueryEntry, ...] | Failure) -> None:
            if isinstance(result, Failure) or client is None or client.administers:
                done(result)
            else:
                done(tuple(entry for entry in result if not may_cancel(client, entry.owner, entry.id)))

        self._service.queries(mine)

    def _cancel_any(self, query: str, done: Callable[[Failure | None], None]) -> None:
        client = self.client or ANYONE

        def known(result: tuple[m.QueryEntry, ...] | Failure) -> None:
            if isinstance(result, Failure):
                done(result)
                return
            owner = next((entry.owner for entry in result if entry.id == query), "")
            refused = may_cancel(client, owner, query)
            if refused is not None:
                done(refused)
            else:
                self._service.cancel(query, done)

        if client.administers:
            self._service.cancel(query, done)
        else:
            self._service.queries(known)

    def _cancel(self, request: int) -> None:
        if answer := self._answers.get(request):
            answer.cancel("cancelled by the client")
        elif feed := self._feeds.pop(request, None):
            feed.cancel("cancelled by the client")
            self.finish(request, m.Failed(request, "refused", "the publication was cancelled"))

    # ---- what the sinks use --------------------------------------------------------------------------

    @property
    def _share(self) -> Share:
        assert self._holdings is not None, "nobody asks before the hello"
        return self._holdings.share

    @property
    def label(self) -> str:
        """Who asks, for lists and logs."""
        return (
            f"{self.client.name}@{self.peer}" if self.client is not None and self.client.name else self.peer
        )

    def grant(self, request: int, size_bytes: int) -> None:
        """Lets a publishing client send more: at once, or as soon as its rate allows."""
        delay_s = self._share.published(self._clock.now(), size_bytes)
        if delay_s > 0.0:
            self._clock.call_later(delay_s, self._grant_now, (request, size_bytes))
        else:
            self._grant_now((request, size_bytes))

    def _grant_now(self, grant: tuple[int, int]) -> None:
        request, size_bytes = grant
        if self.machine.awaits_closing(request):
            self.machine.grant(request, size_bytes)
            self.flush()

    def open(self, request: int) -> bool:
        return request in self.machine.requests

    def overfull(self) -> str | None:
        """Why no more rows can wait here for their readers: this connection's, or the client's over all of them."""
        waiting, most = self._backlog_bytes(), self._limits.backlog_bytes_max
        if waiting > most:
            return f"{waiting} bytes wait on this connection (client.connection_backlog_bytes_max = {most})"
        return self._share.too_much(Hold.BACKLOG_BYTES) if waiting else None

    def _backlog_bytes(self) -> int:
        """What waits here for readers; the client's share is told."""
        waiting = sum(self.machine.backlog_bytes(request) for request in self._answers)
        if self._holdings is not None:
            self._holdings.waiting(Hold.BACKLOG_BYTES, waiting)
        return waiting

    def finish(self, request: int, message: Message) -> None:
        """The closing message of a request that still waits for one."""
        self._feeds.pop(request, None)
        if timer := self._watched.pop(request, None):
            timer.cancel()
        if self.machine.awaits_closing(request):
            if isinstance(message, m.Failed) and message.kind == FORBIDDEN:
                self._share.forbidden()
            self.machine.finish(message)
        if not self.open(request):
            self._drop(request)
        self.flush()

    def _drop(self, request: int) -> None:
        self._answers.pop(request, None)
        if self._holdings is not None:
            self._holdings.closed(request)

    def _drop_closed(self) -> None:
        """Forgets requests whose last row has been read."""
        held = self._holdings.requests if self._holdings is not None else ()
        for request in [request for request in held if not self.open(request)]:
            self._drop(request)

    def _watch(self, request: int, time_s: float, knob: str) -> None:
        """No request outlives its time, whatever becomes of it inside."""
        self._watched[request] = self._clock.call_later(time_s, self._overdue, (request, time_s, knob))

    def _overdue(self, watched: tuple[int, float, str]) -> None:
        request, time_s, knob = watched
        self._watched.pop(request, None)
        if not self.machine.awaits_closing(request):
            return
        self.counters.overdue += 1
        failure = Failure(
            "unavailable",
            f"the node had no answer after {time_s:g} s ({knob})",
            hint="the node's log may say why; ask another node, or ask again",
        )
        self._fail(request, failure)

    def _fail(self, request: int, failure: Failure) -> None:
        """Ends a request from this side, and what runs for it."""
        if answer := self._answers.get(request):
            answer.stop(failure)
        elif feed := self._feeds.get(request):
            feed.stop(failure)
        self.finish(request, failure_message(request, failure))

    def broke(self, request: int, what: str, error: Exception) -> None:
        """The service raised: our fault, told to the client and the operator."""
        self.counters.service_errors += 1
        self._journal.service_error(what, error)
        failure = Failure(
            "internal", f"{type(error).__name__}: {error}", hint="the node's log has the details"
        )
        try:
            self._fail(request, failure)
        except Exception as second:
            self._journal.service_error(f"cancel after {what}", second)
            self.finish(request, failure_message(request, failure))

    def flush(self) -> None:
        self._backlog_bytes()
        keeps_up = True
        for piece in self.machine.take_output():
            keeps_up = self._stream.write(piece)
        if not keeps_up and self._writable and not self.machine.closed:
            self._writable = False
            self._stream.pause_reading()
            self.machine.set_writable(False)

    @property
    def writable(self) -> bool:
        return self._writable

    def now(self) -> float:
        return self._clock.now()

    # ---- time and the end ----------------------------------------------------------------------------

    def _look_later(self) -> None:
        delay_s = max(0.05, self.machine.next_check() - self._clock.now())
        stalled_s = self._limits.reader_stall_s / 4 if self._answers else delay_s
        self._timer = self._clock.call_later(min(delay_s, max(0.05, stalled_s)), Session._look, self)

    def _look(self) -> None:
        now = self._clock.now()
        self._drop_closed()
        for answer in list(self._answers.values()):
            if answer.waits_since is not None and now - answer.waits_since > self._limits.reader_stall_s:
                answer.give_up(f"nobody read the answer for {self._limits.reader_stall_s:g} s")
        self._dispatch(self.machine.check(now))
        if not self.machine.closed:
            self._look_later()

    def _ended(self, reason: str) -> None:
        self.counters.stale_messages += self.machine.stale_messages
        self.counters.requests_refused += self.machine.refused_requests
        self.counters.unfit_messages += self.machine.unfit_messages
        self.counters.unsaid += self.machine.unsaid
        self.counters.protocol_errors += self.machine.broken
        for piece in self.machine.take_output():
            self._stream.write(piece)
        self._stream.close()
        if self._timer is not None:
            self._timer.cancel()
        running: list[Answer | Publishing] = [*self._answers.values(), *self._feeds.values()]
        self._give_back()
        for request in running:
            try:
                request.cancel(reason or "the client hung up")
            except Exception as error:
                self._journal.service_error("cancel", error)
        self._journal.client_event("client gone", self.peer, reason=reason)
        self._gone(self)

    def _give_back(self) -> None:
        """The client holds nothing here any more."""
        self._answers.clear()
        self._feeds.clear()
        for timer in self._watched.values():
            timer.cancel()
        self._watched.clear()
        if self._holdings is not None:
            self._holdings.give_back()
            self._holdings = None
