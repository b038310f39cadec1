"""What an operator at work may use: its query's budget, turns and counters, and the node's services.

One `Context` per opgraph of a query on a node. Operators reach the world only through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import pyarrow as pa

from query.batch import Batch
from query.causes import Cause
from query.dataflow.budget import Budget
from query.dataflow.marks import Mark
from query.dataflow.scheduler import Scheduler, Task
from query.keys.bloom import BloomFilter
from runtime.api import Clock
from runtime.rng import Rng

#: Distinct reasons for drops remembered per operator; more are counted as "other".
REASONS_MAX = 32
#: Kinds of tables of which is remembered what they can.
KINDS_MAX = 256

#: Told by a reader: so many rows were left out, why, and what that means for an answer.
Dropped: TypeAlias = Callable[[int, str, Cause], None]


class LocalTable(Protocol):
    """Rows that lie on this node: a log, a file, a database table."""

    def schema(self) -> pa.Schema | None:
        """The columns, as far as they are known without reading the rows."""
        ...

    def scan(self, keys: Batch | None) -> Iterator[Batch]:
        """What is there now, in batches of bounded size; with `keys` only rows that equal one of them, or
        more (the caller filters again)."""
        ...

    def follow(self, handler: Callable[[Batch], None]) -> Callable[[], None]:
        """Calls handler for rows that arrive from now on; returns what ends it."""
        ...


@runtime_checkable
class ColumnTable(Protocol):
    """A local table that can leave columns unread, as Parquet can."""

    def scan_columns(self, keys: Batch | None, columns: Sequence[str]) -> Iterator[Batch]:
        """As `scan`, with those of the columns that there are; at least one, so that rows can be counted."""
        ...


@runtime_checkable
class SizedTable(Protocol):
    """A local table that can tell how large it is without being read."""

    def size(self) -> tuple[int, int] | None:
        """About how many rows there are, and bytes; None when that cannot be told."""
        ...


@runtime_checkable
class LossyTable(Protocol):
    """A local table that can be read in spite of damage, as far as it goes."""

    def scan_telling(self, keys: Batch | None, dropped: Dropped) -> Iterator[Batch]:
        """As `scan`; what could not be read is told."""
        ...


@lru_cache(maxsize=KINDS_MAX)
def _can(kind: type, protocol: type) -> bool:
    return issubclass(kind, protocol)


def with_columns(table: LocalTable) -> ColumnTable | None:
    """The table, if it can leave columns unread. Asked for every scan, so what kinds of tables can is remembered."""
    return cast(ColumnTable, table) if _can(type(table), ColumnTable) else None


def with_size(table: LocalTable) -> SizedTable | None:
    """The table, if it can tell how large it is."""
    return cast(SizedTable, table) if _can(type(table), SizedTable) else None


def with_losses(table: LocalTable) -> LossyTable | None:
    """The table, if it tells what could not be read."""
    return cast(LossyTable, table) if _can(type(table), LossyTable) else None


class Tables(Protocol):
    """The node's own data sources, by table name."""

    def open(self, table: str) -> LocalTable | None: ...

    def names(self) -> list[str]: ...


class Results(Protocol):
    """The way to whoever asked."""

    def send(self, batch: Batch) -> bool:
        """Takes result rows. False: the asker is slow, send no more until `on_ready` calls."""
        ...

    def on_ready(self, handler: Callable[[], None]) -> None: ...


class SourceUnavailable(Exception):
    """A file or database that is not there, not readable, or not open to queries. The message is for the author."""


@dataclass(frozen=True, slots=True)
class CsvForm:
    """How the lines of a CSV file are to be read."""

    delimiter: str = ","
    quote: str = '"'
    #: Whether the first line names the columns; `columns` does, or replaces the names, otherwise.
    header: bool = True
    columns: tuple[str, ...] = ()
    #: Types of some columns, by name; the others are guessed from the beginning of the file.
    types: tuple[tuple[str, str], ...] = ()
    nulls: tuple[str, ...] = ("",)


class Files(Protocol):
    """Files that the node's owner made readable (service "files"). Iterators read a bounded piece for each batch;
    they and the calls that make them raise `SourceUnavailable`."""

    def open_csv(self, path: str, form: CsvForm, dropped: Dropped) -> Iterator[Batch]: ...

    def open_parquet(self, path: str, columns: tuple[str, ...], dropped: Dropped) -> Iterator[Batch]:
        """A file, or all Parquet files of a directory; no columns means all."""
        ...


