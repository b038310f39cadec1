"""The node's end of a client connection, as a machine: bytes and time in, events and bytes out.

    GREETING --Hello--> OPEN --Bye, violation, silence, close()--> CLOSED

Within OPEN each request is one of three kinds, made by its first message and ended by one closing message
of ours (`messages.CLOSING`):

    request   made by                             may receive                     we send before closing
    CALL      `_CALLS`                            Cancel                          nothing
    ANSWER    Ask ReadLog                         Grant Cancel Taps               Schema Rows Progress Tapped
    FEED      Publish                             Schema Rows PublishEnd Cancel   Grant

Messages for a request that has ended are dropped and counted: they crossed our closing message on the way. A message
that cannot be used and says which request it is about ends that request and no other. A violation of anything else is
the peer's fault: it gets a Bye that says why, and the machine is CLOSED. Nothing a peer sends raises out of `receive`,
and nothing leaves that the peer's decoder would refuse.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from pier_node.protocol import messages as m
from pier_node.protocol.errors import LocalProtocolError, RemoteProtocolError, UnfitRequest
from pier_node.protocol.flow import InFlow, OutFlow
from pier_node.protocol.frames import FRAME_BYTES_MAX, FrameReader, frame_pieces
from pier_node.protocol.liveness import Liveness, LivenessLimits, Pulse
from pier_node.protocol.unfit import unfit
from runtime.message import CodecError, Message


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one connection may hold of a node."""

    requests_max: int = 64
    #: Answer bytes kept for a reader that has granted no credit, per query, beyond one batch.
    backlog_bytes_max: int = 4 << 20
    #: Bytes a publishing client may have on its way, per publication.
    feed_credit_bytes: int = 4 << 20
    #: The most credit one query may open with; a client that wants more grants more.
    credit_bytes_max: int = 256 << 20
    liveness: LivenessLimits = field(default_factory=LivenessLimits)


@dataclass(frozen=True, slots=True)
class BatchArrived:
    """A piece of a publication; `size_bytes` is what to grant once it is dealt with."""

    request: int
    table: str
    batch: pa.RecordBatch
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BecameReady:
    """The reader of an answer has credit again."""

    request: int


