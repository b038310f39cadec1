"""What travels with a query: its specification down, reports of how it went up.

Each stage of a query is one spread over the ring (`overlay.spread`). The call goes down with the whole query, so a
node that missed an earlier stage can still take part; a report comes back from every node and reports are added
up on the way, so the proxy gets one, whatever the number of nodes.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec

from overlay.ring import NodeRef, WireArc
from query.causes import Cause, WireCauses, added
from query.counts import Count, total
from query.dataflow.budget import Limits
from query.engine.tiles import Tiles, joined, removed
from query.plan import Plan
from runtime.message import WireAddress

#: Errors and drop reasons kept in one report; beyond that they are only counted. What is cut or folded are words:
#: causes are counted all.
ERRORS_MAX = 16
DROPS_MAX = 128
ERROR_CHARS_MAX = 500
#: What drop reasons beyond these are called together.
OTHER = "other"
#: Columns that rows lacked, in one report.
MISSING_MAX = 32

Words: TypeAlias = Annotated[str, msgspec.Meta(max_length=ERROR_CHARS_MAX)]
Drops: TypeAlias = Annotated[dict[Words, Count], msgspec.Meta(max_length=DROPS_MAX + 1)]
Errors: TypeAlias = Annotated[tuple[Words, ...], msgspec.Meta(max_length=ERRORS_MAX)]
Missing: TypeAlias = Annotated[dict[Words, tuple[Count, Words]], msgspec.Meta(max_length=MISSING_MAX)]

#: Partial states and Bloom filters as they travel.
States: TypeAlias = bytes
ID_CHARS_MAX = 64
#: Partition groups of one query.
GROUPS_MAX = 1_024
#: Names of tokens have at most 64, addresses fewer.
CLIENT_CHARS_MAX = 128


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
    #: Whose query it is: what queries of one client hold on a node counts together. Empty for nobody's.
    client: Annotated[str, msgspec.Meta(max_length=CLIENT_CHARS_MAX)] = ""


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
    answered: Count = 0
    empty: Count = 0
    #: Nodes that gave up with an error, or at a limit before they gave anything.
    failed: Count = 0
    #: Nodes that came in after the first stage: what they might have had is not in the answer.
    late: Count = 0
    rows: Count = 0
    bytes: Count = 0
    dropped: Drops = {}
    errors: Errors = ()
    #: Batches put for other opgraphs of the query and taken by them; and nodes that have something to do, for the
    #: waves of a cyclic stage.
    sent: Count = 0
    received: Count = 0
    busy: Count = 0
    #: Partial states of put Tree by channel, combined by `query.engine.trees`.
    trees: dict[str, States] = {}
    #: Calls to nodes that had been called already, as owners of another key.
    again: Count = 0
    #: Columns that rows lacked, as "table column", with the number of nodes and a name that may have been meant.
    missing: Missing = {}
    #: Bloom filters by name, merged by `query.engine.filters`.
    filters: dict[str, States] = {}
    #: Nodes that hold partition groups of the query.
    holders: Count = 0
    #: What took rows from the answer, by cause; `dropped` and `errors` are the words for it.
    causes: WireCauses = {}
    #: Nodes on which rows that were put for the query had not all been looked at when its opgraphs were done: these
    #: had enough, as those below a LIMIT.
    sated: Count = 0
    #: The arcs of published tables that nodes answered for (`query.engine.tiles`).
    tiles: Tiles = ()

    def plus(self, other: Report) -> Report:
        dropped, missing = dict(self.dropped), dict(self.missing)
        for reason, rows in other.dropped.items():
            fold_drop(dropped, reason, rows)
        for column, (nodes, close) in other.missing.items():
            fold_missing(missing, column, nodes, close)
        errors = dict.fromkeys((*self.errors, *other.errors))
        tiles, overlaps = joined(self.tiles, other.tiles)
        causes = added(self.causes, other.causes)
        if overlaps:
            causes = added(causes, {Cause.DOUBLED.number: overlaps})
        return Report(
            answered=total(self.answered, other.answered),
            empty=total(self.empty, other.empty),
            failed=total(self.failed, other.failed),
            late=total(self.late, other.late),
            rows=total(self.rows, other.rows),
            bytes=total(self.bytes, other.bytes),
            dropped=dropped,
            errors=tuple(errors)[:ERRORS_MAX],
            sent=total(self.sent, other.sent),
            received=total(self.received, other.received),
            busy=total(self.busy, other.busy),
            again=total(self.again, other.again),
            missing=missing,
            holders=total(self.holders, other.holders),
            causes=causes,
            sated=total(self.sated, other.sated),
            tiles=tiles,
        )

    def less(self, earlier: Report) -> Report:
        """What is left of a sum when an earlier report of one of its nodes is taken out of it."""
        return msgspec.structs.replace(
            self,
            **{name: max(0, getattr(self, name) - getattr(earlier, name)) for name in _SUMS},
            dropped=_without(self.dropped, earlier.dropped),
            missing={column: each for column, each in self.missing.items() if column not in earlier.missing},
            causes=_without(self.causes, earlier.causes),
            tiles=removed(self.tiles, earlier.tiles),
        )


_SUMS = ("answered", "empty", "failed", "late", "rows", "bytes", "sent", "received", "holders", "sated")
K = TypeVar("K")


def _without(counts: dict[K, int], earlier: dict[K, int]) -> dict[K, int]:
    left = {key: count - earlier.get(key, 0) for key, count in counts.items()}
    return {key: count for key, count in left.items() if count > 0}


def fold_drop(dropped: dict[str, int], reason: str, rows: int) -> None:
    """Adds rows to those dropped for a reason; for reasons that do not fit, to the others."""
    reason = reason[:ERROR_CHARS_MAX]
    if reason not in dropped and len(dropped) >= DROPS_MAX:
        reason = OTHER
    dropped[reason] = total(dropped.get(reason, 0), rows)


def fold_missing(missing: dict[str, tuple[int, str]], column: str, nodes: int, close: str) -> None:
    """Adds nodes to those whose rows lacked a column, as far as columns fit."""
    column = column[:ERROR_CHARS_MAX]
    before, meant = missing.get(column, (0, ""))
    if before or len(missing) < MISSING_MAX:
        missing[column] = (total(before, nodes), meant or close[:ERROR_CHARS_MAX])


class OwnReport(msgspec.Struct, frozen=True, array_like=True):
    """What the asker's own node says when it is called alone: its report, and the earlier one that it replaces."""

    now: Report
    earlier: Report = Report()


def failure(text: str, cause: Cause = Cause.ERROR) -> Report:
    """The report of a node that could not take part."""
    return Report(failed=1, errors=(text[:ERROR_CHARS_MAX],), causes={cause.number: 1})


_encoder = msgspec.msgpack.Encoder()
_calls = msgspec.msgpack.Decoder(StageCall)
_reports = msgspec.msgpack.Decoder(Report)
_own_reports = msgspec.msgpack.Decoder(OwnReport)

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
        return failure(f"unreadable report: {error}", Cause.UNREADABLE)


def decode_own_report(data: bytes) -> OwnReport:
    try:
        return _own_reports.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return OwnReport(failure(f"unreadable report: {error}", Cause.UNREADABLE))


def combine(left: bytes, right: bytes) -> bytes:
    """Two encoded reports into one: what inner nodes of the tree do."""
    return encode(decode_report(left).plus(decode_report(right)))