class Databases(Protocol):
    """Databases that the node's owner gave a name (service "databases"); as `Files`."""

    def open_table(
        self, connection: str, table: str, columns: tuple[str, ...], keys: Batch | None, dropped: Dropped
    ) -> Iterator[Batch]:
        """Rows of a table; with `keys` only those that equal one of them, or more."""
        ...


class Filters(Protocol):
    """Where Bloom filters meet: what the nodes of a query put under one name is merged (service "bloom")."""

    @property
    def nodes(self) -> int:
        """About how many nodes put a filter under each name."""
        ...

    def put(self, name: str, filter_: BloomFilter, done: Callable[[], None]) -> None:
        """Stores a filter; `done` once it is safe."""
        ...

    def get(self, name: str, handler: Callable[[BloomFilter | None], None]) -> None:
        """Calls handler once the filter of all nodes is there; None if there will be none."""
        ...

    def give(self, name: str, summary: bytes) -> None:
        """Stores what this node has to say under a name, as it travels."""
        ...

    def take(self, name: str, handler: Callable[[bytes], None]) -> None:
        """Calls handler once what all nodes said is there; nothing if there will be nothing."""
        ...


class Tap(Protocol):
    """Gets a copy of what flows into or out of an operator while somebody looks (PIER 3.3.7)."""

    def __call__(self, operator: str, direction: str, batch: Batch) -> None: ...


@dataclass(slots=True)
class Counters:
    """What one operator did so far; part of the account."""

    rows_in: int = 0
    #: Of a sink: rows or states that it gave towards the answer; what it only notes or throws away is none.
    rows_out: int = 0
    batches_in: int = 0
    dropped_rows: int = 0
    drops: dict[str, int] = field(default_factory=dict)
    causes: dict[Cause, int] = field(default_factory=dict)
    #: Columns that rows lacked, by table and name, with a name that may have been meant.
    missing: dict[tuple[str, str], str] = field(default_factory=dict)

    def drop(self, rows: int, reason: str, cause: Cause) -> None:
        """Counts rows that could not be processed, by cause, and by reason as far as reasons fit. Who does not know how
        many they are, or lost something without rows, as an empty epoch, has lost one."""
        rows = max(1, rows)
        self.dropped_rows += rows
        self.causes[cause] = self.causes.get(cause, 0) + rows
        if reason not in self.drops and len(self.drops) >= REASONS_MAX:
            reason = "other"
        self.drops[reason] = self.drops.get(reason, 0) + rows

    def lack(self, table: str, column: str, close: str) -> None:
        """Remembers that rows of a table had no such column."""
        if len(self.missing) < REASONS_MAX:
            self.missing.setdefault((table, column), close)


@dataclass(slots=True)
class Context:
    """One opgraph's view of its node."""

    query_id: str
    clock: Clock
    rng: Rng
    scheduler: Scheduler
    budget: Budget
    #: Services by name: "tables", "results", "dht", "messenger". Operators say which they need.
    services: dict[str, Any]
    #: What `now()` means in expressions: the time the proxy gave the query, the same on all nodes.
    time_us: int
    #: Ends the query on this node with an error; the only way out of an operator's own timers and tasks.
    fail: Callable[[Exception], None]
    #: Tells the author about dropped rows, when asked to and within the limit of messages per node.
    complain: Callable[[str, str], None]
    taps: dict[tuple[str, str], Tap] = field(default_factory=dict)
    #: Tags that stand for epochs of a continuous query.
    marks: dict[int, Mark] = field(default_factory=dict)
    #: Called by an operator that has nothing waiting any more, so that a cycle may complete.
    settle: Callable[[], None] = lambda: None
    #: Called by a sink, with its name, when all it was asked for has arrived and left the node.
    sink_ended: Callable[[str], None] = lambda name: None
    _tags: int = 0

    def next_tag(self) -> int:
        """A tag no other probe of this opgraph on this node has."""
        self._tags += 1
        return self._tags

    def schedule(self, task: Task) -> None:
        """Runs a task in the query's turns; an exception ends the query, not the node."""
        self.scheduler.submit(self.query_id, lambda: self.guard(task) is True)

    def guard(self, call: Callable[[], Any]) -> Any:
        """Runs a callback from outside the dataflow (timer, task, arrival) within the query's fault."""
        try:
            return call()
        except Exception as error:
            self.fail(error)
            return None
