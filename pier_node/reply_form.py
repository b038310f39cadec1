"""What a service answers, as messages within the protocol's bounds.

Texts that came from outside (a query, an error about it) are cut to length: the peer's decoder would refuse
the whole connection otherwise.
"""

from __future__ import annotations

import msgspec

from pier_node.protocol import messages as m
from pier_node.protocol.arrow import schema_bytes
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


def clip(text: str, chars_max: int = PROSE_CHARS_MAX) -> str:
    return text if len(text) <= chars_max else text[: chars_max - 1] + "…"


def bounded_account(account: m.Account) -> m.Account:
    if len(account.notes) <= m.NAMES_MAX and all(len(note) <= PROSE_CHARS_MAX for note in account.notes):
        return account
    notes = tuple(clip(note) for note in account.notes[: m.NAMES_MAX])
    return msgspec.structs.replace(account, notes=notes)


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
    return m.TablesAre(request, result[:ENTRIES_MAX])


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
