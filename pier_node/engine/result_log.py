"""Results that can be read again: a query's rows, numbered from 0, kept at a node until they are released.

A client that may be restarted (a stream of another system) reads by position and releases what it has stored safely.
The query runs on whether or not anybody is connected, as long as somebody asks for its log within the lease. A log that
is full makes its query wait, as a slow reader does. Logs, their bytes and their queries count against the client that
opened them, as long as they are kept.

Invariant: rows from `first` up to `next` are here, in entries that follow each other without a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from pier_node.access.rates import Hold, Share
from pier_node.node_service import NothingRuns
from pier_node.protocol.messages import Account
from pier_node.service import (
    FORBIDDEN,
    AnswerSink,
    Failure,
    LogName,
    LogState,
    QueryHandle,
    QueryRequest,
    Reply,
)
from runtime.api import Runtime, Timer

#: Beyond so many times the bytes at which its query has to wait, a log whose query does not wait is ended.
HARD_TIMES = 2


@dataclass(frozen=True, slots=True)
class LogLimits:
    """What all result logs of a node may take; what one client may is in its share."""

    logs_total_max: int = 64
    #: Of one log, before its query has to wait.
    log_bytes_max: int = 32 << 20
    logs_total_bytes_max: int = 1 << 30
    lease_s_max: float = 24 * 3_600.0


Start = Callable[[QueryRequest, AnswerSink], QueryHandle]


@dataclass(frozen=True, slots=True)
class Entry:
    start: int
    table: str
    batch: pa.RecordBatch
    epoch: int | None
    bytes: int

    @property
    def end(self) -> int:
        return self.start + int(self.batch.num_rows)


@dataclass(frozen=True, slots=True)
class LogStatistics:
    kept: int
    bytes: int
    expired: int
    #: Logs that were not opened, or ended, for want of room.
    refused: int


class Room:
    """The bytes that all logs of a node take together."""

    def __init__(self, limits: LogLimits) -> None:
        self.limits = limits
        self.bytes = 0
        self.refused = 0


class ResultLog:
    """One log: the sink of its query."""

    def __init__(self, name: LogName, request: QueryRequest, lease_s: float, room: Room) -> None:
        self.name = name
        self.request = request
        self.lease_s = lease_s
        self.handle: QueryHandle | None = None
        self.timer: Timer | None = None
        self._room = room
        self._entries: deque[Entry] = deque()
        self._first = self._next = 0
        self._bytes = 0
        self._ended = ""
        self._runs = True
        self._on_ready: Callable[[], None] | None = None

    @property
    def state(self) -> LogState:
        return LogState(self._first, self._next, self._ended)

    # -- from the query

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        if self._ended or not batch.num_rows:
            return True
        size = int(batch.nbytes)
        full = self._full(size)
        if full is not None:
            self._room.refused += 1
            self.close(f"limit: {full}")
            return False
        self._entries.append(Entry(self._next, table, batch, epoch, size))
        self._next += int(batch.num_rows)
        self._bytes += size
        self._room.bytes += size
        return self.ready()

    def _full(self, size: int) -> str | None:
        """Why so many bytes more cannot be kept; None when they are taken from the client's share."""
        limits = self._room.limits
        hard, total = HARD_TIMES * limits.log_bytes_max, limits.logs_total_bytes_max
        if self._bytes + size > hard:
            return f"{self._bytes} bytes of rows that nobody released (client.log_bytes_max = {limits.log_bytes_max})"
        if self._room.bytes + size > total:
            return (
                f"{self._room.bytes} bytes in all logs of this node (client.logs_total_bytes_max = {total})"
            )
        return self.request.share.take(Hold.LOG_BYTES, size)

    def ready(self) -> bool:
        return self._bytes < self._room.limits.log_bytes_max

    def on_ready(self, handler: Callable[[], None]) -> None:
        self._on_ready = handler

    def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None:
        """Nobody looks on."""

    def epoch_account(self, account: Account) -> None:
        """Accounts of epochs are for those who watch."""

    def tap(self, node: str, operator: str, text: str) -> None:
        """Nobody listens."""

    def finish(self, account: Account) -> None:
        self._over()
        self._ended = self._ended or account.ended
        if account.ended == "failed" and account.notes:
            self._ended = f"failed: {account.notes[0]}"

    def fail(self, failure: Failure) -> None:
        self._over()
        if failure.kind == FORBIDDEN:
            self.request.share.forbidden()
        self._ended = self._ended or f"failed: {failure.message}"

    def _over(self) -> None:
        """Its query runs no more."""
        if self._runs:
            self._runs = False
            self.request.share.give(Hold.QUERIES)

    # -- from readers

    def release(self, offset: int) -> None:
        was_ready = self.ready()
        while self._entries and self._entries[0].end <= offset:
            self._give(self._entries.popleft().bytes)
        self._first = max(self._first, min(offset, self._next))
        if not was_ready and self.ready() and self._on_ready is not None:
            self._on_ready()

    def between(self, start: int, end: int) -> list[Entry]:
        """The entries that hold these rows, cut to them."""
        found = []
        for entry in self._entries:
            low, high = max(start, entry.start), min(end, entry.end)
            if low < high:
                rows = entry.batch.slice(low - entry.start, high - low)
                found.append(Entry(low, entry.table, rows, entry.epoch, 0))
        return found

    def _give(self, size: int) -> None:
        self._bytes -= size
        self._room.bytes -= size
        self.request.share.give(Hold.LOG_BYTES, size)

    def close(self, why: str) -> None:
        self._ended = self._ended or why
        if self.handle is not None:
            self.handle.cancel(why)
        self._over()

    def forget(self) -> None:
        """The log itself goes, with its rows."""
        self._entries.clear()
        self._give(self._bytes)
        self.request.share.give(Hold.LOGS)


