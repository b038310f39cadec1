"""Result rows from a node to the proxy, with credit in bytes.

The sender keeps at most a window of bytes that the asker has not taken; beyond it the query pauses on that node
and nowhere else. A node reports itself done only when every result it sent has been acknowledged, so when
all reports are in, so are all rows. Rows of the asker's own node do not travel: they are handed over as they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from overlay.ring import NodeRef
from query.batch import Batch
from query.dataflow.budget import Budget
from query.dataflow.marks import TABLE as MARKS
from query.engine.messages import PAYLOAD_BYTES_MAX, ResultBatch, ResultCredit
from query.engine.spec import QuerySpec
from query.wire import (
    BatchTooLarge,
    SchemaReceiver,
    SchemaSender,
    WireError,
    WireSchema,
    decode,
    describe,
    encode,
    split,
)
from runtime.api import Address, Clock, Messenger

#: A result message that was not delivered is sent again this often, then the node gives the query up.
ATTEMPTS_MAX = 3
#: Rows of one result message: keeps a message within a small part of any window.
MESSAGE_ROWS = 16_384
MESSAGE_BYTES = 256 << 10
#: Result messages of one node that may overtake an earlier one: a window holds fewer.
EARLY_MAX = 65_536
#: Of rows that stay on this node: a part of the window, large enough to cost little.
OWN_ROWS = 65_536
OWN_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Result rows of the asker's own node."""

    query: str
    node: bytes
    sequence: int
    rows: Batch
    size_bytes: int


#: Takes such rows to the query they belong to.
Handover: TypeAlias = Callable[[OwnRows], None]


class ResultSender:
    """A node's way to the asker of one query."""

    def __init__(
        self,
        spec: QuerySpec,
        me: NodeRef,
        messenger: Messenger,
        budget: Budget,
        fail: Callable[[Exception], None],
        clock: Clock,
        handover: Handover,
    ) -> None:
        self._spec = spec
        self._clock = clock
        self._handover = handover
        self._own = spec.proxy == me
        self._me = me
        self._messenger = messenger
        self._budget = budget
        self._fail = fail
        self._schemas = SchemaSender()
        self._sequence = 0
        self._unacknowledged = 0
        self._sent_bytes = 0
        self._taken_bytes = 0
        self._ready: list[Callable[[], None]] = []
        self._drained: list[Callable[[], None]] = []
        self.rows = 0

    @property
    def bytes(self) -> int:
        return self._sent_bytes

    def send(self, batch: Batch) -> bool:
        """Takes result rows. False: wait for `on_ready` before sending more."""
        if self._own:
            return self._hand_over(batch)
        for piece in split(batch, MESSAGE_ROWS, MESSAGE_BYTES):
            schema = describe(piece)
            inline = self._schemas.must_inline(schema)
            payload = encode(piece, inline)
            if len(payload) > PAYLOAD_BYTES_MAX:
                self._fail(BatchTooLarge(f"a row of {len(payload)} bytes: {PAYLOAD_BYTES_MAX} can travel"))
                return False
            self._count(piece.num_rows, len(payload))
            self._dispatch(
                _Outgoing(ResultBatch(self._spec.id, self._me.id, self._sequence, payload), schema)
            )
        return self._within_window()

    def _count(self, rows: int, size_bytes: int) -> None:
        self._budget.send(rows, size_bytes, "result")
        self._sequence += 1
        self._sent_bytes += size_bytes
        self.rows += rows
        self._unacknowledged += 1

    def _hand_over(self, batch: Batch) -> bool:
        """To the proxy at this node, after this turn: nobody is called back before his call returns."""

        def give(own: OwnRows) -> None:
            self._handover(own)
            self._acknowledged()

        for piece in split(batch, OWN_ROWS, OWN_BYTES):
            size_bytes = piece.nbytes
            self._count(piece.num_rows, size_bytes)
            own = OwnRows(self._spec.id, self._me.id, self._sequence, piece, size_bytes)
            self._clock.call_later(0.0, give, own)
        return self._within_window()

    def on_ready(self, handler: Callable[[], None]) -> None:
        self._ready.append(handler)

    def when_drained(self, handler: Callable[[], None]) -> None:
        """Calls handler once everything sent so far has been acknowledged; at once if it has."""
        if self._unacknowledged == 0:
            handler()
        else:
            self._drained.append(handler)

    def credited(self, credit: ResultCredit) -> None:
        """The asker took more."""
        was_full = not self._within_window()
        self._taken_bytes = min(max(self._taken_bytes, credit.taken_bytes), self._sent_bytes)
        if was_full and self._within_window():
            for handler in self._ready:
                handler()

    def _within_window(self) -> bool:
        return self._sent_bytes - self._taken_bytes < self._spec.window_bytes

    def _dispatch(self, outgoing: _Outgoing) -> None:
        def told(delivered: bool) -> None:
            if delivered:
                self._schemas.delivered(outgoing.schema)
                self._acknowledged()
            elif outgoing.attempts < ATTEMPTS_MAX:
                outgoing.attempts += 1
                self._dispatch(outgoing)
            else:
                self._fail(ConnectionError("the asker's node cannot be reached"))

        self._messenger.send(self._spec.proxy.address, outgoing.message, told)

    def _acknowledged(self) -> None:
        self._unacknowledged -= 1
        if self._unacknowledged == 0:
            waiting, self._drained = self._drained, []
            for handler in waiting:
                handler()


