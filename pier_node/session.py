"""One client of a node: its stream, its protocol machine, and the requests it has open.

Bytes from the stream become events, events become calls of the `NodeService`, what the service pushes becomes
bytes. Invariants: every request gets exactly one closing message or dies with the connection; a query whose
client is gone is cancelled; an exception from the service ends one request, never the node. While the stream
is full the session reads nothing more, so a client that asks without reading stops itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from pier_node.protocol import messages as m
from pier_node.protocol import server as machine
from pier_node.protocol.server import OPENING, BatchArrived, BecameReady, Gone, ServerLimits, ServerMachine
from pier_node.reply_form import failure_message, queries_message, reply_message, tables_message
from pier_node.service import Failure, NodeService, Publication, QueryRequest, Settlement
from pier_node.session_sinks import Answer, Publishing
from runtime.api import Clock, Stream, Timer
from runtime.message import Message

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What one client may hold of a node, and how long it may keep it waiting."""

    machine: ServerLimits = field(default_factory=ServerLimits)
    #: Answer rows kept for all queries of one connection while its client does not read.
    backlog_bytes_max: int = 16 << 20
    #: How long an answer waits for its reader before it is given up. Long enough for a person with a pager.
    reader_stall_s: float = 600.0


@dataclass(slots=True)
class SessionCounters:
    """What all sessions of a node have in common: how often something had to be refused or dropped."""

    requests: int = 0
    requests_refused: int = 0
    stale_messages: int = 0
    protocol_errors: int = 0
    service_errors: int = 0
    taps_dropped: int = 0
    answers_given_up: int = 0


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
        admits: Callable[[str], bool],
        limits: SessionLimits,
        counters: SessionCounters,
        journal: SessionJournal,
        gone: Callable[[Session], None],
    ) -> None:
        self.machine = ServerMachine(identity, admits, clock.now(), limits.machine)
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
        self._writable = True
        self._timer: Timer | None = None
        stream.handle(self)
        self._look_later()

    # ---- the stream ----------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        self._dispatch(self.machine.receive(data, self._clock.now()))

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
            self.counters.requests += isinstance(event, OPENING)
            try:
                self._event(request, event)
            except Exception as error:
                self.broke(request, type(event).__name__, error)
        self.flush()

    def _event(self, request: int, event: machine.Event) -> None:
        match event:
            case m.Ask():
                self._ask(event)
            case m.ReadLog(_, log, start, end):
                reading = self._answers[request] = Answer(self, request)
                reading.attach(self._service.read_log(log, start, end, reading))
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
                asked = Publication(event.table, event.keys, event.lifetime_s, self.peer, event.stage)
                feed.attach(self._service.publish(asked, feed))
            case BatchArrived():
                if publishing := self._feeds.get(request):
                    publishing.batch(event)
            case m.PublishEnd():
                if publishing := self._feeds.get(request):
                    publishing.end()
            case _:
                self._call(request, event)

    def _ask(self, event: m.Ask) -> None:
        answer = self._answers[event.request] = Answer(self, event.request)
        asked = QueryRequest(event.text, event.language, event.limits, event.params, self.peer, event.part)
        answer.attach(self._service.query(asked, answer))

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
            case m.Call(what="tables"):
                self._service.tables(lambda result: self.finish(request, tables_message(request, result)))
            case m.Call(what="queries"):
                self._service.queries(lambda result: self.finish(request, queries_message(request, result)))
            case m.Call(what="cancel"):
                self._service.cancel(event.argument, done)
            case m.Explain():
                self._service.explain(QueryRequest(event.text, event.language, client=self.peer), done)
            case m.PutObject(_, namespace, key, suffix, value, lifetime_s):
                self._service.put(namespace, key, suffix, value, lifetime_s, done)
            case m.GetObjects():
                self._service.get(event.namespace, event.key, done)
            case m.Describe():
                asked = QueryRequest(event.text, event.language, params=event.params, client=self.peer)
                self._service.describe(asked, done)
            case m.Settle(_, load, table, verdict, tasks):
                self._service.settle(Settlement(load, table, verdict, tasks), done)
            case m.OpenLog():
                asked = QueryRequest(event.text, event.language, event.limits, event.params, self.peer)
                self._service.open_log(event.log, event.lease_s, asked, done)
            case m.LogCall(_, log, action, offset):
                self._service.log(log, action, offset, done)

    def _cancel(self, request: int) -> None:
        if answer := self._answers.get(request):
            answer.cancel("cancelled by the client")
        elif feed := self._feeds.pop(request, None):
            feed.cancel("cancelled by the client")
            self.finish(request, m.Failed(request, "refused", "the publication was cancelled"))

    # ---- what the sinks use --------------------------------------------------------------------------

    def open(self, request: int) -> bool:
        return request in self.machine.requests

    def overfull(self) -> bool:
        """Whether this connection's answers together wait for their readers beyond the limit."""
        waiting = sum(self.machine.backlog_bytes(request) for request in self._answers)
        return waiting > self._limits.backlog_bytes_max

    def finish(self, request: int, message: Message) -> None:
        """The closing message of a request that still waits for one."""
        self._feeds.pop(request, None)
        if self.machine.awaits_closing(request):
            self.machine.finish(message)
        if not self.open(request):
            self._answers.pop(request, None)
        self.flush()

    def broke(self, request: int, what: str, error: Exception) -> None:
        """The service raised: our fault, told to the client and the operator."""
        self.counters.service_errors += 1
        self._journal.service_error(what, error)
        failure = Failure(
            "internal", f"{type(error).__name__}: {error}", hint="the node's log has the details"
        )
        try:
            if answer := self._answers.get(request):
                answer.stop(failure)
            elif feed := self._feeds.get(request):
                feed.stop(failure)
        except Exception as second:
            self._journal.service_error(f"cancel after {what}", second)
        self.finish(request, failure_message(request, failure))

    def flush(self) -> None:
        data = self.machine.take_output()
        if data and not self._stream.write(data) and self._writable and not self.machine.closed:
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
        for request, answer in list(self._answers.items()):
            if not self.open(request):
                del self._answers[request]
            elif answer.waits_since is not None and now - answer.waits_since > self._limits.reader_stall_s:
                answer.give_up(f"nobody read the answer for {self._limits.reader_stall_s:g} s")
        self._dispatch(self.machine.check(now))
        if not self.machine.closed:
            self._look_later()

    def _ended(self, reason: str) -> None:
        self.counters.stale_messages += self.machine.stale_messages
        self.counters.requests_refused += self.machine.refused_requests
        self.counters.protocol_errors += self.machine.broken
        self._stream.write(self.machine.take_output())
        self._stream.close()
        if self._timer is not None:
            self._timer.cancel()
        running: list[Answer | Publishing] = [*self._answers.values(), *self._feeds.values()]
        self._answers.clear()
        self._feeds.clear()
        for request in running:
            try:
                request.cancel(reason or "the client hung up")
            except Exception as error:
                self._journal.service_error("cancel", error)
        self._journal.client_event("client gone", self.peer, reason=reason)
        self._gone(self)
