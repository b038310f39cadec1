"""What a node does for its clients, as the client server sees it. The seam for the query engine.

The server (`server.py`) holds one `NodeService` and knows nothing behind it. A service is made of two halves
that are plugged together (`node_service.py`): the overlay half answers about the node and the ring, the
engine half about queries and tables. A node without an engine has `NoEngine` in that place.

Everything is push and callbacks on the node's one thread; nothing here blocks. Rules for an engine:

 * `query` returns at once with a handle. Rows then go to `sink.batch`, as they come, until exactly one call
   of `sink.finish` or `sink.fail`, which is the last. Any of these may happen before `query` has returned.
 * `sink.batch` returning False means: the reader is behind, push no more until the function given to
   `sink.on_ready` is called (which may also happen when nobody waits). Pushing on regardless is allowed
   within a small backlog; beyond it the sink fails the query with a limit error and calls the handle's
   `cancel`.
 * `handle.cancel` may come at any time, also when the client has vanished. The engine still ends with
   `finish` (an account whose `ended` says cancelled) or `fail`; for a client that is gone these go nowhere.
 * A query's limits arrive as the client wrote them; the engine fills in and caps what is missing.
 * Errors the author of a query can mend are `Failure`s with a position where there is one. An exception that
   escapes from any method is our own fault: the server reports it as `internal` and the node lives on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

from pier_node.access.clients import ANYONE, Client
from pier_node.access.rates import Share
from pier_node.protocol.messages import (
    Account,
    Language,
    Limits,
    MemberEntry,
    NodeEntry,
    Position,
    QueryEntry,
    Scalar,
    Slice,
    Stage,
    TableEntry,
    Verdict,
)

T = TypeVar("T")
#: The kinds of failure that others than their makers look at: a client's rights, and a table that nobody has.
FORBIDDEN = "forbidden"
UNKNOWN_TABLE = "unknown_table"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request could not be done. `kind` is one of `protocol.fields.FAILURE_KINDS`: whose fault it is."""

    kind: str
    message: str
    position: Position | None = None
    hint: str = ""
    account: Account | None = None


#: Called exactly once with the answer or the failure.
Reply: TypeAlias = Callable[[T | Failure], None]


@dataclass(frozen=True, slots=True)
class QueryRequest:
    """A query as its author wrote it. `client` names who asks, for lists of queries and for logs; `who` is what
    it may do."""

    text: str
    language: Language
    limits: Limits = field(default_factory=Limits)
    params: Mapping[str, Scalar] = field(default_factory=dict)
    client: str = ""
    part: Slice | None = None
    who: Client = ANYONE
    #: What this client holds of the node: rows that are kept for it count there.
    share: Share = field(default_factory=Share)
    #: Whether a table that nobody knows is one without rows, instead of an error.
    unknown_tables: bool = False


@dataclass(frozen=True, slots=True)
class Description:
    """The rows a query would give, None when its columns are not known before it runs; and whether the answers of
    parts of the ring together are its answer."""

    schema: pa.Schema | None
    divisible: bool


@dataclass(frozen=True, slots=True)
class LogState:
    """The rows a result log holds, from `first` up to `next`; `ended` says why no more will come, if so."""

    first: int
    next: int
    ended: str = ""


@dataclass(frozen=True, slots=True)
class Settlement:
    """What is to become of a load, by the tasks that count, or the runs that do not (protocol.messages.Settle)."""

    load: str
    table: str
    verdict: Verdict
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node about itself; `figures` are counters by dotted name."""

    id: str
    address: str
    joined: bool
    neighbours: int
    version: str = ""
    pid: int = 0
    uptime_s: float = 0.0
    client_address: str = ""
    sources: tuple[str, ...] = ()
    figures: Mapping[str, Scalar] = field(default_factory=dict)
    #: What whoever looks after the node should know now.
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MembersView:
    """Everybody the roster of this node knows, in order of ids."""

    members: tuple[MemberEntry, ...]


@dataclass(frozen=True, slots=True)
class RingView:
    """This node first, then the others it knows; `whole` when a walk found every member."""

    nodes: tuple[NodeEntry, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Publication:
    """What a publishing client announces. The lifetime is the node's default when None, and capped. Staged rows
    wait for their load to be settled."""

    table: str
    keys: tuple[str, ...]
    lifetime_s: float | None = None
    client: str = ""
    stage: Stage | None = None
    #: The token's name: its rows go when it may not publish any more.
    owner: str = ""
    share: Share = field(default_factory=Share)


@dataclass(frozen=True, slots=True)
class LogName:
    """A result log's name: the one its client gave it, and the name of the client's token. Each has its own."""

    owner: str
    name: str


@dataclass(frozen=True, slots=True)
class PublicationResult:
    """Rows taken, objects they became, rows the DHT refused, and drops by reason. Unconfirmed are objects of which it
    is not known yet that everybody sees them, or no longer does; the node goes on with them."""

    rows: int
    objects: int
    refused: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    unconfirmed: int = 0


class AnswerSink(Protocol):
    """Where an engine puts an answer; given by the server."""

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool: ...

    def ready(self) -> bool:
        """Whether a batch would leave at once."""
        ...

    def on_ready(self, handler: Callable[[], None]) -> None:
        """The one function to call when the reader has caught up after `batch` returned False."""
        ...

    def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None: ...

    def epoch_account(self, account: Account) -> None:
        """The account of one epoch of a continuous query, behind the epoch's rows."""
        ...

    def tap(self, node: str, operator: str, text: str) -> None: ...

    def finish(self, account: Account) -> None: ...

    def fail(self, failure: Failure) -> None: ...


