"""What client and node say to each other: one frozen struct a message, msgpack arrays on the wire.

A connection opens with Hello and Welcome. After that every message but Ping, Pong and Bye names a request:
a number the client chose, used for one request at a time, so that many share one connection. A request
ends with exactly one closing message from the node (those named in `CLOSING`). Fields may be appended with
defaults; the version rises only when old ends would misread.

Lengths are bounded by type (`fields`), so that nothing oversized gets further than the decoder.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from pier_node.protocol.fields import LISTED_MAX as LISTED_MAX
from pier_node.protocol.fields import NAMES_MAX as NAMES_MAX
from pier_node.protocol.fields import (
    SCHEMA_BYTES_MAX,
    Count,
    Counts,
    Figures,
    Names,
    Prose,
    QueryText,
    RequestId,
    Seconds,
)
from pier_node.protocol.fields import Bytes as Bytes
from pier_node.protocol.fields import Name as Name
from pier_node.protocol.fields import Scalar as Scalar
from pier_node.protocol.members import MemberEntry as MemberEntry
from pier_node.protocol.members import MembersAre as MembersAre
from runtime.message import Codec, Message, Part

PROTOCOL_VERSION = 1
Language: TypeAlias = Literal["ufl", "sql"]
Question: TypeAlias = Literal[
    "status", "ring", "whole-ring", "doors", "tables", "queries", "cancel", "members", "retire"
]
#: What becomes of a load: its staged rows are looked for, published or let go; a published load is taken back; rows
#: of other loads of its table are taken back.
Verdict: TypeAlias = Literal["check", "commit", "abort", "withdraw", "clear"]
LogAction: TypeAlias = Literal["look", "release", "close"]

# ---- parts -------------------------------------------------------------------------------------------


class Limits(Part, frozen=True):
    """A query's budget; None leaves it to the node's configuration, which also caps it."""

    time_s: Seconds | None = None
    rows: Count | None = None
    bytes: Bytes | None = None
    memory_bytes: Bytes | None = None
    steps: Count | None = None


class Position(Part, frozen=True):
    """Where in the query text, both counted from one."""

    line: Annotated[int, Meta(ge=1)]
    column: Annotated[int, Meta(ge=1)]


class Account(Part, frozen=True):
    """Who answered. asked = answered + empty + failed + unreachable once the query has ended: `answered`
    nodes have data of their own in the answer, `empty` ones had none. `ended` and `causes` say how whole it is."""

    query: Name
    asked: Count = 0
    answered: Count = 0
    empty: Count = 0
    failed: Count = 0
    unreachable: Count = 0
    rows: Count = 0
    bytes: Bytes = 0
    elapsed_s: Seconds = 0.0
    ended: Name = "complete"
    epoch: Count | None = None
    #: Of an epoch: above 0 it replaces an earlier answer, because data came late.
    revision: Count = 0
    dropped: Counts = {}
    notes: Annotated[tuple[Prose, ...], Meta(max_length=NAMES_MAX)] = ()
    #: Why rows are not in the answer, or why it ended, with how often: names of `query.causes.Cause` in small letters.
    causes: Counts = {}
    #: Members that were expected and not on the ring, not counted in `asked`; and the names of some.
    absent: Count = 0
    absent_hosts: Names = ()


class NodeEntry(Part, frozen=True):
    """One node of the ring: its id and the arc it owns in hex, and how it is known."""

    id: Name
    address: Name
    role: Name = ""
    rtt_s: Seconds | None = None
    arc_start: Name = ""
    arc_end: Name = ""
    #: Where clients reach it, when that was asked for.
    client: Name = ""


class TableEntry(Part, frozen=True):
    """One table as far as this node knows it."""

    name: Name
    kind: Name = ""
    columns: Names = ()
    types: Names = ()
    #: Of the partitioning key.
    keys: Names = ()
    #: About how many there are, and how many bytes they take.
    rows: Count | None = None
    bytes: Count | None = None
    #: Nodes that have rows of it.
    nodes: Count | None = None


class QueryEntry(Part, frozen=True):
    """One running query."""

    id: Name
    text: Prose
    language: Name = ""
    proxy: Name = ""
    client: Name = ""
    age_s: Seconds = 0.0
    rows: Count = 0
    state: Name = "running"
    #: The name of the token that asked it; empty where nobody here knows, or no token was needed.
    owner: Name = ""


class Slice(Part, frozen=True):
    """Nodes whose ids lie from start up to end, clockwise, in hex: a part of the ring to ask."""

    start: Name
    end: Name


class Stage(Part, frozen=True):
    """Rows of a publication are held back until their load is settled. A task is one attempt at one part of the load;
    settling names the tasks that count. What nobody settles within the lease is let go. A load that is committed
    again replaces itself."""

    load: Name
    task: Name
    lease_s: Seconds
    copies: Annotated[int, Meta(ge=0, le=16)] = 0


# ---- both ways ---------------------------------------------------------------------------------------


class Grant(Message, frozen=True, tag=1):
    """The receiver of batches lets the sender send so many bytes more."""

    request: RequestId
    bytes: Bytes


class Schema(Message, frozen=True, tag=2):
    """A table name and its columns, as an Arrow schema message; batches refer to it by number."""

    request: RequestId
    number: Count
    table: Name
    data: Annotated[bytes, Meta(max_length=SCHEMA_BYTES_MAX)]


class Rows(Message, frozen=True, tag=3):
    """A record batch as an Arrow message without its schema."""

    request: RequestId
    schema: Count
    data: memoryview
    epoch: Count | None = None


class Ping(Message, frozen=True, tag=4):
    """Are you there?"""


class Pong(Message, frozen=True, tag=5):
    """Yes."""


class Bye(Message, frozen=True, tag=6):
    """The last message of a side that hangs up on purpose."""

    reason: Prose = ""


# ---- client to node ----------------------------------------------------------------------------------


class Hello(Message, frozen=True, tag=20):
    """The first message. `token` proves who is asking where the node wants that."""

    version: Annotated[int, Meta(ge=1, le=1 << 16)]
    capabilities: Names = ()
    token: Name = ""
    agent: Name = ""


class Ask(Message, frozen=True, tag=21):
    """A query; the answer may take `credit_bytes` before the first Grant."""

    request: RequestId
    text: QueryText
    language: Language
    credit_bytes: Bytes
    limits: Limits = Limits()
    params: Figures = {}
    #: Only these nodes are asked, where a query can be divided so (`Described.divisible`).
    part: Slice | None = None
    #: Whether a table that nobody knows is one without rows, instead of an error.
    unknown_tables: bool = False


class Explain(Message, frozen=True, tag=22):
    request: RequestId
    text: QueryText
    language: Language


class Cancel(Message, frozen=True, tag=23):
    """Ends one of this connection's own requests early; it still gets its closing message."""

    request: RequestId