@dataclass(slots=True)
class _Outgoing:
    message: ResultBatch
    schema: WireSchema
    attempts: int = 1


class BadSequence(ValueError):
    """A peer leaves out more numbers than can be on their way."""


@dataclass(slots=True)
class _Origin:
    """One node's results at the proxy."""

    address: Address
    schemas: SchemaReceiver
    #: Sequence numbers below this have all come; those above that came early.
    next: int = 1
    early: set[int] | None = None
    taken_bytes: int = 0
    granted_bytes: int = 0

    def is_new(self, sequence: int) -> bool:
        """Whether this message has not come before; remembers it. Raises BadSequence."""
        if sequence < self.next or (self.early is not None and sequence in self.early):
            return False
        early = self.early if self.early is not None else set()
        if len(early) >= EARLY_MAX:
            raise BadSequence
        early.add(sequence)
        while self.next in early:
            early.discard(self.next)
            self.next += 1
        self.early = early or None
        return True


class ResultReceiver:
    """The proxy's end: rows go to `take` as they come, credit goes back as they are taken.

    What the client is not ready for waits as it came, unread, so that a window of bytes is that much memory."""

    def __init__(self, spec: QuerySpec, messenger: Messenger, take: Callable[[Batch], bool]) -> None:
        self._spec = spec
        self._messenger = messenger
        self._take = take
        self._origins: dict[bytes, _Origin] = {}
        self._held: deque[tuple[_Origin, bytes | Batch, int]] = deque()
        self._open = True
        self._empty: Callable[[], None] | None = None
        self.rows = 0
        self.malformed = 0

    @property
    def nodes(self) -> int:
        """How many nodes rows have come from."""
        return len(self._origins)

    @property
    def held(self) -> int:
        return len(self._held)

    def arrived(self, sender: Address, message: ResultBatch) -> None:
        self._came(sender, message.node, message.sequence, message.payload, len(message.payload))

    def handed(self, own: OwnRows) -> None:
        """Rows of this node."""
        self._came(self._spec.proxy.address, own.node, own.sequence, own.rows, own.size_bytes)

    def _came(
        self, sender: Address, node: bytes, sequence: int, content: bytes | Batch, size_bytes: int
    ) -> None:
        origin = self._origins.get(node)
        if origin is None:
            origin = self._origins[node] = _Origin(sender, SchemaReceiver())
        try:
            new = origin.is_new(sequence)
        except BadSequence:
            self.malformed += 1
            return
        if new:
            self._held.append((origin, content, size_bytes))
            self._drain()

    def ready(self) -> None:
        """The client can take more."""
        self._open = True
        self._drain()

    def when_empty(self, handler: Callable[[], None]) -> None:
        """Calls handler once the client has been given everything that came."""
        self._empty = handler
        self._drain()

    def _drain(self) -> None:
        while self._open and self._held:
            origin, content, size_bytes = self._held.popleft()
            self._give(origin, content)
            origin.taken_bytes += size_bytes
            if origin.taken_bytes - origin.granted_bytes >= self._spec.window_bytes // 4:
                origin.granted_bytes = origin.taken_bytes
                self._messenger.send(origin.address, ResultCredit(self._spec.id, origin.taken_bytes))
        if not self._held and self._empty is not None:
            handler, self._empty = self._empty, None
            handler()

    def _give(self, origin: _Origin, content: bytes | Batch) -> None:
        """Hands one message's rows to the client. The schema rides along until delivery is confirmed, so only a
        broken peer sends rows that cannot be read."""
        batch = content if isinstance(content, Batch) else _read(content, origin.schemas)
        if batch is None:
            self.malformed += 1
            return
        self.rows += batch.num_rows
        self._open = self._take(batch)


def _read(payload: bytes, schemas: SchemaReceiver) -> Batch | None:
    try:
        batch = decode(payload, schemas)
    except WireError:
        return None
    # Epochs are told apart by this node alone: a mark of another is none.
    return batch if isinstance(batch, Batch) and batch.table != MARKS else None
