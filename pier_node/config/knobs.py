"""Every knob of a node, in one tree, each with its trade-off. `docs/configuration.md` is made from this.

Sections of other layers (transport, overlay, query limits) are those layers' own dataclasses, so that a knob
is described once, where it works. Values come from a preset, then a TOML file, then PIER_... variables of the
environment, then flags; the last one wins (`load.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from overlay.bamboo.config import BambooConfig
from overlay.dht.verbs import DhtConfig
from overlay.objects.store import StoreLimits
from overlay.roster.config import RosterConfig
from overlay.spread.trees import TreesConfig
from overlay.stack import OverlayConfig
from overlay.transport.config import TransportConfig
from query.dataflow.budget import Limits


@dataclass(frozen=True, slots=True)
class NodeSection:
    """Where the node is, whom it joins, what data it brings."""

    #: Where the node listens for other nodes (UDP), as host:port; port 0 picks a free one. Anything but
    #: loopback needs a keyring.
    listen: str = "127.0.0.1:7700"
    #: What other nodes are told to reach it under, where that differs (NAT, containers). Empty: the address it
    #: listens on or, when it listens on every address (0.0.0.0, [::]), where the host's own name leads.
    advertise: str = ""
    #: Members to join through, as host:port; names are resolved again and again, and a name with several
    #: addresses is several members. Tried in turn, for ever, also by a member that has lost its ring. A node that
    #: is among them is a seed: it starts a ring when no other lets it in. None: the node starts a ring of its own.
    join: tuple[str, ...] = ()
    #: Where the node keeps who it is. Without it a restarted node is a new node, and what it owned moves twice.
    data_dir: str = ""
    #: A small JSON file with process id, addresses and node id, written when the node is up and removed when
    #: it goes; for scripts and `pier cluster`.
    state_file: str = ""
    #: Data the node brings, each as TABLE=KIND:PATH; kinds are firewall, csv, ndjson, parquet and sql.
    sources: tuple[str, ...] = ()
    #: Python files of the owner's that register aggregates of their own (docs/aggregates.md); run once at the start.
    #: A query can only name what is registered, so have the same on all nodes.
    aggregates: tuple[str, ...] = ()
    #: How long a leaving node waits for its neighbours to take over. Shorter stops faster and leaves more to
    #: repair.
    leave_timeout_s: float = 3.0


@dataclass(frozen=True, slots=True)
class ClientSection:
    """The door for clients (TCP)."""

    #: Where clients connect, as host:port; port 0 picks a free one; empty: no door. Anything but loopback
    #: needs TLS and a token.
    listen: str = "127.0.0.1:7701"
    #: Connections at a time; one more is refused and told so. Each may hold some 20 MB at worst.
    connections_max: int = 256
    #: Of these, connections from one address: one host cannot take all. Zero: no limit of its own.
    connections_per_address_max: int = 128
    #: Of these, connections of one client (by the name of its token, else by its address), wherever they come from.
    #: Here and below, zero: no limit; one too many is refused, told so, and counted under the client's name.
    connections_per_client_max: int = 128
    #: Queries of one client at once, over all its connections, those of its result logs among them.
    queries_max: int = 64
    #: State that all queries of one client hold on this node together, wherever they were asked; the one that goes over
    #: it is ended on this node. `limits.memory_bytes` is what one query may hold.
    memory_bytes_max: int = 768 << 20
    #: Publications of one client at once; each may have `feed_credit_bytes` on their way.
    publications_max: int = 64
    #: Result logs (docs/spark.md) that one client may keep at the node, and the bytes of their rows together.
    logs_max: int = 8
    logs_bytes_max: int = 256 << 20
    #: Of one log: rows that nobody released, before its query has to wait.
    log_bytes_max: int = 32 << 20
    #: The same for all clients together: logs, and their bytes.
    logs_total_max: int = 64
    logs_total_bytes_max: int = 1 << 30
    #: The longest time that a log is kept for a reader that does not ask for it.
    log_lease_s_max: float = 86_400.0
    #: Requests a second of one client, and how many more than that in one go.
    requests_per_s: float = 1_000.0
    request_burst: int = 2_000
    #: Bytes a second that one client may publish; beyond, the node takes them more slowly. Zero: no limit.
    publish_bytes_per_s: float = 0.0
    #: Requests open on one connection; one more is refused and told so.
    requests_max: int = 64
    #: Answer bytes kept for a reader that is behind, per query. More rides out longer pauses of the reader.
    backlog_bytes_max: int = 4 << 20
    #: The same for all queries of one connection together.
    connection_backlog_bytes_max: int = 16 << 20
    #: Bytes a publishing client may have on its way. More hides latency, less holds less memory.
    feed_credit_bytes: int = 4 << 20
    #: Answer bytes kept for readers that are behind, over all connections of one client.
    backlog_bytes_per_client_max: int = 64 << 20
    #: Bytes of messages that have not come whole yet, over all connections of one client; a connection beyond is ended.
    input_bytes_per_client_max: int = 128 << 20
    #: Rows of loads that wait to be settled (docs/spark.md), all clients together, and of one client. A load needs room
    #: for its rows on the nodes it goes to.
    staged_bytes_max: int = 256 << 20
    staged_bytes_per_client_max: int = 192 << 20
    #: How long the node may take over a question with one answer (tables, EXPLAIN, objects), and over a publication or
    #: load from its last row on. What takes longer is ended and told so: nobody waits for ever.
    call_s_max: float = 120.0
    publish_s_max: float = 3_600.0
    #: How long an answer waits for its reader before it is given up. Long enough for a person with a pager.
    reader_stall_s: float = 600.0
    #: A connection that has not introduced itself by then is closed: what stops a flood of idle ones.
    hello_timeout_s: float = 10.0
    #: A silent client is asked for a sign of life after the first, and given up after the second. Shorter
    #: ends the queries of vanished clients sooner.
    ping_after_s: float = 15.0
    gone_after_s: float = 45.0


@dataclass(frozen=True, slots=True)
class HttpSection:
    """Metrics, health and readiness (HTTP): /metrics, /health, /ready."""

    #: Where they are answered, as host:port; port 0 picks a free one; empty: nowhere. Plain HTTP without a token,
    #: and only figures and names are shown: loopback, or where your monitoring is and nobody else.
    listen: str = ""
    #: Connections at a time, and of these from one address. One more is let in all the same, and the one that has held
    #: the door open longest without asking is closed: /health answers whoever else is there.
    connections_max: int = 128
    connections_per_address_max: int = 64
    #: From the beginning of a connection to the end of its request; a connection that takes longer is closed.
    request_timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class SecuritySection:
    """Keys and certificates; `pier keys new` makes all of them in one directory."""

    #: A directory made by `pier keys new`; fills in every file below that is not named by itself.
    keys_dir: str = ""
    #: The cluster's keys for traffic between nodes. Without a keyring a node listens on loopback only.
    keyring: str = ""
    #: The public half of the authority that certifies node ids. A node that has it admits only certified
    #: nodes, and needs a certificate of its own: node.certificate in its data directory, from `pier keys
    #: certify`, or the authority's secret in `keys_dir`, with which it certifies itself.
    authority: str = ""
    #: TLS for clients: certificate chain and private key, PEM.
    tls_certificate: str = ""
    tls_key: str = ""
    #: The book of tokens (`pier keys new token`): who may ask, publish, administer. Without it and without
    #: `token_file`, whoever reaches the port may do everything, which loopback allows.
    tokens: str = ""
    #: A file with one word whose bearer administers, beside the book or in place of it.
    token_file: str = ""
    #: Node ids that are not let in any more (`pier keys revoke node`).
    revoked: str = ""
    #: How often keyring, tokens, revocations and TLS certificate are looked at for a change.
    keyring_check_s: float = 5.0


@dataclass(frozen=True, slots=True)
class OverlaySection:
    """Which overlay is at work, and the node's part in it."""

    #: The router; all nodes of a ring need the same.
    router: str = "bamboo"
    #: Whether the node registers in the distribution trees; without, broadcasts by tree do not reach it.
    in_trees: bool = True
    #: The largest batch of objects in one message. Larger saves headers, smaller lets other traffic in between.
    batch_bytes_max: int = 256 << 10


