"""The door for clients: accepts streams, gives each a session, and keeps their number within bounds.

From the runtime come streams, already through TLS where that is wanted; to the `NodeService` go questions. One
connection too many is told so and hung up on.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field, replace

from pier_node.protocol import messages as m
from pier_node.protocol.frames import frame
from pier_node.service import NodeService
from pier_node.session import Session, SessionCounters, SessionJournal, SessionLimits
from runtime.api import Runtime, Stream

#: What this end of the protocol can do; which languages are understood is the engine's affair.
CAPABILITIES = ("taps", "publish", "objects")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a node treats its clients. An empty token admits everyone who reaches the port."""

    connections_max: int = 256
    token: str = field(default="", repr=False)
    session: SessionLimits = field(default_factory=SessionLimits)


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """A snapshot of what came through the door."""

    connections: int
    accepted: int
    refused: int
    tokens_refused: int
    sessions: SessionCounters


class ClientServer:
    """All clients of one node."""

    def __init__(
        self,
        runtime: Runtime,
        service: NodeService,
        node_id: str,
        options: ServerOptions,
        journal: SessionJournal,
    ) -> None:
        self._runtime = runtime
        self._service = service
        self._options = options
        self._journal = journal
        self._identity = m.Welcome(
            m.PROTOCOL_VERSION,
            CAPABILITIES,
            node_id,
            runtime.address,
            options.session.machine.requests_max,
            0,
        )
        #: Ordered by arrival; a dict because sessions leave in any order.
        self._sessions: dict[Session, None] = {}
        self._counters = SessionCounters()
        self._accepted = self._refused = self._tokens_refused = 0

    def accept(self, stream: Stream) -> None:
        """What `Runtime.listen` calls for each client."""
        if len(self._sessions) >= self._options.connections_max:
            self._refused += 1
            text = f"{self._options.connections_max} clients are connected (client.connections_max)"
            stream.write(frame(m.TO_CLIENT_CODEC.encode(m.Bye(text))))
            stream.close()
            return
        self._accepted += 1
        session = Session(
            stream,
            self._runtime,
            self._service,
            self._identity,
            self._admits,
            self._options.session,
            self._counters,
            self._journal,
            self._left,
        )
        if not session.machine.closed:
            self._sessions[session] = None

    def close(self, reason: str) -> None:
        """Says goodbye to everyone; the queries of each are cancelled."""
        for session in list(self._sessions):
            session.close(reason)

    def statistics(self) -> ServerStatistics:
        counted = replace(self._counters)
        for session in self._sessions:
            counted.stale_messages += session.machine.stale_messages
            counted.requests_refused += session.machine.refused_requests
        return ServerStatistics(
            len(self._sessions), self._accepted, self._refused, self._tokens_refused, counted
        )

    def _admits(self, token: str) -> bool:
        wanted = self._options.token
        good = not wanted or hmac.compare_digest(token.encode(), wanted.encode())
        self._tokens_refused += not good
        return good

    def _left(self, session: Session) -> None:
        self._sessions.pop(session, None)