class LogReading:
    """Rows of a log on their way to one client."""

    def __init__(self, log: ResultLog, start: int, end: int, sink: AnswerSink) -> None:
        self._log = log
        self._left = deque(log.between(start, end))
        self._rows = end - start
        self._sink = sink
        self._over = False
        sink.on_ready(self._push)

    def start(self) -> None:
        self._push()

    def cancel(self, reason: str) -> None:
        self._end("cancelled")

    def taps(self, on: bool, operators: tuple[str, ...]) -> None:
        """A log has no operators."""

    def _push(self) -> None:
        while self._left and not self._over:
            entry = self._left.popleft()
            if not self._sink.batch(entry.table, entry.batch, entry.epoch):
                return
        if not self._left:
            self._end("complete")

    def _end(self, ended: str) -> None:
        if not self._over:
            self._over = True
            self._sink.finish(Account(self._log.name.name, rows=self._rows, ended=ended))


class ResultLogs:
    """All logs of one node."""

    def __init__(self, runtime: Runtime, start: Start, limits: LogLimits | None = None) -> None:
        self.expired = 0
        self._runtime = runtime
        self._start = start
        self._room = Room(limits or LogLimits())
        self._logs: dict[LogName, ResultLog] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def statistics(self) -> LogStatistics:
        return LogStatistics(len(self._logs), self._room.bytes, self.expired, self._room.refused)

    def open(self, name: LogName, lease_s: float, request: QueryRequest, done: Reply[LogState]) -> None:
        log = self._logs.get(name)
        if log is None:
            words = self._no_room(request.share)
            if words is not None:
                self._room.refused += 1
                done(Failure("limit", words, hint="close a log, or let its lease run out"))
                return
            lease_s = min(lease_s, self._room.limits.lease_s_max)
            log = self._logs[name] = ResultLog(name, request, lease_s, self._room)
            log.handle = self._start(request, log)
        elif (log.request.text, log.request.language) != (request.text, request.language):
            done(Failure("refused", f"result log {name.name} is of another query"))
            return
        self._renew(log)
        done(log.state)

    def _no_room(self, share: Share) -> str | None:
        """Why one more log cannot be kept; None when it and its query are taken from the client's share."""
        most = self._room.limits.logs_total_max
        if len(self._logs) >= most:
            return f"{most} result logs are kept at this node (client.logs_total_max = {most})"
        words = share.take(Hold.LOGS)
        if words is None and (words := share.take(Hold.QUERIES)) is not None:
            share.give(Hold.LOGS)
        return words

    def call(self, name: LogName, action: str, offset: int, done: Reply[LogState]) -> None:
        log = self._logs.get(name)
        if log is None:
            done(self._unknown(name))
            return
        self._renew(log)
        if action == "release":
            log.release(offset)
        elif action == "close":
            self._drop(log, "closed by its reader")
        done(log.state)

    def read(self, name: LogName, start: int, end: int, sink: AnswerSink) -> QueryHandle:
        log = self._logs.get(name)
        if log is None:
            sink.fail(self._unknown(name))
            return NothingRuns()
        self._renew(log)
        state = log.state
        if not state.first <= start <= end <= state.next:
            holds = f"it holds {state.first} up to {state.next}"
            sink.fail(Failure("refused", f"result log {name.name} has no rows {start} up to {end}: {holds}"))
            return NothingRuns()
        reading = LogReading(log, start, end, sink)
        reading.start()
        return reading

    def _unknown(self, name: LogName) -> Failure:
        return Failure(
            "refused",
            f"there is no result log {name.name} at this node",
            hint="its lease has run out, or the node was started anew",
        )

    def _renew(self, log: ResultLog) -> None:
        if log.timer is not None:
            log.timer.cancel()
        log.timer = self._runtime.call_later(log.lease_s, self._lapsed, log)

    def _lapsed(self, log: ResultLog) -> None:
        self.expired += 1
        self._drop(log, "nobody asked for it within its lease")

    def _drop(self, log: ResultLog, why: str) -> None:
        self._logs.pop(log.name, None)
        if log.timer is not None:
            log.timer.cancel()
        log.close(why)
        log.forget()
