"""The client's end of a connection, as a machine: bytes and time in, events and bytes out.

    GREETING --Welcome--> OPEN --Bye, violation, silence, close()--> CLOSED

The mirror image of `server.py`: requests are opened here, numbered in order, and end with one closing
message from the node. Every request that is open when the connection ends is ended by `Gone`: its owner is
told, never left waiting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from pier_node.protocol import messages as m
from pier_node.protocol.errors import LocalProtocolError, RemoteProtocolError
from pier_node.protocol.flow import InFlow, OutFlow
from pier_node.protocol.frames import FRAME_BYTES_MAX, FrameReader, frame_pieces
from pier_node.protocol.liveness import Liveness, LivenessLimits, Pulse
from pier_node.protocol.server import BecameReady, Gone, State
from runtime.message import CodecError, Message

#: Publishing does not queue: the caller waits for credit, so one batch is all that is ever kept.
_FEED_BACKLOG_BYTES = 0


@dataclass(frozen=True, slots=True)
class BatchReceived:
    """A piece of an answer; grant `size_bytes` once it has been used."""

    request: int
    table: str
    batch: pa.RecordBatch
    epoch: int | None
    size_bytes: int


#: Everything that ends a request arrives as the message itself.
Event: TypeAlias = BatchReceived | BecameReady | Gone | Message


@dataclass(slots=True)
class _Request:
    out: OutFlow | None = None
    into: InFlow | None = None


class ClientMachine:
    """One connection; the hello is the first output."""

    def __init__(
        self, now: float, token: str = "", agent: str = "", liveness: LivenessLimits | None = None
    ) -> None:
        self.state = State.GREETING
        self.welcome: m.Welcome | None = None
        self._reader = FrameReader()
        self._liveness = Liveness(liveness or LivenessLimits(), now)
        self._requests: dict[int, _Request] = {}
        self._last_request = 0
        self._out: list[bytes] = []
        self._send(m.Hello(m.PROTOCOL_VERSION, (), token, agent))

    # ---- bytes and time ------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> list[Event]:
        if self.state is State.CLOSED:
            return []
        self._liveness.heard(now)
        self._reader.feed(data)
        events: list[Event] = []
        try:
            for body in self._reader.bodies():
                events += self._message(m.TO_CLIENT_CODEC.decode(body))
                if self.closed:
                    break
        except (RemoteProtocolError, CodecError) as error:
            events += self._hang_up(f"the node broke the protocol: {error}")
        return events

    def check(self, now: float) -> list[Event]:
        if self.state is State.CLOSED:
            return []
        pulse = self._liveness.check(now)
        if pulse is Pulse.ASK:
            self._send(m.Ping())
        return self._hang_up("no sign of life from the node") if pulse is Pulse.GONE else []

    def next_check(self) -> float:
        return self._liveness.next_check()

    @property
    def closed(self) -> bool:
        return self.state is State.CLOSED

    def take_output(self) -> list[bytes]:
        """What is to be sent, piece by piece."""
        pieces, self._out = self._out, []
        return pieces

    # ---- what the client says ------------------------------------------------------------------------

    def ask(
        self,
        text: str,
        language: m.Language,
        credit_bytes: int,
        limits: m.Limits | None = None,
        params: Mapping[str, m.Scalar] | None = None,
        part: m.Slice | None = None,
        allow_unknown: bool = False,
    ) -> int:
        request = self._answered(credit_bytes)
        filled = dict(params or {})
        asked = limits or m.Limits()
        self._send(m.Ask(request, text, language, credit_bytes, asked, filled, part, allow_unknown))
        return request

    def describe(self, text: str, language: m.Language, params: Mapping[str, m.Scalar] | None = None) -> int:
        request = self._open(_Request())
        self._send(m.Describe(request, text, language, dict(params or {})))
        return request

    def settle(self, load: str, table: str, verdict: m.Verdict, tasks: Iterable[str] = ()) -> int:
        request = self._open(_Request())
        self._send(m.Settle(request, load, table, verdict, tuple(tasks)))
        return request

    def unpublish(self, table: str, keys: Iterable[str] = ()) -> int:
        request = self._open(_Request())
        self._send(m.Unpublish(request, table, tuple(keys)))
        return request

    def open_log(
        self,
        log: str,
        text: str,
        language: m.Language,
        lease_s: float,
        limits: m.Limits | None = None,
        params: Mapping[str, m.Scalar] | None = None,
        allow_unknown: bool = False,
    ) -> int:
        request = self._open(_Request())
        filled = dict(params or {})
        asked = limits or m.Limits()
        self._send(m.OpenLog(request, log, text, language, lease_s, asked, filled, allow_unknown))
        return request

    def log(self, log: str, action: m.LogAction, offset: int = 0) -> int:
        request = self._open(_Request())
        self._send(m.LogCall(request, log, action, offset))
        return request

    def read_log(self, log: str, start: int, end: int, credit_bytes: int) -> int:
        request = self._answered(credit_bytes)
        self._send(m.ReadLog(request, log, start, end, credit_bytes))
        return request

    def explain(self, text: str, language: m.Language) -> int:
        request = self._open(_Request())
        self._send(m.Explain(request, text, language))
        return request

    def call(self, what: m.Question, argument: str = "") -> int:
        request = self._open(_Request())
        self._send(m.Call(request, what, argument))
        return request

    def put_object(self, namespace: str, key: str, suffix: str, value: bytes, lifetime_s: float) -> int:
        request = self._open(_Request())
        self._send(m.PutObject(request, namespace, key, suffix, value, lifetime_s))
        return request

    def get_objects(self, namespace: str, key: str) -> int:
        request = self._open(_Request())
        self._send(m.GetObjects(request, namespace, key))
        return request

    def publish(
        self, table: str, keys: Iterable[str], lifetime_s: float | None, stage: m.Stage | None = None
    ) -> int:
        request = self._open(_Request(out=OutFlow(self._last_request + 1, 0, _FEED_BACKLOG_BYTES)))
        self._send(m.Publish(request, table, tuple(keys), lifetime_s, stage))
        return request

    def is_ready(self, request: int) -> bool:
        """Whether a batch of this publication would leave at once; yes when the request has ended."""
        known = self._requests.get(request)
        return known is None or known.out is None or known.out.ready

    def rows(self, request: int, table: str, batch: pa.RecordBatch) -> None:
        """Sends a batch of a publication, or keeps it until there is credit: wait for `is_ready` first."""
        known = self._requests.get(request)
        if known is not None and known.out is not None:
            self._send_all(known.out.push(table, batch))

    def publish_end(self, request: int) -> None:
        known = self._requests.get(request)
        if known is not None and known.out is not None:
            self._send_all(known.out.push_last(m.PublishEnd(request)))

    def grant(self, request: int, count: int) -> None:
        """Lets the node send more of an answer; of one that has ended, does nothing."""
        known = self._requests.get(request)
        if known is not None and known.into is not None and count > 0:
            self._send(known.into.grant(count))

    def cancel(self, request: int) -> None:
        if request in self._requests:
            self._send(m.Cancel(request))

    def taps(self, request: int, on: bool, operators: Iterable[str] = ()) -> None:
        if request in self._requests:
            self._send(m.Taps(request, on, tuple(operators)))

    def close(self, reason: str = "") -> list[Event]:
        return [] if self.state is State.CLOSED else self._hang_up(reason)

    def lost(self, reason: str) -> list[Event]:
        """The stream is gone without a word."""
        if self.state is State.CLOSED:
            return []
        self._end()
        return [Gone(reason)]

    # ---- what the node said --------------------------------------------------------------------------

    def _message(self, message: Message) -> Iterable[Event]:
        if isinstance(message, m.Ping):
            self._send(m.Pong())
        elif isinstance(message, m.Bye):
            self._end()
            return (Gone(message.reason or "the node hung up"),)
        elif self.state is State.GREETING:
            return self._welcomed(message)
        elif not isinstance(message, m.Pong):
            return self._continued(message)
        return ()

    def _welcomed(self, message: Message) -> Iterable[Event]:
        if not isinstance(message, m.Welcome):
            raise RemoteProtocolError("the first message must be a welcome")
        self.welcome = message
        self.state = State.OPEN
        self._liveness.introduced()
        self._reader.bytes_max = FRAME_BYTES_MAX
        return (message,)

    def _continued(self, message: Message) -> Iterable[Event]:
        request: int = getattr(message, "request", 0)
        known = self._requests.get(request)
        if known is None:
            raise RemoteProtocolError(f"{type(message).__name__} for a request that is not open")
        match message:
            case m.Grant() if known.out is not None:
                was_ready = known.out.ready
                self._send_all(known.out.grant(message.bytes))
                return () if was_ready or not known.out.ready else (BecameReady(request),)
            case m.Schema() if known.into is not None:
                known.into.schema(message)
                return ()
            case m.Rows() if known.into is not None:
                table, batch = known.into.rows(message)
                return (BatchReceived(request, table, batch, message.epoch, len(message.data)),)
            case m.Progress() | m.Tapped():
                return (message,)
            case m.AccountIs() if not message.final:
                return (message,)
            case _ if isinstance(message, m.CLOSING):
                del self._requests[request]
                return (message,)
        raise RemoteProtocolError(f"{type(message).__name__} does not fit request {request}")

    # ---- inside --------------------------------------------------------------------------------------

    def _answered(self, credit_bytes: int) -> int:
        """Opens a request that is answered with rows."""
        return self._open(_Request(into=InFlow(self._last_request + 1, credit_bytes)))

    def _open(self, request: _Request) -> int:
        if self.state is not State.OPEN:
            raise LocalProtocolError(f"the connection is {self.state.value}")
        self._last_request += 1
        self._requests[self._last_request] = request
        return self._last_request

    def _send(self, message: Message) -> None:
        if self.state is not State.CLOSED:
            self._out += frame_pieces(m.TO_NODE_CODEC.encode(message))

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
