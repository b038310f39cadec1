"""A door for whoever looks after the node: GET and HEAD of /metrics, /health and /ready, in plain HTTP.

    /health   200 as long as the node's loop turns: a supervisor restarts a node that does not answer
    /ready    200 while the node is on the ring, 503 with the reason otherwise: a balancer sends no questions
    /metrics  the Prometheus text

One request a connection, few connections at a time, a deadline for each; h11 reads the protocol. Nothing here
changes the node, and no rows or query texts are shown.

The door is never shut: a supervisor that cannot ask restarts a node that is well. One connection too many takes the
place of the one that has been open longest without having asked, of its own address if that has its full part already,
else of the address that has most. Whoever asks at once is answered; who holds the door open makes room.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import h11

from pier_node.http.metrics import CONTENT_TYPE, Metrics
from pier_node.server import host_of
from pier_node.service import NodeStatus
from runtime.api import Clock, Stream, Timer

#: Of one request line with all its headers.
REQUEST_BYTES_MAX = 16 << 10


@dataclass(frozen=True, slots=True)
class HttpLimits:
    #: Connections at a time, and of these from one address.
    connections_max: int = 128
    connections_per_address_max: int = 64
    #: From accepting a connection to the end of its request.
    request_timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    content_type: str
    body: bytes


@dataclass(slots=True)
class HttpStatistics:
    requests: int = 0
    #: Connections that had not asked when their time was over, or when their place was needed.
    refused: int = 0
    malformed: int = 0


class HttpDoor:
    """All connections of this door."""

    def __init__(
        self,
        clock: Clock,
        status: Callable[[], NodeStatus],
        snapshots: Callable[[], Mapping[str, object]],
        limits: HttpLimits | None = None,
    ) -> None:
        self.clock = clock
        self.limits = limits or HttpLimits()
        self.counted = HttpStatistics()
        self._status = status
        self._metrics = Metrics(status, snapshots)
        #: By address, in the order they came.
        self._open: dict[str, dict[Exchange, None]] = {}

    def accept(self, stream: Stream) -> None:
        """What `Runtime.listen` calls for each connection."""
        host = host_of(stream.peer)
        self._make_room(host)
        self._open.setdefault(host, {})[Exchange(self, host, stream)] = None

    def _make_room(self, host: str) -> None:
        if len(self._open.get(host, ())) >= self.limits.connections_per_address_max:
            crowd = self._open[host]
        elif self.open_count >= self.limits.connections_max:
            crowd = max(self._open.values(), key=len)
        else:
            return
        next(iter(crowd)).give_way()

    @property
    def open_count(self) -> int:
        return sum(map(len, self._open.values()))

    def left(self, exchange: Exchange) -> None:
        """A connection is over."""
        here = self._open.get(exchange.host, {})
        here.pop(exchange, None)
        if not here:
            self._open.pop(exchange.host, None)

    def page(self, method: bytes, target: bytes) -> Page:
        path = target.partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            return _text(405, "only GET and HEAD")
        if path == b"/metrics":
            return Page(200, CONTENT_TYPE, self._metrics.text())
        if path == b"/health":
            return _json(200, {"status": "ok"})
        if path == b"/ready":
            status = self._status()
            facts = {"node": status.id, "neighbours": status.neighbours}
            if status.joined:
                return _json(200, {"status": "ready", **facts})
            return _json(503, {"status": "not ready", "reason": "not on the ring yet", **facts})
        return _text(404, "there are /metrics, /health and /ready")


class Exchange:
    """One connection: a request, an answer, the end."""

    def __init__(self, door: HttpDoor, host: str, stream: Stream) -> None:
        self.host = host
        self._door = door
        self._stream = stream
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=REQUEST_BYTES_MAX)
        self._request: h11.Request | None = None
        self._ended = False
        self._timer: Timer = door.clock.call_later(door.limits.request_timeout_s, Exchange.give_way, self)
        stream.handle(self)

    def received(self, data: bytes) -> None:
        if self._ended:
            return
        try:
            self._http.receive_data(data)
            while not self._ended:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    self._request = event
                elif isinstance(event, h11.EndOfMessage):
                    self._answer()
                elif event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return
        except h11.RemoteProtocolError as error:
            self._door.counted.malformed += 1
            self._send(_text(error.error_status_hint, str(error)), b"GET")

    def drained(self) -> None:
        """An answer is written once, whatever the reader's pace."""

    def closed(self, reason: str) -> None:
        self._end()

    def give_way(self) -> None:
        """Its time is over, or its place is needed."""
        if not self._ended:
            self._door.counted.refused += 1
            self._end()

    def _answer(self) -> None:
        assert self._request is not None
        self._door.counted.requests += 1
        self._send(self._door.page(self._request.method, self._request.target), self._request.method)

    def _send(self, page: Page, method: bytes) -> None:
        headers = [
            ("content-type", page.content_type),
            ("content-length", str(len(page.body))),
            ("connection", "close"),
        ]
        try:
            response = h11.Response(status_code=page.status, headers=headers)
            out = [self._http.send(response)]
            if method != b"HEAD":
                out.append(self._http.send(h11.Data(data=page.body)))
            out.append(self._http.send(h11.EndOfMessage()))
            self._stream.write(b"".join(part for part in out if part))
        except h11.LocalProtocolError:
            # The peer broke off in a state in which nothing can be said any more.
            self._door.counted.malformed += 1
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._timer.cancel()
            self._stream.close()
            self._door.left(self)


def _text(status: int, text: str) -> Page:
    return Page(status, "text/plain; charset=utf-8", text.encode() + b"\n")


def _json(status: int, facts: Mapping[str, object]) -> Page:
    return Page(status, "application/json", json.dumps(facts).encode() + b"\n")