class Taps(Message, frozen=True, tag=24):
    """Switches messages from inside a running query on or off; no operators named means all (PIER 3.3.4)."""

    request: RequestId
    on: bool
    operators: Names = ()


class Call(Message, frozen=True, tag=25):
    """A question about the node itself. `argument` is a query id for `cancel`, a member's id or host name for `retire`,
    empty otherwise."""

    request: RequestId
    what: Question
    argument: Name = ""


class Publish(Message, frozen=True, tag=26):
    """Batches for the DHT follow, as Schema and Rows within the node's credit, then PublishEnd."""

    request: RequestId
    table: Name
    keys: Names
    lifetime_s: Seconds | None = None
    stage: Stage | None = None


class PublishEnd(Message, frozen=True, tag=27):
    request: RequestId


class PutObject(Message, frozen=True, tag=28):
    """One object for the DHT, under its three-part name (PIER 3.2.1)."""

    request: RequestId
    namespace: Name
    key: Name
    suffix: Name
    value: bytes
    lifetime_s: Seconds


class GetObjects(Message, frozen=True, tag=29):
    """All objects of one namespace and partitioning key."""

    request: RequestId
    namespace: Name
    key: Name


class Describe(Message, frozen=True, tag=30):
    """What rows a query would give, without running it."""

    request: RequestId
    text: QueryText
    language: Language
    params: Figures = {}


class Settle(Message, frozen=True, tag=31):
    """Decides about a load at this node; `tasks` are those that count. To give a load up, they are instead the runs
    that are given up, each the part of its tasks' names before the first dot; none, all that is here. Answered by
    Published."""

    request: RequestId
    load: Name
    table: Name
    verdict: Verdict
    tasks: Annotated[tuple[Name, ...], Meta(max_length=LISTED_MAX)] = ()


class OpenLog(Message, frozen=True, tag=32):
    """Runs a query whose rows are kept in a log at the node, numbered from 0, until they are released; of the same
    name, the log that is there. It ends when nobody asked for it within the lease."""

    request: RequestId
    log: Name
    text: QueryText
    language: Language
    lease_s: Seconds
    limits: Limits = Limits()
    params: Figures = {}
    unknown_tables: bool = False


class LogCall(Message, frozen=True, tag=33):
    """Asks how a log stands; releases its rows before `offset`, or ends it."""

    request: RequestId
    log: Name
    action: LogAction
    offset: Count = 0


class ReadLog(Message, frozen=True, tag=34):
    """Rows of a log from `start` up to `end`; read as often as wanted until they are released."""

    request: RequestId
    log: Name
    start: Count
    end: Count
    credit_bytes: Bytes


