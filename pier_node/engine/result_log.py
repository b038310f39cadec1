"""Results that can be read again: a query's rows, numbered from 0, kept at a node until they are released.

A client that may be restarted (a stream of another system) reads by position and releases what it has stored safely.
The query runs on whether or not anybody is connected, as long as somebody asks for its log within the lease. A log that
is full makes its query wait, as a slow reader does.

Invariant: rows from `first` up to `next` are here, in entries that follow each other without a gap.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from pier_node.node_service import NothingRuns
from pier_node.protocol.messages import Account
from pier_node.service import AnswerSink, Failure, LogState, QueryHandle, QueryRequest, Reply
from runtime.api import Runtime, Timer

#: Logs of one node.
LOGS_MAX = 64
#: Rows kept of one log before its query has to wait, and before it is ended because it does not.
LOG_BYTES_MAX = 64 << 20
LOG_BYTES_HARD_MAX = 2 * LOG_BYTES_MAX
#: The longest lease.
LEASE_MAX_S = 24 * 3600.0

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


class ResultLog:
    """One log: the sink of its query."""

    def __init__(self, name: str, request: QueryRequest, lease_s: float) -> None:
        self.name = name
        self.request = request
        self.lease_s = lease_s
        self.handle: QueryHandle | None = None
        self.timer: Timer | None = None
        self._entries: deque[Entry] = deque()
        self._first = self._next = 0
        self._bytes = 0
        self._ended = ""
        self._on_ready: Callable[[], None] | None = None
        self._opened: Reply[LogState] | None = None

    @property
    def state(self) -> LogState:
        return LogState(self._first, self._next, self._ended)

    # -- from the query

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        if self._ended or not batch.num_rows:
            return True
        size = int(batch.nbytes)
        if self._bytes + size > LOG_BYTES_HARD_MAX:
            self.close(f"limit: {LOG_BYTES_HARD_MAX} bytes of rows that nobody released (LOG_BYTES_MAX)")
            return False
        self._entries.append(Entry(self._next, table, batch, epoch, size))
        self._next += int(batch.num_rows)
        self._bytes += size
        return self.ready()

    def ready(self) -> bool:
        return self._bytes < LOG_BYTES_MAX

    def on_ready(self, handler: Callable[[], None]) -> None:
        self._on_ready = handler

    def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None:
        """Nobody looks on."""

    def epoch_account(self, account: Account) -> None:
        """Accounts of epochs are for those who watch."""

    def tap(self, node: str, operator: str, text: str) -> None:
        """Nobody listens."""

    def finish(self, account: Account) -> None:
        self._ended = self._ended or account.ended
        if account.ended == "failed" and account.notes:
            self._ended = f"failed: {account.notes[0]}"

    def fail(self, failure: Failure) -> None:
        self._ended = self._ended or f"failed: {failure.message}"

    # -- from readers

    def release(self, offset: int) -> None:
        was_ready = self.ready()
        while self._entries and self._entries[0].end <= offset:
            self._bytes -= self._entries.popleft().bytes
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

    def close(self, why: str) -> None:
        self._ended = self._ended or why
        if self.handle is not None:
            self.handle.cancel(why)


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
            self._sink.finish(Account(self._log.name, rows=self._rows, ended=ended))


class ResultLogs:
    """All logs of one node."""

    def __init__(self, runtime: Runtime, start: Start) -> None:
        self.expired = 0
        self._runtime = runtime
        self._start = start
        self._logs: dict[str, ResultLog] = {}

    def __len__(self) -> int:
        return len(self._logs)

    def open(self, name: str, lease_s: float, request: QueryRequest, done: Reply[LogState]) -> None:
        log = self._logs.get(name)
        if log is None:
            if len(self._logs) >= LOGS_MAX:
                done(Failure("limit", f"{LOGS_MAX} result logs are kept at this node (LOGS_MAX)"))
                return
            log = self._logs[name] = ResultLog(name, request, min(lease_s, LEASE_MAX_S))
            log.handle = self._start(request, log)
        elif (log.request.text, log.request.language) != (request.text, request.language):
            done(Failure("refused", f"result log {name} is of another query"))
            return
        self._renew(log)
        done(log.state)

    def call(self, name: str, action: str, offset: int, done: Reply[LogState]) -> None:
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

    def read(self, name: str, start: int, end: int, sink: AnswerSink) -> QueryHandle:
        log = self._logs.get(name)
        if log is None:
            sink.fail(self._unknown(name))
            return NothingRuns()
        self._renew(log)
        state = log.state
        if not state.first <= start <= end <= state.next:
            holds = f"it holds {state.first} up to {state.next}"
            sink.fail(Failure("refused", f"result log {name} has no rows {start} up to {end}: {holds}"))
            return NothingRuns()
        reading = LogReading(log, start, end, sink)
        reading.start()
        return reading

    def _unknown(self, name: str) -> Failure:
        return Failure(
            "refused",
            f"there is no result log {name} at this node",
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
