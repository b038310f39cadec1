"""A DataFrame into the DHT: every task stages its rows at the nodes that own them, the driver makes them visible.

    task     splits its batches by owner, feeds each node on one connection, says what it staged where
    commit   asks every node whether the tasks that count are there; only then tells all of them to publish
    abort    tells every node to let the load go

A task that is retried, or run twice at once, stages under another name and is not named by the commit: its rows never
show. If a node fails between the question and the word, what others published is taken back, and the error says what
could not be.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pier_node.client import PierError, sync
from pier_node.protocol.messages import Stage
from pyspark_pier import reach
from pyspark_pier.errors import PierSparkError
from pyspark_pier.options import WriteOptions
from pyspark_pier.ring_placement import Targets, by_target, targets_of
from pyspark_pier.settling import Settling
from pyspark_pier.spark_types import check_writable
from pyspark_pier.worker_memory import keep_lasting

#: Rows that a task gathers before it splits them by owner: more makes fewer, larger batches, less holds less memory.
GATHER_ROWS = 65_536
GATHER_BYTES = 16 << 20


@dataclass
class Staged(WriterCommitMessage):
    """What one task left at the nodes, by address."""

    load: str
    task: str
    rows: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Feeding:
    """What tasks need to know; travels with the writer."""

    options: WriteOptions
    targets: Targets
    #: How the names of this job's tasks begin: a job that fails gives up its own tasks, not those of another that
    #: feeds the same load.
    run: str

    def stage(self, batches: Iterator[pa.RecordBatch], load: str) -> Staged:
        """Feeds one task's rows to their nodes."""
        context = TaskContext.get()
        number = 0 if context is None else context.partitionId()
        attempt = 0 if context is None else context.taskAttemptId()
        keep_lasting()
        task = f"{self.run}.{number}.{attempt}.{secrets.token_hex(4)}"
        stage = Stage(load, task, self.options.lease_s, self.options.copies)
        staged = Staged(load, task)
        with ExitStack() as opened:
            lines = _Lines(self, stage, opened)
            try:
                for gathered in _gathered(batches):
                    for target, rows in by_target(
                        gathered, self.options.table, self.options.keys, self.targets
                    ):
                        lines.send(target, rows)
                lines.finish(staged)
            except PierError as error:
                raise PierSparkError(f"part {number} could not be staged: {error}") from error
        return staged


class _Lines:
    """A task's connections, opened when there is something to send. A node that does not answer is stood in for by
    the next that does: any node takes in any rows."""

    def __init__(self, feeding: Feeding, stage: Stage, opened: ExitStack) -> None:
        self._feeding = feeding
        self._stage = stage
        self._opened = opened
        self._feeds: dict[int, tuple[str, sync.Feed]] = {}

    def send(self, target: int, rows: pa.RecordBatch) -> None:
        if target not in self._feeds:
            self._feeds[target] = self._open(target)
        self._feeds[target][1].send(rows)

    def _open(self, target: int) -> tuple[str, sync.Feed]:
        clients, options = self._feeding.targets.clients, self._feeding.options
        around = clients[target:] + clients[:target]
        conn = self._opened.enter_context(reach.reach(options.access, around))
        # The task's name is one per connection: two targets may end up at the same node.
        stage = msgspec.structs.replace(self._stage, task=f"{self._stage.task}.{target}")
        return conn.peer, conn.feed(options.table, options.keys, options.lifetime_s, stage)

    def finish(self, staged: Staged) -> None:
        for target, (peer, feed) in self._feeds.items():
            staged.rows[f"{peer} {staged.task}.{target}"] = feed.finish().rows


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GATHER_ROWS or size >= GATHER_BYTES:
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)


def prepare(options: WriteOptions, schema: StructType) -> Feeding:
    """Before any task runs: the rows can be published, and there is a ring to take them."""
    check_writable(schema, options.keys)
    return Feeding(options, targets_of(reach.doors(options.access)), secrets.token_hex(6))


def settle(
    feeding: Feeding, messages: list[WriterCommitMessage | None], decide: Callable[[Settling], None]
) -> None:
    """Decides about everything that the tasks say they staged."""
    staged = [message for message in messages if isinstance(message, Staged)]
    for load in sorted({message.load for message in staged}):
        rows = {place: count for each in staged if each.load == load for place, count in each.rows.items()}
        decide(Settling(feeding.options, load, rows, feeding.run))


class PierWriter(DataSourceArrowWriter):
    """One write of a DataFrame."""

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        self._feeding = prepare(options, schema)
        self._overwrite = overwrite
        # The writer travels to every task and to the commit: what is drawn here is the same in all of them.
        self._load = options.load or secrets.token_hex(12)
        self._repeatable = bool(options.load)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._feeding.stage(iterator, self._load)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        decide = Settling.commit_again if self._repeatable else Settling.commit
        settle(self._feeding, messages, decide)
        if self._overwrite:
            self._settling().clear()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._settling().abort(self._feeding.targets.clients)

    def _settling(self) -> Settling:
        return Settling(self._feeding.options, self._load, {}, self._feeding.run)


class PierStreamWriter(DataSourceStreamArrowWriter):
    """Batches of a streaming query: each is a load of its own, named by query and batch, so one that is played again
    after a restart replaces itself."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._feeding = prepare(options, schema)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None, "rows of a stream are written by tasks"
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:
            raise PierSparkError("Spark does not say which batch of which stream this is")
        return self._feeding.stage(iterator, f"{query}-{batch}")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        settle(self._feeding, messages, Settling.commit_again)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        clients = self._feeding.targets.clients
        settle(self._feeding, messages, lambda settling: settling.abort(clients))
