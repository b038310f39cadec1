"""Messages between nodes that run a query, beside the spread and the DHT. Tags 120-139."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from query.counts import Count
from query.dataflow.settings import NAME_CHARS_MAX
from runtime.message import Message, WireId

#: A batch on its way; operators cut larger ones (`query.wire.split`).
PAYLOAD_BYTES_MAX = 12 << 20
QueryId: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
Payload: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
Prose: TypeAlias = Annotated[str, msgspec.Meta(max_length=4_096)]


class ResultBatch(Message, frozen=True, tag=120):
    """Result rows for the asker. `sequence` tells repeats apart."""

    query: QueryId
    node: WireId
    sequence: Count
    payload: Payload


class ResultCredit(Message, frozen=True, tag=121):
    """The asker has taken so many bytes of this node's results since the query began."""

    query: QueryId
    taken_bytes: Count


class PeerBatch(Message, frozen=True, tag=122):
    """Rows that an operator sent straight to this node (put IP, scan IP)."""

    query: QueryId
    channel: Name
    payload: Payload


class Remark(Message, frozen=True, tag=123):
    """A message to the query's author: why rows were dropped, or a copy of what flows at a tap."""

    query: QueryId
    node: WireId
    operator: Name
    kind: Name
    text: Prose


class WantRows(Message, frozen=True, tag=124):
    """Asks for rows that a query keeps at this node, by their numbers: 64-bit integers, lowest byte first."""

    query: QueryId
    channel: Name
    question: Count
    rows: Payload


class KeptRows(Message, frozen=True, tag=125):
    """A piece of the answer, one of so many; no pieces: the rows are not here."""

    question: Count
    piece: Count
    pieces: Count
    payload: Payload


ENGINE_MESSAGES: tuple[type[Message], ...] = (
    ResultBatch,
    ResultCredit,
    PeerBatch,
    Remark,
    WantRows,
    KeptRows,
)