@dataclass(frozen=True, slots=True)
class Spoilt:
    """What the client sent for an open request cannot be used: it is to be failed with these words."""

    request: int
    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The connection is over; the last event. The reason is empty for an orderly end."""

    reason: str


Event: TypeAlias = (
    m.Ask | m.Explain | m.Cancel | m.Taps | m.Call | m.Publish | m.PublishEnd | m.PutObject | m.GetObjects
    | m.Describe | m.Settle | m.Unpublish | m.OpenLog | m.LogCall | m.ReadLog | BatchArrived | BecameReady
    | Spoilt | Gone
)  # fmt: skip


class State(enum.Enum):
    GREETING = "greeting"
    OPEN = "open"
    CLOSED = "closed"


@dataclass(slots=True)
class _Request:
    out: OutFlow | None = None
    into: InFlow | None = None
    closing: bool = False


#: Of the reason why an answer cannot be told.
REFUSAL_CHARS_MAX = 1_000
#: What begins a request.
_CALLS = (
    m.Explain,
    m.Call,
    m.PutObject,
    m.GetObjects,
    m.Describe,
    m.Settle,
    m.Unpublish,
    m.OpenLog,
    m.LogCall,
)
OPENING = (m.Ask, m.ReadLog, m.Publish, *_CALLS)


class ServerMachine:
    """One connection. `identity` is the Welcome to send; `admits` judges the token of a Hello: why it does not open
    the door, empty when it does."""

    def __init__(
        self,
        identity: m.Welcome,
        admits: Callable[[str], str],
        now: float,
        limits: ServerLimits | None = None,
    ) -> None:
        self.limits = limits or ServerLimits()
        self.state = State.GREETING
        self.agent = ""
        self.stale_messages = 0
        self.refused_requests = 0
        #: Messages that ended, or would have begun, one request because they could not be used.
        self.unfit_messages = 0
        #: Things that were not said because the peer's decoder would have refused them.
        self.unsaid = 0
        #: Whether the connection ended because the peer broke the rules.
        self.broken = False
        self._identity = identity
        self._admits = admits
        self._reader = FrameReader()
        self._liveness = Liveness(self.limits.liveness, now)
        self._requests: dict[int, _Request] = {}
        self._out: list[bytes] = []
        self._writable = True

    # ---- bytes and time ------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Event]:
        if self.state is State.CLOSED:
            return []
        self._liveness.heard(now)
        self._reader.feed(data)
        events: list[Event] = []
        try:
            for body in self._reader.bodies():
                events += self._body(body)
                if self.closed:
                    break
        except (RemoteProtocolError, CodecError) as error:
            self.broken = True
            events += self._hang_up(f"protocol error: {error}")
        return events

    def check(self, now: float) -> list[Event]:
        """Looks at the clock: asks a silent peer for a sign of life, or gives it up."""
        if self.state is State.CLOSED:
            return []
        pulse = self._liveness.check(now)
        if pulse is Pulse.ASK:
            self._send(m.Ping())
        if pulse is Pulse.GONE:
            return self._hang_up("no sign of life" if self.state is State.OPEN else "no hello in time")
        return []

    def next_check(self) -> float:
        return self._liveness.next_check()

    @property
    def closed(self) -> bool:
        return self.state is State.CLOSED

    @property
    def held_bytes(self) -> int:
        """Of messages that have not come whole yet."""
        return self._reader.held_bytes

    def take_output(self) -> list[bytes]:
        """What is to be sent, piece by piece."""
        pieces, self._out = self._out, []
        return pieces

    @property
    def requests(self) -> list[int]:
        return list(self._requests)

    def set_writable(self, writable: bool) -> list[Event]:
        """The stream is full, or has room again. While full, answers keep their rows here, within bounds."""
        self._writable = writable
        events: list[Event] = []
        for request, known in list(self._requests.items()):
            if known.out is None:
                continue
            was_ready = known.out.ready
            known.out.held = not writable
            self._send_all(known.out.release())
            events += self._released(request, known, was_ready)
        return events

    def backlog_bytes(self, request: int) -> int:
        """How much of an answer waits for its reader."""
        known = self._requests.get(request)
        return 0 if known is None or known.out is None else known.out.backlog_bytes

    def abandon(self, request: int) -> None:
        """Drops the rows a reader has not come for; a closing message behind them goes out."""
        known = self._requests.get(request)
        if known is not None and known.out is not None:
            self._send_all(known.out.drop_rows())
            if known.closing and known.out.empty:
                del self._requests[request]

    def awaits_closing(self, request: int) -> bool:
        """Whether a request is open and has not had its closing message."""
        known = self._requests.get(request)
        return known is not None and not known.closing

    # ---- what the node says --------------------------------------------------------------------------

    def is_ready(self, request: int) -> bool:
        """Whether a batch of this answer would leave at once; yes when there is nobody to wait for."""
        known = self._requests.get(request)
        return known is None or known.out is None or known.out.ready

    def rows(self, request: int, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        """Sends or keeps a batch of an answer; False: wait for BecameReady, or get BacklogFull."""
        known = self._open_request(request)
        if known is None or known.out is None:
            return True
        self._send_all(known.out.push(table, batch, epoch))
        return known.out.ready

    def say(self, message: m.Progress | m.Tapped | m.AccountIs) -> None:
        """Something about a request that does not end it. Accounts of an epoch keep behind its rows."""
        known = self._open_request(message.request)
        if known is None:
            return
        if _refused_by(message) is not None:
            self.unsaid += 1
            return
        if isinstance(message, m.AccountIs):
            if known.out is None:
                return
            assert not message.final, "a final account ends its request: use finish"
            self._send_all(known.out.push_note(message))
        else:
            self._send(message)

    def finish(self, message: Message) -> None:
        """Ends a request with its closing message, behind all rows of its answer."""
        assert isinstance(message, m.CLOSING)
        request: int = message.request
        unfit_reply = _refused_by(message)
        if unfit_reply is not None:
            self.unsaid += 1
            text = f"the answer does not fit the protocol: {unfit_reply}"
            message = m.Failed(request, "internal", text[:REFUSAL_CHARS_MAX])
        known = self._open_request(request)
        if known is None:
            return
        if known.out is None:
            self._send(message)
            del self._requests[request]
            return
        known.closing = True
        self._send_all(known.out.push_last(message))
        if known.out.empty:
            del self._requests[request]

    def grant(self, request: int, count: int) -> None:
        """Lets a publishing client send more."""
        known = self._open_request(request)
        if known is not None and known.into is not None and count > 0:
            self._send(known.into.grant(count))

    def close(self, reason: str = "") -> list[Event]:
        """Hangs up from this side."""
        return [] if self.state is State.CLOSED else self._hang_up(reason)

    def lost(self, reason: str) -> list[Event]:
        """The stream is gone without a word."""
        if self.state is State.CLOSED:
            return []
        self._end()
        return [Gone(reason)]

    # ---- what the client said ------------------------------------------------------------------------

    def _body(self, body: bytes | memoryview) -> Iterable[Event]:
        """One message, or what can be said about one that is none."""
        try:
            message = m.TO_NODE_CODEC.decode(body)
        except CodecError as error:
            about = unfit(body, error, m.TO_NODE_CODEC.kinds) if self.state is State.OPEN else None
            if about is None:
                raise
            return self._spoilt(about.request, about.why, about.kind in OPENING)
        try:
            return self._message(message)
        except UnfitRequest as error:
            return self._spoilt(message.request, str(error), opens=False)  # type: ignore[attr-defined]

    def _spoilt(self, request: int, why: str, opens: bool) -> Iterable[Event]:
        self.unfit_messages += 1
        if self.awaits_closing(request):
            if opens:
                raise RemoteProtocolError(f"request {request} is still open")
            return (Spoilt(request, why),)
        if opens:
            self._send(
                m.Failed(request, "refused", why, hint="the protocol takes no more; see docs/client.md")
            )
        else:
            self.stale_messages += 1
        return ()

    def _message(self, message: Message) -> Iterable[Event]:
        if isinstance(message, m.Ping):
            self._send(m.Pong())
        elif isinstance(message, m.Bye):
            self._end()
            return (Gone(""),)
        elif self.state is State.GREETING:
            return self._hello(message)
        elif isinstance(message, m.Hello):
            raise RemoteProtocolError("a second hello")
        elif isinstance(message, OPENING):
            return self._opened(message)
        elif not isinstance(message, m.Pong):
            return self._continued(message)
        return ()

    def _hello(self, message: Message) -> Iterable[Event]:
        if not isinstance(message, m.Hello):
            raise RemoteProtocolError("the first message must be a hello")
        refused = self._admits(message.token)
        if refused:
            return self._hang_up(refused)
        self.agent = message.agent
        self.state = State.OPEN
        self._liveness.introduced()
        self._reader.bytes_max = FRAME_BYTES_MAX
        version = min(message.version, m.PROTOCOL_VERSION)
        self._send(
            m.Welcome(
                version,
                self._identity.capabilities,
                self._identity.node,
                self._identity.address,
                self.limits.requests_max,
                FRAME_BYTES_MAX,
            )
        )
        return ()

    def _opened(self, message: Message) -> Iterable[Event]:
        assert isinstance(message, OPENING)
        request: int = message.request
        if request in self._requests:
            raise RemoteProtocolError(f"request {request} is still open")
        if len(self._requests) >= self.limits.requests_max:
            self.refused_requests += 1
            text = f"{self.limits.requests_max} requests are open on this connection (client.requests_max)"
            self._send(
                m.Failed(request, "limit", text, hint="wait for one to end, or open another connection")
            )
            return ()
        known = self._requests[request] = _Request()
        if isinstance(message, m.Ask | m.ReadLog):
            credit = min(message.credit_bytes, self.limits.credit_bytes_max)
            known.out = OutFlow(request, credit, self.limits.backlog_bytes_max)
            known.out.held = not self._writable
        elif isinstance(message, m.Publish):
            known.into = InFlow(request, 0)
            self._send(known.into.grant(self.limits.feed_credit_bytes))
        else:
            assert isinstance(message, _CALLS)
        return (message,)

    def _continued(self, message: Message) -> Iterable[Event]:
        """Something for a request that exists, existed, or never did."""
        request: int = message.request  # type: ignore[attr-defined]
        known = self._requests.get(request)
        if known is None:
            self.stale_messages += 1
            return ()
        match message:
            case m.Grant() if known.out is not None:
                return self._granted(request, known, message.bytes)
            case m.Cancel():
                return self._cancelled(known, message)
            case m.Taps() if known.out is not None:
                return () if known.closing else (message,)
            case m.Schema() if known.into is not None:
                known.into.schema(message)
            case m.Rows() if known.into is not None:
                table, batch = known.into.rows(message)
                return (BatchArrived(request, table, batch, len(message.data)),)
            case m.PublishEnd() if known.into is not None:
                return (message,)
            case _:
                raise RemoteProtocolError(f"{type(message).__name__} does not fit request {request}")
        return ()

    def _granted(self, request: int, known: _Request, count: int) -> Iterable[Event]:
        assert known.out is not None
        was_ready = known.out.ready
        self._send_all(known.out.grant(count))
        return self._released(request, known, was_ready)

    def _released(self, request: int, known: _Request, was_ready: bool) -> Iterable[Event]:
        assert known.out is not None
        if known.closing:
            if known.out.empty:
                del self._requests[request]
            return ()
        return () if was_ready or not known.out.ready else (BecameReady(request),)

    def _cancelled(self, known: _Request, message: m.Cancel) -> Iterable[Event]:
        """Nobody wants the rows any more; the closing message still goes out."""
        closing = known.closing
        self.abandon(message.request)
        return () if closing else (message,)

    # ---- inside --------------------------------------------------------------------------------------

    def _open_request(self, request: int) -> _Request | None:
        known = self._requests.get(request)
        if known is not None and known.closing:
            raise LocalProtocolError(f"request {request} has had its closing message")
        return known

    def _send(self, message: Message) -> None:
        if self.state is not State.CLOSED:
            self._out += frame_pieces(m.TO_CLIENT_CODEC.encode(message))

    def _send_all(self, outgoing: Iterator[Message]) -> None:
        for message in outgoing:
            self._send(message)

    def _hang_up(self, reason: str) -> list[Event]:
        self._send(m.Bye(reason))
        self._end()
        return [Gone(reason)]

    def _end(self) -> None:
        self.state = State.CLOSED
        self._requests.clear()


def _refused_by(message: Message) -> str | None:
    """Why the peer's decoder would refuse a message, and with it the connection; None when it takes it."""
    try:
        m.TO_CLIENT_CODEC.decode(m.TO_CLIENT_CODEC.encode(message))
    except (CodecError, OverflowError, UnicodeEncodeError) as error:
        return str(error)
    return None
