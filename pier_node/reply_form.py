"""What a service answers, as messages within the protocol's bounds.

Texts that came from outside (a query, an error about it) are cut to length: the peer's decoder would refuse
the whole connection otherwise.
"""

from __future__ import annotations

from itertools import islice

import msgspec

from pier_node.protocol import messages as m
from pier_node.protocol.arrow import schema_bytes
from pier_node.protocol.fields import BYTES_MAX
from pier_node.service import (
    Description,
    Failure,
    LogState,
    MembersView,
    NodeStatus,
    PublicationResult,
    RingView,
)
from runtime.message import Message

#: Of prose about a query, and of a name; well below what the messages allow.
PROSE_CHARS_MAX = 20_000
NAME_CHARS_MAX = 1_000
#: Entries of a listing beyond which it says less but still arrives in one frame.
ENTRIES_MAX = 10_000
#: Larger counts, which no honest node has, are told as this.
COUNT_MAX = BYTES_MAX


def clip(text: str, chars_max: int = PROSE_CHARS_MAX) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def bounded_account(account: m.Account) -> m.Account:
    """Texts and counts as the protocol carries them: what peers reported never costs a client its connection."""
    counts = ("asked", "answered", "empty", "failed", "unreachable", "absent", "rows", "bytes")
    return msgspec.structs.replace(
        account,
        query=clip(account.query, NAME_CHARS_MAX),
        notes=tuple(clip(note) for note in account.notes[: m.NAMES_MAX]),
        dropped={
            clip(reason, NAME_CHARS_MAX): _count(count)
            for reason, count in islice(account.dropped.items(), m.NAMES_MAX)
        },
        causes={cause: _count(count) for cause, count in islice(account.causes.items(), m.NAMES_MAX)},
        **{name: _count(getattr(account, name)) for name in counts},
    )


def _count(value: int) -> int:
    return max(0, min(value, COUNT_MAX))


def _table_entry(entry: m.TableEntry) -> m.TableEntry:
    """A table with more columns than a message names is listed with the first of them."""
    return msgspec.structs.replace(
        entry,
        name=clip(entry.name, NAME_CHARS_MAX),
        columns=tuple(clip(each, NAME_CHARS_MAX) for each in entry.columns[: m.NAMES_MAX]),
        types=tuple(clip(each, NAME_CHARS_MAX) for each in entry.types[: m.NAMES_MAX]),
        keys=tuple(clip(each, NAME_CHARS_MAX) for each in entry.keys[: m.NAMES_MAX]),
    )


def failure_message(request: int, failure: Failure) -> m.Failed:
    account = None if failure.account is None else bounded_account(failure.account)
    return m.Failed(
        request, failure.kind, clip(failure.message), failure.position, clip(failure.hint), account
    )


def reply_message(request: int, result: object) -> Message:
    """The closing message that carries a service's answer, by the answer's type."""
    match result:
        case Failure():
            return failure_message(request, result)
        case None:
            return m.Done(request)
        case str():
            return m.Explained(request, clip(result, 1 << 20))
        case NodeStatus():
            return _status_message(request, result)
        case RingView():
            return m.RingIs(request, result.nodes[:ENTRIES_MAX], result.whole)
        case MembersView():
            return m.MembersAre(request, result.members[: m.LISTED_MAX])
        case PublicationResult():
            dropped, unconfirmed = dict(result.dropped), result.unconfirmed
            return m.Published(request, result.rows, result.objects, result.refused, dropped, unconfirmed)
        case Description(schema, divisible):
            return m.Described(request, b"" if schema is None else schema_bytes(schema), divisible)
        case LogState(first, after, ended):
            return m.LogIs(request, first, after, clip(ended))
        case list():
            return m.ObjectsAre(request, tuple(result[:ENTRIES_MAX]))
    raise TypeError(f"a service answered with {type(result).__name__}")


def tables_message(request: int, result: tuple[m.TableEntry, ...] | Failure) -> Message:
    if isinstance(result, Failure):
        return failure_message(request, result)
    return m.TablesAre(request, tuple(map(_table_entry, result[:ENTRIES_MAX])))


def queries_message(request: int, result: tuple[m.QueryEntry, ...] | Failure) -> Message:
    if isinstance(result, Failure):
        return failure_message(request, result)
    listed = result[:ENTRIES_MAX]
    return m.QueriesAre(
        request, tuple(msgspec.structs.replace(q, text=clip(q.text, NAME_CHARS_MAX)) for q in listed)
    )


def _status_message(request: int, status: NodeStatus) -> m.StatusIs:
    return m.StatusIs(
        request,
        status.id,
        status.address,
        status.version,
        status.pid,
        status.uptime_s,
        status.joined,
        status.neighbours,
        status.client_address,
        status.sources,
        dict(status.figures),
        tuple(clip(remark) for remark in status.remarks),
    )
