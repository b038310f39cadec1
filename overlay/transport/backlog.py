"""Messages waiting to leave for one peer, gathered into segments.

Small messages are gathered as they come; large ones wait whole and are cut when the window has room, so a
message of 16 MB costs no more than its bytes. Small ones go first, but every fourth segment is a large one's
when both wait: nobody promised an order, and neither kind may starve the other.
"""

from __future__ import annotations

from collections import deque

from overlay.transport.config import TransportConfig
from overlay.transport.ledger import Ledger, Token
from overlay.transport.wire import FRAGMENT, OVERHEAD_BYTES, U32, lengths_struct

#: While both wait, one segment in so many carries a fragment.
LARGE_EVERY = 4


class Large:
    """A message cut into segments; settled when the last of them is, or when one fails."""

    __slots__ = ("cut", "message_id", "payload", "settled", "token", "under_way")

    def __init__(self, payload: bytes, message_id: int, token: Token) -> None:
        self.payload = payload
        self.message_id = message_id
        self.token = token
        #: Bytes already cut off.
        self.cut = 0
        #: Fragments cut and not resolved.
        self.under_way = 0
        self.settled = False


class Segment:
    """The content of one datagram. `sn`, `pn` and `sent_at` are set when it is sent."""

    __slots__ = (
        "body",
        "large",
        "messages",
        "payload_bytes",
        "pn",
        "resolved",
        "sent_at",
        "size",
        "sn",
        "tokens",
        "transmissions",
    )

    sn: int
    pn: int
    sent_at: float

    def __init__(
        self, body: bytes, messages: int, payload_bytes: int, tokens: list[Token], large: Large | None
    ) -> None:
        self.body = body
        self.messages = messages
        self.payload_bytes = payload_bytes
        self.tokens = tokens
        self.large = large
        #: What it counts for in the congestion window.
        self.size = len(body) + OVERHEAD_BYTES
        self.transmissions = 0
        self.resolved = False


class Backlog:
    """`payloads` and `tokens` (of those that have one) are the segment being gathered; `room` is what still fits
    into it. A segment's bytes are accounted when it is closed, so the bounds on bytes are kept to within one
    datagram."""

    __slots__ = (
        "_capacity",
        "_large",
        "_large_id",
        "_ledger",
        "_ready",
        "_turn",
        "bytes",
        "payloads",
        "room",
        "tokens",
    )

    def __init__(self, config: TransportConfig, ledger: Ledger) -> None:
        self._ledger = ledger
        self._capacity = config.datagram_bytes_max - OVERHEAD_BYTES - 2
        self._ready: deque[Segment] = deque()
        self._large: deque[Large] = deque()
        self._large_id = 0
        self._turn = 0
        #: Bytes of messages accepted and not settled, without those being gathered.
        self.bytes = 0
        self.payloads: list[bytes] = []
        self.tokens: list[Token] = []
        #: None fits while nothing is gathered: a first message takes the way through `add`.
        self.room = 0

    @property
    def waiting(self) -> bool:
        return bool(self.payloads or self._ready or self._large)

    def add(self, payload: bytes, token: Token) -> None:
        """The caller has checked the bounds."""
        size = len(payload)
        if size + 2 > self._capacity:
            self._large_id = (self._large_id + 1) & U32
            self._large.append(Large(payload, self._large_id, token))
            self._account(size, 1)
            return
        if not self.payloads:
            self.room = self._capacity
        elif size + 2 > self.room:
            self._ready.append(self._gathered())
            self.room = self._capacity
        self.room -= size + 2
        self.payloads.append(payload)
        if token is not None:
            self.tokens.append(token)

    def _account(self, size: int, messages: int) -> None:
        self.bytes += size
        self._ledger.backlog_bytes += size
        self._ledger.counters.messages_sent += messages

    def _gathered(self) -> Segment:
        """Closes the segment being gathered."""
        payloads, tokens = self.payloads, self.tokens
        count = len(payloads)
        size = self._capacity - self.room - 2 * count
        self._account(size, count)
        self.payloads, self.tokens, self.room = [], [], 0
        body = lengths_struct(count).pack(count, *map(len, payloads)) + b"".join(payloads)
        return Segment(body, count, size, tokens, None)

    def next_segment(self, whole: bool) -> Segment | None:
        """`whole` leaves alone the one being gathered."""
        large = self._large
        if self._ready or (self.payloads and not whole):
            self._turn += 1
            if not large or self._turn % LARGE_EVERY:
                return self._ready.popleft() if self._ready else self._gathered()
        return self._cut(large[0]) if large else None

    def _cut(self, large: Large) -> Segment:
        start = large.cut
        piece = large.payload[start : start + self._capacity + 2 - FRAGMENT.size]
        large.cut += len(piece)
        large.under_way += 1
        if large.cut == len(large.payload):
            self._large.popleft()
        head = FRAGMENT.pack(large.message_id, start, len(large.payload))
        return Segment(head + piece, 0, 0, [], large)

    def settle(self, segment: Segment, delivered: bool) -> None:
        """A segment was acknowledged, or given up."""
        large = segment.large
        if large is None:
            ledger = self._ledger
            self.bytes -= segment.payload_bytes
            ledger.backlog_bytes -= segment.payload_bytes
            ledger.settle(segment.messages, segment.tokens, delivered)
            return
        large.under_way -= 1
        if large.settled:
            return
        if not delivered:
            if large.cut < len(large.payload):
                self._large.remove(large)
            self._settle_large(large, False)
        elif large.under_way == 0 and large.cut == len(large.payload):
            self._settle_large(large, True)

    def _settle_large(self, large: Large, delivered: bool) -> None:
        large.settled = True
        self._release(len(large.payload))
        self._ledger.settle(1, [] if large.token is None else [large.token], delivered)

    def _release(self, size: int) -> None:
        self.bytes -= size
        self._ledger.backlog_bytes -= size

    def put_back(self, segments: list[Segment]) -> None:
        """Unresolved segments, oldest first, go to the front again; large messages begin from the start."""
        again: dict[int, Large] = {}
        small = []
        for segment in segments:
            if segment.large is None:
                segment.transmissions = 0
                small.append(segment)
            elif not segment.large.settled:
                again[segment.large.message_id] = segment.large
        self._ready.extendleft(reversed(small))
        for large in (*again.values(), *self._large):
            large.cut = large.under_way = 0
            again[large.message_id] = large
        self._large = deque(again.values())

    def fail_begun(self) -> None:
        """Large messages of which some part has left fail."""
        begun = [large for large in self._large if large.cut]
        self._large = deque(large for large in self._large if not large.cut)
        for large in begun:
            self._settle_large(large, False)

    def fail_waiting(self) -> None:
        if self.payloads:
            self._ready.append(self._gathered())
        while self._ready:
            self.settle(self._ready.popleft(), False)
        while self._large:
            large = self._large.popleft()
            if not large.settled:
                self._settle_large(large, False)
