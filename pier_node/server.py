"""The door for clients: accepts streams, gives each a session, and keeps their number within bounds.

From the runtime come streams, already through TLS where that is wanted; to the `NodeService` go questions. One
connection too many is told so and hung up on. The book of tokens may change at any time: sessions of a token
that no longer opens are ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pier_node.access.clients import ANYONE, Client
from pier_node.access.rates import ClientFigures, RateLimits, Shares, ShareTotals
from pier_node.access.tokens import TokenBook
from pier_node.protocol import messages as m
from pier_node.protocol.frames import frame
from pier_node.service import NodeService
from pier_node.session import Session, SessionJournal
from pier_node.session_limits import SessionCounters, SessionLimits
from runtime.api import Runtime, Stream

#: What this end of the protocol can do; which languages are understood is the engine's affair.
CAPABILITIES = ("taps", "publish", "objects")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How a node treats its clients. Without a book of tokens everyone who reaches the port is admitted."""

    connections_max: int = 256
    tokens: TokenBook | None = None
    #: Of `connections_max`, those from one address; zero: no limit of its own.
    connections_per_address_max: int = 0
    rates: RateLimits = field(default_factory=RateLimits)
    session: SessionLimits = field(default_factory=SessionLimits)


@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """A snapshot of what came through the door."""

    connections: int
    accepted: int
    refused: int
    refused_by_address: int
    tokens_refused: int
    tokens_revoked: int
    #: All that clients wanted without a right to it, or beyond what one may have.
    totals: ShareTotals
    sessions: SessionCounters
    #: By name of the token or, without one, by address.
    client: Mapping[str, ClientFigures]


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
        self._tokens = options.tokens
        self._shares = Shares(options.rates)
        self._counters = SessionCounters()
        self._by_address: dict[str, int] = {}
        self._accepted = self._refused = self._refused_by_address = 0
        self._tokens_refused = self._tokens_revoked = 0

    def accept(self, stream: Stream) -> None:
        """What `Runtime.listen` calls for each client."""
        if len(self._sessions) >= self._options.connections_max:
            self._refused += 1
            text = f"{self._options.connections_max} clients are connected (client.connections_max)"
            _turn_away(stream, text)
            return
        host = host_of(stream.peer)
        most = self._options.connections_per_address_max
        if most and self._by_address.get(host, 0) >= most:
            self._refused_by_address += 1
            _turn_away(stream, f"{most} connections from {host} (client.connections_per_address_max)")
            return
        self._accepted += 1
        session = Session(
            stream,
            self._runtime,
            self._service,
            self._identity,
            self._admits,
            lambda client: self._shares.of(client.name or host, self._runtime.now()),
            self._options.session,
            self._counters,
            self._journal,
            self._left,
        )
        if not session.machine.closed:
            self._sessions[session] = None
            self._by_address[host] = self._by_address.get(host, 0) + 1

    def use_tokens(self, tokens: TokenBook | None) -> None:
        """Goes over to another book; sessions it does not know, or knows otherwise, are ended."""
        self._tokens = tokens
        self._service.allow(self.may_publish)
        for session in list(self._sessions):
            if session.client is not None and session.client != self._client_of(session.word):
                self._tokens_revoked += 1
                session.close("the token was revoked or changed")

    def may_publish(self, name: str, table: str) -> bool:
        """Whether what was published under a token's name may stay: without a name, and where no tokens are asked for,
        it may. A token that has only run out of time has not been taken from its owner."""
        if not name or self._tokens is None:
            return True
        client = next((each.client() for each in self._tokens.tokens if each.name == name), None)
        return client is not None and client.publishes_into(table)

    @property
    def tokens_known(self) -> int:
        return len(self._tokens.tokens) if self._tokens is not None else 0

    def close(self, reason: str) -> None:
        """Says goodbye to everyone; the queries of each are cancelled."""
        for session in list(self._sessions):
            session.close(reason)

    def statistics(self) -> ServerStatistics:
        counted = replace(self._counters)
        for session in self._sessions:
            counted.stale_messages += session.machine.stale_messages
            counted.requests_refused += session.machine.refused_requests
            counted.unfit_messages += session.machine.unfit_messages
            counted.unsaid += session.machine.unsaid
        return ServerStatistics(
            len(self._sessions),
            self._accepted,
            self._refused,
            self._refused_by_address,
            self._tokens_refused,
            self._tokens_revoked,
            replace(self._shares.totals),
            counted,
            self._shares.figures(),
        )

    def _client_of(self, token: str) -> Client | None:
        return ANYONE if self._tokens is None else self._tokens.client_of(token, self._runtime.wall())

    def _admits(self, token: str) -> Client | None:
        client = self._client_of(token)
        self._tokens_refused += client is None
        return client

    def _left(self, session: Session) -> None:
        if session in self._sessions:
            del self._sessions[session]
            host = host_of(session.peer)
            self._by_address[host] -= 1
            if not self._by_address[host]:
                del self._by_address[host]


def host_of(address: str) -> str:
    """The host of host:port."""
    return address.rpartition(":")[0]


def _turn_away(stream: Stream, reason: str) -> None:
    stream.write(frame(m.TO_CLIENT_CODEC.encode(m.Bye(reason))))
    stream.close()
