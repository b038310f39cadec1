"""What one connection may hold of a node, how long it may keep it waiting, and what sessions had to refuse or drop."""

from __future__ import annotations

from dataclasses import dataclass, field

from pier_node.protocol.server import ServerLimits


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """What one client may hold of a node, and how long it may keep it waiting."""

    machine: ServerLimits = field(default_factory=ServerLimits)
    #: Answer rows kept for all queries of one connection while its client does not read.
    backlog_bytes_max: int = 16 << 20
    #: How long an answer waits for its reader before it is given up. Long enough for a person with a pager.
    reader_stall_s: float = 600.0
    #: How long a question with one answer may take, and a publication or load from its last row on.
    call_s_max: float = 120.0
    publish_s_max: float = 3_600.0


@dataclass(slots=True)
class SessionCounters:
    """What all sessions of a node have in common: how often something had to be refused or dropped."""

    requests: int = 0
    requests_refused: int = 0
    stale_messages: int = 0
    #: Messages that ended one request because they could not be used, and replies the protocol had no room for.
    unfit_messages: int = 0
    unsaid: int = 0
    protocol_errors: int = 0
    service_errors: int = 0
    taps_dropped: int = 0
    answers_given_up: int = 0
    #: Requests that the node had not answered when their time was over.
    overdue: int = 0