class Unpublish(Message, frozen=True, tag=35):
    """Ends a published table at every node, or what lies under some of its partitioning keys. Answered by Published,
    with the number of objects that went."""

    request: RequestId
    table: Name
    keys: Annotated[tuple[Prose, ...], Meta(max_length=NAMES_MAX)] = ()


# ---- node to client ----------------------------------------------------------------------------------


class Welcome(Message, frozen=True, tag=40):
    """The answer to Hello, with what the client must know to behave."""

    version: Annotated[int, Meta(ge=1)]
    capabilities: Names
    node: Name
    address: Name
    requests_max: Count
    frame_bytes_max: Bytes


class Progress(Message, frozen=True, tag=41):
    """How far a query is; the newest replaces all before it."""

    request: RequestId
    asked: Count
    answered: Count
    rows: Count
    elapsed_s: Seconds


class AccountIs(Message, frozen=True, tag=42):
    """The account of an epoch or, with `final`, of the whole query: its closing message."""

    request: RequestId
    account: Account
    final: bool = True


class Failed(Message, frozen=True, tag=43):
    """The request could not be done; says whose fault it is. An account may tell how far it came."""

    request: RequestId
    kind: Name
    message: Prose
    position: Position | None = None
    hint: Prose = ""
    account: Account | None = None


class Tapped(Message, frozen=True, tag=44):
    """A message from inside a running query."""

    request: RequestId
    node: Name
    operator: Name
    text: Prose


class StatusIs(Message, frozen=True, tag=45):
    """A node about itself; `figures` are its counters by dotted name."""

    request: RequestId
    id: Name
    address: Name
    version: Name
    pid: Count
    uptime_s: Seconds
    joined: bool
    neighbours: Count
    client_address: Name = ""
    sources: Names = ()
    figures: Figures = {}
    #: What whoever looks after the node should know now.
    remarks: Annotated[tuple[Prose, ...], Meta(max_length=NAMES_MAX)] = ()


class RingIs(Message, frozen=True, tag=46):
    """The ring as this node sees it: itself, then others. `whole` when every node is among them."""

    request: RequestId
    nodes: Annotated[tuple[NodeEntry, ...], Meta(max_length=LISTED_MAX)]
    whole: bool = False


class TablesAre(Message, frozen=True, tag=47):
    request: RequestId
    tables: Annotated[tuple[TableEntry, ...], Meta(max_length=LISTED_MAX)]


class QueriesAre(Message, frozen=True, tag=48):
    request: RequestId
    queries: Annotated[tuple[QueryEntry, ...], Meta(max_length=LISTED_MAX)]


class Published(Message, frozen=True, tag=49):
    """What became of a publication's rows. Unconfirmed are objects of which it is not certain yet that they are seen
    or, when something was taken back, that they are gone."""

    request: RequestId
    rows: Count
    objects: Count
    refused: Count = 0
    dropped: Counts = {}
    unconfirmed: Count = 0


class Explained(Message, frozen=True, tag=50):
    request: RequestId
    text: Prose


class Done(Message, frozen=True, tag=51):
    """It is done, and there is nothing more to say."""

    request: RequestId


class ObjectsAre(Message, frozen=True, tag=52):
    """Suffix and value of each object found."""

    request: RequestId
    objects: Annotated[tuple[tuple[Name, bytes], ...], Meta(max_length=LISTED_MAX)]


class Described(Message, frozen=True, tag=53):
    """The columns of a query's rows as an Arrow schema message, empty when they are not known before it runs.
    Divisible: asked of parts of the ring, the parts' answers together are the answer."""

    request: RequestId
    data: Annotated[bytes, Meta(max_length=SCHEMA_BYTES_MAX)]
    divisible: bool


class LogIs(Message, frozen=True, tag=54):
    """The rows a log holds: from `first` up to `next`. `ended` says why no more will come, if so."""

    request: RequestId
    first: Count
    next: Count
    ended: Prose = ""


BOTH = (Grant, Schema, Rows, Ping, Pong, Bye)
FROM_CLIENT = (
    Hello, Ask, Explain, Cancel, Taps, Call, Publish, PublishEnd, PutObject, GetObjects,
    Describe, Settle, OpenLog, LogCall, ReadLog, Unpublish,
)  # fmt: skip
#: What a node may answer to a request and so end it; AccountIs only when it is final.
CLOSING = (
    AccountIs, Failed, StatusIs, RingIs, TablesAre, QueriesAre, Published, Explained, Done, ObjectsAre,
    Described, LogIs, MembersAre,
)  # fmt: skip
FROM_NODE = (Welcome, Progress, Tapped, *CLOSING)

#: What each end understands: a message from the wrong side does not decode.
TO_NODE_CODEC = Codec((*BOTH, *FROM_CLIENT))
TO_CLIENT_CODEC = Codec((*BOTH, *FROM_NODE))
