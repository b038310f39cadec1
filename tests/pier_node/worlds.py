"""A clock, streams and a node for tests of the client server: explicit time, no sockets."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from pier_node.access.clients import Role
from pier_node.access.tokens import Token, TokenBook, digest
from pier_node.protocol import messages as m
from pier_node.protocol.client import ClientMachine
from pier_node.server import ClientServer, ServerOptions
from pier_node.service import (
    AnswerSink,
    Failure,
    Feed,
    FeedControl,
    MembersView,
    NodeStatus,
    Publication,
    PublicationResult,
    QueryHandle,
    QueryRequest,
    RingView,
)


def book(word: str, *roles: Role, **more: Any) -> TokenBook:
    """A book with one token; its bearer is called `someone`."""
    return TokenBook(tokens=(Token("someone", roles or ("administer",), (digest(word),), 0, **more),))


BATCH = pa.record_batch({"src": ["10.0.0.1", "10.0.0.2"], "n": [1, 2]})


class ManualClock:
    """Time that moves when told to."""

    address = "127.0.0.1:9"

    def __init__(self) -> None:
        self._now = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, Callable[[Any], None], Any, list[bool]]] = []

    def now(self) -> float:
        return self._now

    def wall(self) -> float:
        return self._now

    def call_later(self, delay_s: float, fn: Callable[[Any], None], arg: Any) -> Any:
        live = [True]
        heapq.heappush(self._timers, (self._now + delay_s, next(self._order), fn, arg, live))

        class Pending:
            def cancel(self) -> None:
                live[0] = False

        return Pending()

    def advance(self, seconds: float) -> None:
        until = self._now + seconds
        while self._timers and self._timers[0][0] <= until:
            self._now, _, fn, arg, live = heapq.heappop(self._timers)
            if live[0]:
                fn(arg)
        self._now = until


class PipeStream:
    """The node's end of a stream; the test is the other end and says when it reads."""

    peer = "127.0.0.1:55555"

    def __init__(self, high_water_bytes: int = 1 << 20) -> None:
        self.high_water_bytes = high_water_bytes
        self.sent = bytearray()
        self.paused = False
        self.over = False
        self._full = False
        self.handler: Any = None

    def handle(self, handler: Any) -> None:
        self.handler = handler

    def write(self, data: bytes) -> bool:
        assert not self.over
        self.sent += data
        self._full = self._full or len(self.sent) > self.high_water_bytes
        return not self._full

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.over = True

    def take(self) -> bytes:
        data = bytes(self.sent)
        self.sent.clear()
        if self._full and not self.over:
            self._full = False
            self.handler.drained()
        return data


class ScriptedEngine:
    """An engine whose answers a test writes down; remembers what it was told."""

    def __init__(self) -> None:
        self.sinks: list[AnswerSink] = []
        self.asked: list[QueryRequest] = []
        self.told: list[tuple[Any, ...]] = []
        #: Whether publications come to their end.
        self.feeds_end = True
        self.on_query: Callable[[AnswerSink], None] = lambda sink: None
        self.on_taps: Callable[[AnswerSink], object] = lambda sink: None

    def query(self, request: QueryRequest, sink: AnswerSink) -> QueryHandle:
        self.asked.append(request)
        self.sinks.append(sink)
        self.on_query(sink)
        return _Handle(self, sink)

    def explain(self, request: QueryRequest, done: Any) -> None:
        done(f"plan of {request.text}")

    def queries(self, done: Any) -> None:
        done((m.QueryEntry("q1", "SELECT " + "x" * 5_000),))

    def cancel(self, query: str, done: Any) -> None:
        done(None if query == "q1" else Failure("refused", f"there is no query {query}"))

    def tables(self, done: Any) -> None:
        done((m.TableEntry("fw", "firewall", ("src",), ("string",)),))

    def unpublish(self, table: str, keys: tuple[str, ...], done: Any) -> None:
        self.told.append(("unpublish", table, keys))
        done(PublicationResult(0, 5))

    def allow(self, may_publish: Callable[[str, str], bool]) -> None:
        self.told.append(("allow", may_publish("reader", "fw")))

    def publish(self, publication: Publication, control: FeedControl) -> Feed:
        self.told.append(("publish", publication))
        return _Feed(self, control)