class QueryHandle(Protocol):
    """A running query, as its client steers it."""

    def cancel(self, reason: str) -> None: ...

    def taps(self, on: bool, operators: tuple[str, ...]) -> None: ...


class FeedControl(Protocol):
    """How an engine answers a publishing client; given by the server."""

    def consumed(self, size_bytes: int) -> None:
        """So many bytes of batches are dealt with: the client may send as many more."""
        ...

    def progress(self, objects: int, confirmed: int, rows_confirmed: int, elapsed_s: float) -> None:
        """How far a publication is that takes its time."""
        ...

    def finish(self, result: PublicationResult) -> None: ...

    def fail(self, failure: Failure) -> None: ...


class Feed(Protocol):
    """A publication at work. `batch` gets rows with the size to report as consumed; `end` means no more."""

    def batch(self, batch: pa.RecordBatch, size_bytes: int) -> None: ...

    def end(self) -> None: ...

    def cancel(self, reason: str) -> None:
        """The client has vanished or changed its mind."""
        ...


class OverlayService(Protocol):
    """The half that every node has."""

    def status(self, done: Reply[NodeStatus]) -> None: ...

    def ring(self, whole: bool, done: Reply[RingView]) -> None:
        """The node's neighbourhood or, with `whole`, every member in order of its id."""
        ...

    def doors(self, done: Reply[RingView]) -> None:
        """Every member, with the arc it owns and where clients reach it."""
        ...

    def members(self, done: Reply[MembersView]) -> None:
        """Everybody who belongs to the ring, and whether it is there."""
        ...

    def retire(self, who: str, done: Reply[None]) -> None:
        """Expects a member no more that is not there, by its id or the beginning of it, or by its host name."""
        ...

    def put(
        self, namespace: str, key: str, suffix: str, value: bytes, lifetime_s: float, done: Reply[None]
    ) -> None: ...

    def get(self, namespace: str, key: str, done: Reply[list[tuple[str, bytes]]]) -> None: ...


class EngineService(Protocol):
    """The half that the query engine fills."""

    def query(self, request: QueryRequest, sink: AnswerSink) -> QueryHandle: ...

    def explain(self, request: QueryRequest, done: Reply[str]) -> None: ...

    def queries(self, done: Reply[tuple[QueryEntry, ...]]) -> None:
        """The queries running on the whole ring as far as this node knows."""
        ...

    def cancel(self, query: str, done: Reply[None]) -> None:
        """Cancels any query by its id, on every node."""
        ...

    def tables(self, done: Reply[tuple[TableEntry, ...]]) -> None: ...

    def publish(self, publication: Publication, control: FeedControl) -> Feed: ...

    def settle(self, settlement: Settlement, done: Reply[PublicationResult]) -> None:
        """Decides about rows that were staged here."""
        ...

    def unpublish(self, table: str, keys: tuple[str, ...], done: Reply[PublicationResult]) -> None:
        """Ends a published table, or some keys of it, at every node."""
        ...

    def allow(self, may_publish: Callable[[str, str], bool]) -> None:
        """Whether a token, by name, may publish into a table: asked anew whenever tokens change."""
        ...

    def describe(self, request: QueryRequest, done: Reply[Description]) -> None: ...

    def open_log(self, log: LogName, lease_s: float, request: QueryRequest, done: Reply[LogState]) -> None:
        """Runs a query into a log that is kept here, or finds the one of that name."""
        ...

    def log(self, log: LogName, action: str, offset: int, done: Reply[LogState]) -> None: ...

    def read_log(self, log: LogName, start: int, end: int, sink: AnswerSink) -> QueryHandle: ...


class NodeService(OverlayService, EngineService, Protocol):
    """Everything a client can ask of a node."""
