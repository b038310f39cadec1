"""A node's service put together from its halves: the overlay's and the engine's.

A node whose engine is absent gets `NoEngine`, which refuses every question about data in the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from pier_node.protocol.messages import QueryEntry, TableEntry
from pier_node.service import (
    AnswerSink,
    Description,
    EngineService,
    Failure,
    Feed,
    FeedControl,
    LogName,
    LogState,
    MembersView,
    NodeStatus,
    OverlayService,
    Publication,
    PublicationResult,
    QueryHandle,
    QueryRequest,
    Reply,
    RingView,
    Settlement,
)

NO_ENGINE = Failure("unavailable", "this node has no query engine", hint="ask a node that runs one")


@dataclass(frozen=True, slots=True)
class ComposedService:
    """Passes each question to the half it belongs to."""

    overlay: OverlayService
    engine: EngineService

    def status(self, done: Reply[NodeStatus]) -> None:
        self.overlay.status(done)

    def ring(self, whole: bool, done: Reply[RingView]) -> None:
        self.overlay.ring(whole, done)

    def doors(self, done: Reply[RingView]) -> None:
        self.overlay.doors(done)

    def members(self, done: Reply[MembersView]) -> None:
        self.overlay.members(done)

    def retire(self, who: str, done: Reply[None]) -> None:
        self.overlay.retire(who, done)

    def put(
        self, namespace: str, key: str, suffix: str, value: bytes, lifetime_s: float, done: Reply[None]
    ) -> None:
        self.overlay.put(namespace, key, suffix, value, lifetime_s, done)

    def get(self, namespace: str, key: str, done: Reply[list[tuple[str, bytes]]]) -> None:
        self.overlay.get(namespace, key, done)

    def query(self, request: QueryRequest, sink: AnswerSink) -> QueryHandle:
        return self.engine.query(request, sink)

    def explain(self, request: QueryRequest, done: Reply[str]) -> None:
        self.engine.explain(request, done)

    def queries(self, done: Reply[tuple[QueryEntry, ...]]) -> None:
        self.engine.queries(done)

    def cancel(self, query: str, done: Reply[None]) -> None:
        self.engine.cancel(query, done)

    def tables(self, done: Reply[tuple[TableEntry, ...]]) -> None:
        self.engine.tables(done)

    def publish(self, publication: Publication, control: FeedControl) -> Feed:
        return self.engine.publish(publication, control)

    def settle(self, settlement: Settlement, done: Reply[PublicationResult]) -> None:
        self.engine.settle(settlement, done)

    def unpublish(self, table: str, keys: tuple[str, ...], done: Reply[PublicationResult]) -> None:
        self.engine.unpublish(table, keys, done)

    def allow(self, may_publish: Callable[[str, str], bool]) -> None:
        self.engine.allow(may_publish)

    def describe(self, request: QueryRequest, done: Reply[Description]) -> None:
        self.engine.describe(request, done)

    def open_log(self, log: LogName, lease_s: float, request: QueryRequest, done: Reply[LogState]) -> None:
        self.engine.open_log(log, lease_s, request, done)

    def log(self, log: LogName, action: str, offset: int, done: Reply[LogState]) -> None:
        self.engine.log(log, action, offset, done)

    def read_log(self, log: LogName, start: int, end: int, sink: AnswerSink) -> QueryHandle:
        return self.engine.read_log(log, start, end, sink)


class NothingRuns:
    """The handle of a query or publication that was refused at once."""

    def cancel(self, reason: str) -> None:
        """There is nothing to end."""

    def taps(self, on: bool, operators: tuple[str, ...]) -> None:
        """There is nothing to listen to."""

    def batch(self, batch: pa.RecordBatch, size_bytes: int) -> None:
        """Rows sent before the refusal arrived."""

    def end(self) -> None:
        """The refusal was the answer."""


class NoEngine:
    """Stands where an engine would."""

    def query(self, request: QueryRequest, sink: AnswerSink) -> QueryHandle:
        sink.fail(NO_ENGINE)
        return NothingRuns()

    def explain(self, request: QueryRequest, done: Reply[str]) -> None:
        done(NO_ENGINE)

    def queries(self, done: Reply[tuple[QueryEntry, ...]]) -> None:
        done(())

    def cancel(self, query: str, done: Reply[None]) -> None:
        done(NO_ENGINE)

    def tables(self, done: Reply[tuple[TableEntry, ...]]) -> None:
        done(())

    def publish(self, publication: Publication, control: FeedControl) -> Feed:
        control.fail(NO_ENGINE)
        return NothingRuns()

    def settle(self, settlement: Settlement, done: Reply[PublicationResult]) -> None:
        done(NO_ENGINE)

    def unpublish(self, table: str, keys: tuple[str, ...], done: Reply[PublicationResult]) -> None:
        done(NO_ENGINE)

    def allow(self, may_publish: Callable[[str, str], bool]) -> None:
        """Nothing was published here."""

    def describe(self, request: QueryRequest, done: Reply[Description]) -> None:
        done(NO_ENGINE)

    def open_log(self, log: LogName, lease_s: float, request: QueryRequest, done: Reply[LogState]) -> None:
        done(NO_ENGINE)

    def log(self, log: LogName, action: str, offset: int, done: Reply[LogState]) -> None:
        done(NO_ENGINE)

    def read_log(self, log: LogName, start: int, end: int, sink: AnswerSink) -> QueryHandle:
        sink.fail(NO_ENGINE)
        return NothingRuns()
