"""Batches in one direction of one request, paid for with byte credit.

The receiver grants bytes; the sender sends while it has credit left, so the last batch may overdraw by one
frame, and then waits. A slow reader therefore slows only its own request: everything else on the connection
goes on. Invariant: the sender holds at most `backlog_bytes_max` beyond what it may send plus one batch, the
receiver at most what it granted plus one frame.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import pyarrow as pa

from pier_node.protocol.arrow import pieces, read_piece, read_schema, schema_bytes
from pier_node.protocol.errors import LocalProtocolError, RemoteProtocolError
from pier_node.protocol.fields import NAME_CHARS_MAX
from pier_node.protocol.messages import Bytes, Grant, Rows, Schema
from runtime.message import Message

#: Different schemas within one answer: a UFL result may have several tables, not any number.
SCHEMAS_MAX = 1_024
#: Messages of any size that wait for one reader: small ones must not pile up either.
BACKLOG_MESSAGES_MAX = 4_096
#: Credit beyond this is kept at this: a peer that grants the world does not overflow anything.
CREDIT_BYTES_MAX = 1 << 40


class BacklogFull(LocalProtocolError):
    """The producer pushed on although it was told to wait."""


class OutFlow:
    """Batches to the peer."""

    __slots__ = (
        "_backlog",
        "_numbers",
        "_request",
        "backlog_bytes",
        "backlog_bytes_max",
        "credit_bytes",
        "held",
    )

    def __init__(self, request: int, credit_bytes: int, backlog_bytes_max: int) -> None:
        self._request = request
        self.credit_bytes = min(credit_bytes, CREDIT_BYTES_MAX)
        self.backlog_bytes_max = backlog_bytes_max
        self.backlog_bytes = 0
        #: While the stream itself is full nothing leaves, credit or not.
        self.held = False
        self._backlog: deque[tuple[int, Message]] = deque()
        self._numbers: dict[tuple[str, pa.Schema], int] = {}

    @property
    def ready(self) -> bool:
        """Whether another batch would leave at once."""
        return self.credit_bytes > 0 and not self._backlog and not self.held

    @property
    def empty(self) -> bool:
        return not self._backlog

    def push(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> Iterator[Message]:
        """Takes a batch; yields what may be sent now. Raises BacklogFull when the producer does not wait."""
        if self.backlog_bytes > self.backlog_bytes_max:
            raise BacklogFull(f"{self.backlog_bytes} bytes wait for a slow reader")
        number = self._number(table, batch.schema)
        for data in pieces(batch):
            self._add(len(data), Rows(self._request, number, data, epoch))
        return self.release()

    def push_note(self, message: Message) -> Iterator[Message]:
        """A message in line with the batches, such as an epoch's account; bounded by count, costs no credit."""
        if len(self._backlog) >= BACKLOG_MESSAGES_MAX:
            raise BacklogFull(f"{len(self._backlog)} messages wait for a slow reader")
        self._add(0, message)
        return self.release()

    def push_last(self, message: Message) -> Iterator[Message]:
        """The closing message: behind all batches, never refused."""
        self._add(0, message)
        return self.release()

    def grant(self, count: Bytes) -> Iterator[Message]:
        self.credit_bytes = min(self.credit_bytes + count, CREDIT_BYTES_MAX)
        return self.release()

    def release(self) -> Iterator[Message]:
        """Yields, and forgets, everything the credit allows."""
        while self._backlog and not self.held and (self._backlog[0][0] == 0 or self.credit_bytes > 0):
            size, message = self._backlog.popleft()
            self.credit_bytes -= size
            self.backlog_bytes -= size
            yield message

    def drop_rows(self) -> Iterator[Message]:
        """Forgets all waiting batches of a reader that wants no more; yields what is left to say."""
        self._backlog = deque(entry for entry in self._backlog if entry[0] == 0)
        self.backlog_bytes = 0
        return self.release()

    def _add(self, size: int, message: Message) -> None:
        self._backlog.append((size, message))
        self.backlog_bytes += size

    def _number(self, table: str, schema: pa.Schema) -> int:
        key = (table, schema)
        number = self._numbers.get(key)
        if number is None:
            if len(self._numbers) >= SCHEMAS_MAX:
                raise LocalProtocolError(f"more than {SCHEMAS_MAX} schemas in one answer (SCHEMAS_MAX)")
            if len(table) > NAME_CHARS_MAX:
                raise LocalProtocolError(
                    f"a table's name of {len(table)} characters, the limit is {NAME_CHARS_MAX}"
                )
            data = schema_bytes(schema)
            number = self._numbers[key] = len(self._numbers)
            self._add(0, Schema(self._request, number, table, data))
        return number


class InFlow:
    """Batches from the peer."""

    __slots__ = ("_request", "_schemas", "credit_bytes")

    def __init__(self, request: int, credit_bytes: int) -> None:
        self._request = request
        self.credit_bytes = credit_bytes
        self._schemas: dict[int, tuple[str, pa.Schema]] = {}

    def grant(self, count: int) -> Grant:
        """Credit for the peer, as the message to send it."""
        self.credit_bytes += count
        return Grant(self._request, count)

    def schema(self, message: Schema) -> None:
        if len(self._schemas) >= SCHEMAS_MAX:
            raise RemoteProtocolError(f"more than {SCHEMAS_MAX} schemas in one flow")
        if message.number != len(self._schemas):
            raise RemoteProtocolError(f"schema {message.number} out of order")
        self._schemas[message.number] = (message.table, read_schema(message.data))

    def rows(self, message: Rows) -> tuple[str, pa.RecordBatch]:
        """The table and the batch; a peer without credit has broken the rules."""
        if self.credit_bytes <= 0:
            raise RemoteProtocolError("batches beyond the granted credit")
        known = self._schemas.get(message.schema)
        if known is None:
            raise RemoteProtocolError(f"rows of schema {message.schema}, which was never sent")
        self.credit_bytes -= len(message.data)
        table, schema = known
        return table, read_piece(message.data, schema)