@dataclass(frozen=True, slots=True)
class LogSection:
    """What the node says on stderr."""

    #: `text` for people, `json` (one object a line) for collectors.
    format: Literal["text", "json"] = "text"
    #: The least important thing to say.
    level: Literal["debug", "info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True)
class Config:
    """A node's whole configuration."""

    node: NodeSection = field(default_factory=NodeSection)
    client: ClientSection = field(default_factory=ClientSection)
    http: HttpSection = field(default_factory=HttpSection)
    security: SecuritySection = field(default_factory=SecuritySection)
    log: LogSection = field(default_factory=LogSection)
    limits: Limits = field(default_factory=Limits)
    transport: TransportConfig = field(default_factory=TransportConfig)
    overlay: OverlaySection = field(default_factory=OverlaySection)
    bamboo: BambooConfig = field(default_factory=BambooConfig)
    store: StoreLimits = field(default_factory=StoreLimits)
    trees: TreesConfig = field(default_factory=TreesConfig)
    roster: RosterConfig = field(default_factory=RosterConfig)

    def overlay_config(self) -> OverlayConfig:
        """The sections that the overlay wants as one."""
        dht = DhtConfig(self.store, self.overlay.batch_bytes_max)
        return OverlayConfig(
            self.overlay.router, self.bamboo, dht, self.trees, self.overlay.in_trees, self.roster
        )


#: What each section is for, where its class is another layer's.
SECTION_DOCS = {
    "limits": "What one query may use on each node when its author names no limit, and the most anyone may name.",
    "transport": "Messages between nodes: UdpCC over UDP.",
    "bamboo": "The Bamboo ring: how eagerly a node looks after its neighbours.",
    "store": "Objects that this node keeps for the DHT.",
    "trees": "Distribution trees: how queries reach every node.",
    "roster": "Who belongs to the ring, so that answers can name who is missing (docs/members.md).",
}
