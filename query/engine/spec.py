"""What travels with a query: its specification down, reports of how it went up.

Each stage of a query is one spread over the ring (`overlay.spread`). The call goes down with the whole query, so a
node that missed an earlier stage can still take part; a report comes back from every node and reports are added
up on the way, so the proxy gets one, whatever the number of nodes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from overlay.ring import NodeRef, WireArc
from query.causes import Cause, WireCauses, added
from query.dataflow.budget import Limits
from query.engine.tiles import Tiles, joined
from query.plan import Plan
from runtime.message import WireAddress

#: Errors and drop reasons kept in one report; beyond that they are only counted.
ERRORS_MAX = 16
DROPS_MAX = 128
ERROR_CHARS_MAX = 500
#: Columns that rows lacked, in one report.
MISSING_MAX = 32

#: Partial states and Bloom filters as they travel.
States: TypeAlias = bytes
ID_CHARS_MAX = 64
#: Partition groups of one query.
GROUPS_MAX = 1_024


class QuerySpec(msgspec.Struct, frozen=True, array_like=True):
    """A query as every node gets it."""

    id: Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)]
    plan: Plan
    proxy: NodeRef
    limits: Limits
    #: Unix time at the proxy, in microseconds: `now()` for the whole query.
    time_us: int
    #: Result bytes that a node may have on the way to the proxy before the client has taken them.
    window_bytes: int
    #: Whether nodes send messages about dropped rows to the proxy.
    complain: bool = False
    #: Into how many partition groups keys are hashed.
    groups: Annotated[int, msgspec.Meta(ge=1, le=GROUPS_MAX)] = 1
    #: Nodes that hold partition groups of this query, and for each group which of them does; none where no rows are
    #: put straight at the owners of groups.
    owners: Annotated[tuple[WireAddress, ...], msgspec.Meta(max_length=GROUPS_MAX)] = ()
    group_owner: Annotated[tuple[int, ...], msgspec.Meta(max_length=GROUPS_MAX)] = ()
    #: Only nodes whose ids lie here take part, of a plan that can be divided so.
    part: WireArc | None = None


class StageCall(msgspec.Struct, frozen=True, array_like=True):
    """Report when `stage` is done here; the first `complete` stages are done everywhere, so what they fed is
    complete. A `wave` of a cyclic stage is answered at once with the counters as they stand."""

    spec: QuerySpec
    stage: int
    complete: int
    wave: int = 0
    #: Channels whose states outgrew the tree: nodes send their own by hash.
    overflowed: tuple[str, ...] = ()
    #: Only the asker is called, because what is left to do is done there.
    alone: bool = False
    #: Bloom filters of all nodes that the stage before has made (`query.engine.filters`).
    filters: dict[str, bytes] = {}


class Report(msgspec.Struct, frozen=True, array_like=True):
    """How a stage went on some nodes: sums, and a bounded list of what went wrong."""

    #: Nodes that took part from the first stage on and are done, with rows or without.
    answered: int = 0
    empty: int = 0
    #: Nodes that gave up with an error.
    failed: int = 0
    #: Nodes that came in after the first stage: what they might have had is not in the answer.
    late: int = 0
    rows: int = 0
    bytes: int = 0
    dropped: dict[str, int] = {}
    errors: tuple[str, ...] = ()
    #: For the waves of a cyclic stage: batches put and taken, and nodes that have something to do.
    sent: int = 0
    received: int = 0
    busy: int = 0
    #: Partial states of put Tree by channel, combined by `query.engine.trees`.
    trees: dict[str, States] = {}
    #: Calls to nodes that had been called already, as owners of another key.
    again: int = 0
    #: Columns that rows lacked, as "table column", with the number of nodes and a name that may have been meant.
    missing: dict[str, tuple[int, str]] = {}
    #: Bloom filters by name, merged by `query.engine.filters`.
    filters: dict[str, States] = {}
    #: Nodes that hold partition groups of the query.
    holders: int = 0
    #: What took rows from the answer, by cause; `dropped` and `errors` are the words for it.
    causes: WireCauses = {}
    #: The arcs of published tables that nodes answered for (`query.engine.tiles`).
    tiles: Tiles = ()

    def plus(self, other: Report) -> Report:
        dropped = dict(self.dropped)
        for reason, rows in other.dropped.items():
            if reason not in dropped and len(dropped) >= DROPS_MAX:
                reason = "other"
            dropped[reason] = dropped.get(reason, 0) + rows
        errors = dict.fromkeys((*self.errors, *other.errors))
        missing = dict(self.missing)
        for column, (nodes, close) in other.missing.items():
            before, meant = missing.get(column, (0, ""))
            if before or len(missing) < MISSING_MAX:
                missing[column] = (before + nodes, meant or close)
        tiles, overlaps = joined(self.tiles, other.tiles)
        causes = added(self.causes, other.causes)
        if overlaps:
            causes = added(causes, {Cause.DOUBLED.number: overlaps})
        return Report(
            answered=self.answered + other.answered,
            empty=self.empty + other.empty,
            failed=self.failed + other.failed,
            late=self.late + other.late,
            rows=self.rows + other.rows,
            bytes=self.bytes + other.bytes,
            dropped=dropped,
            errors=tuple(errors)[:ERRORS_MAX],
            sent=self.sent + other.sent,
            received=self.received + other.received,
            busy=self.busy + other.busy,
            again=self.again + other.again,
            missing=missing,
            holders=self.holders + other.holders,
            causes=causes,
            tiles=tiles,
        )

    def since(self, earlier: Report) -> Report:
        """What is to be added to an earlier report of the same node; a node that has answered now and had nothing
        then is one answer more and one empty less."""
        return msgspec.structs.replace(
            self,
            answered=self.answered - earlier.answered,
            empty=self.empty - earlier.empty,
            failed=self.failed - earlier.failed,
            late=self.late - earlier.late,
            rows=self.rows - earlier.rows,
            bytes=self.bytes - earlier.bytes,
            sent=self.sent - earlier.sent,
            received=self.received - earlier.received,
            holders=self.holders - earlier.holders,
            dropped={
                reason: rows - earlier.dropped.get(reason, 0)
                for reason, rows in self.dropped.items()
                if rows > earlier.dropped.get(reason, 0)
            },
            missing={column: each for column, each in self.missing.items() if column not in earlier.missing},
            causes={
                cause: count - earlier.causes.get(cause, 0)
                for cause, count in self.causes.items()
                if count > earlier.causes.get(cause, 0)
            },
            tiles=() if earlier.tiles else self.tiles,
        )


_encoder = msgspec.msgpack.Encoder()
_calls = msgspec.msgpack.Decoder(StageCall)
_reports = msgspec.msgpack.Decoder(Report)

encode = _encoder.encode


class BadCall(ValueError):
    """A peer's bytes are not a stage call."""


def decode_call(data: bytes) -> StageCall:
    try:
        return _calls.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadCall(str(error)) from None


def decode_report(data: bytes) -> Report:
    """A peer's report; one that cannot be read counts as a node that failed."""
    try:
        return _reports.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Report(failed=1, errors=(f"unreadable report: {error}"[:ERROR_CHARS_MAX],))


def combine(left: bytes, right: bytes) -> bytes:
    """Two encoded reports into one: what inner nodes of the tree do."""
    return encode(decode_report(left).plus(decode_report(right)))
