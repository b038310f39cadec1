"""One node put together: transport, overlay, engine, the door for clients. Pure wiring.

The parts know only the runtime, so the same wiring serves a process and a simulated host. The engine is made
here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overlay.ring import from_wire
from overlay.roster.roster import Roster
from overlay.stack import OverlayNode
from overlay.transport import MessageHost, open_messenger
from pier_node.access.rates import Hold, RateLimits
from pier_node.access.tokens import TokenBook
from pier_node.config import Config
from pier_node.engine.published import LoadJournal
from pier_node.engine.result_log import LogLimits
from pier_node.engine.service import QueryService
from pier_node.engine.tables import NodeTables
from pier_node.node_service import ComposedService
from pier_node.overlay_service import OverlayFacts
from pier_node.protocol.liveness import LivenessLimits
from pier_node.protocol.server import ServerLimits
from pier_node.security import Credentials
from pier_node.server import ClientServer, ServerOptions
from pier_node.service import NodeStatus
from pier_node.session import SessionJournal
from pier_node.session_limits import SessionLimits
from query.engine.node import NODE_MESSAGES, EngineNode
from runtime.api import Runtime
from runtime.message import Codec


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """Which keys a node has taken up: what whoever rotates them waits for."""

    #: Keys that open, and the id of the one that seals.
    ring: int
    seals: str
    tokens: int


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What a node is made of."""

    messenger: MessageHost
    overlay: OverlayNode
    roster: Roster
    engine: EngineNode
    tables: NodeTables
    server: ClientServer
    #: Figures of every part, by name.
    snapshots: Callable[[], dict[str, object]]
    status: Callable[[], NodeStatus]


def build_node(
    runtime: Runtime,
    config: Config,
    credentials: Credentials,
    journal: SessionJournal,
    describe: Callable[[NodeStatus], NodeStatus],
    figures: Callable[[], dict[str, Any]] = dict,
    services: dict[str, Any] | None = None,
    release: str = "",
    loads: LoadJournal | None = None,
) -> NodeParts:
    """`describe` adds what only the process knows to a status, `figures` what it knows of its sources and runtime;
    `services` are for operators that read files and databases; `release` is what peers are told of this node; what
    it has published before stands in `loads`."""
    messenger = open_messenger(
        runtime,
        Codec(NODE_MESSAGES),
        config.transport,
        credentials.keyring,
        identity=credentials.identity,
        node_id=credentials.node_id,
        release=release,
    )
    messenger.revoke(credentials.revoked)
    overlay = OverlayNode(
        runtime, messenger, from_wire(credentials.node_id), config.overlay_config(), messenger.peer_id
    )
    assert overlay.roster is not None
    tables = NodeTables()
    most = config.client.memory_bytes_max
    engine = EngineNode(runtime, overlay, tables, services, client_memory_bytes_max=most)

    def snapshots() -> dict[str, object]:
        return {
            "overlay": overlay.statistics(),
            "transport": messenger.statistics(),
            "clients": server.statistics(),
            "queries": queries.statistics(),
            "keys": KeyFigures(messenger.keys_held, messenger.seals_with.hex(), server.tokens_known),
            **figures(),
            "staging": queries.staging.statistics(),
            "loads": queries.published.statistics(),
            "logs": queries.logs.statistics(),
        }

    queries = QueryService(
        runtime, engine, config.limits, config.client.staged_bytes_max, loads, log_limits(config)
    )
    facts = OverlayFacts(
        runtime, overlay.router, overlay.dht, describe, snapshots, overlay.spread, overlay.roster
    )
    server = ClientServer(
        runtime,
        ComposedService(facts, queries),
        credentials.node_id.hex(),
        server_options(config, credentials.tokens),
        journal,
    )
    queries.published.restore(server.may_publish, lambda: overlay.router.joined)
    return NodeParts(messenger, overlay, overlay.roster, engine, tables, server, snapshots, facts.brief)


def server_options(config: Config, tokens: TokenBook | None) -> ServerOptions:
    client = config.client
    liveness = LivenessLimits(client.hello_timeout_s, client.ping_after_s, client.gone_after_s)
    machine = ServerLimits(
        client.requests_max, client.backlog_bytes_max, client.feed_credit_bytes, liveness=liveness
    )
    session = SessionLimits(
        machine,
        client.connection_backlog_bytes_max,
        client.reader_stall_s,
        client.call_s_max,
        client.publish_s_max,
    )
    holds_max = {
        Hold.CONNECTIONS: client.connections_per_client_max,
        Hold.QUERIES: client.queries_max,
        Hold.PUBLICATIONS: client.publications_max,
        Hold.LOGS: client.logs_max,
        Hold.LOG_BYTES: client.logs_bytes_max,
        Hold.STAGED_BYTES: client.staged_bytes_per_client_max,
        Hold.BACKLOG_BYTES: client.backlog_bytes_per_client_max,
        Hold.INPUT_BYTES: client.input_bytes_per_client_max,
    }
    rates = RateLimits(client.requests_per_s, client.request_burst, client.publish_bytes_per_s, holds_max)
    return ServerOptions(client.connections_max, tokens, client.connections_per_address_max, rates, session)


def log_limits(config: Config) -> LogLimits:
    client = config.client
    return LogLimits(
        client.logs_total_max, client.log_bytes_max, client.logs_total_bytes_max, client.log_lease_s_max
    )