class _Handle:
    def __init__(self, engine: ScriptedEngine, sink: AnswerSink) -> None:
        self.engine, self.sink = engine, sink

    def cancel(self, reason: str) -> None:
        self.engine.told.append(("cancel", reason))
        self.sink.finish(m.Account("q1", ended="cancelled"))

    def taps(self, on: bool, operators: tuple[str, ...]) -> None:
        self.engine.told.append(("taps", on, operators))
        self.engine.on_taps(self.sink)


class _Feed:
    def __init__(self, engine: ScriptedEngine, control: FeedControl) -> None:
        self.engine, self.control = engine, control
        self.rows = 0

    def batch(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        self.rows += batch.num_rows
        self.control.consumed(size_bytes)

    def end(self) -> None:
        if self.engine.feeds_end:
            self.control.finish(PublicationResult(self.rows, self.rows))

    def cancel(self, reason: str) -> None:
        self.engine.told.append(("feed cancelled", reason))


class FixedOverlay:
    """The overlay half with fixed answers."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, bytes]] = {}
        self.retired: list[str] = []

    def status(self, done: Any) -> None:
        done(NodeStatus("ab" * 20, "127.0.0.1:9", True, 3, "0.1", 7, 1.5, figures={"a.b": 1}))

    def ring(self, whole: bool, done: Any) -> None:
        done(RingView((m.NodeEntry("ab" * 20, "127.0.0.1:9", "me"),), whole))

    def members(self, done: Any) -> None:
        here = m.MemberEntry("ab" * 20, "127.0.0.1:9", "web1", "0.1", "", ("fw",), "here", 0.0)
        done(MembersView((here, m.MemberEntry("cd" * 20, host="web2", state="absent", seen_s=12.5))))

    def retire(self, who: str, done: Any) -> None:
        self.retired.append(who)
        done(None if who == "web2" else Failure("refused", f"no member {who!r} is expected"))

    def put(self, namespace: str, key: str, suffix: str, value: bytes, lifetime_s: float, done: Any) -> None:
        self.objects.setdefault((namespace, key), {})[suffix] = value
        done(None)

    def get(self, namespace: str, key: str, done: Any) -> None:
        done(sorted(self.objects.get((namespace, key), {}).items()))


class ListJournal:
    """Keeps what an operator would read."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def client_event(self, event: str, peer: str, **details: object) -> None:
        self.lines.append((event, peer, details))

    def service_error(self, what: str, error: Exception) -> None:
        self.lines.append(("error", what, error))


class Door:
    """A client server on a manual clock, and clients that talk to it through pipes."""

    def __init__(self, service: Any, options: ServerOptions | None = None) -> None:
        self.clock = ManualClock()
        self.journal = ListJournal()
        runtime: Any = self.clock
        self.server = ClientServer(runtime, service, "ab" * 20, options or ServerOptions(), self.journal)

    def client(self, token: str = "", high_water_bytes: int = 1 << 20) -> Caller:
        return Caller(self, token, high_water_bytes)


class Caller:
    """One client."""

    def __init__(self, door: Door, token: str, high_water_bytes: int) -> None:
        self.door = door
        self.stream = PipeStream(high_water_bytes)
        door.server.accept(self.stream)
        self.machine = ClientMachine(door.clock.now(), token, "test")
        self.events: list[Any] = []
        self.run()

    def send(self) -> None:
        """Sends without reading."""
        data = b"".join(self.machine.take_output())
        if data and not self.stream.over:
            self.stream.handler.received(data)

    def run(self) -> None:
        """Sends and reads until there is no more to say."""
        while True:
            self.send()
            data = self.stream.take()
            if not data:
                return
            self.events += self.machine.receive(data, self.door.clock.now())

    def told(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]
