"""What can go wrong for a client.

PierError
├── ConnectFailed       the node could not be reached, or does not let us in
├── ConnectionLost      it hung up, or went silent
└── RequestFailed       one request failed; `kind`, `hint` and, for queries, `position` and `account`
    ├── QueryRejected   the query's text is at fault: syntax, plan, unknown_table, unsupported
    ├── LimitReached    a budget or a bound; the message names it
    ├── Refused         not allowed, or not there
    ├── Unavailable     the node cannot do this, or not now
    └── NodeFault       an error inside the node
"""

from __future__ import annotations

from pier_node.protocol.messages import Account, Failed, Position


class PierError(Exception):
    """Base of everything this client raises on its own account."""


class ConnectFailed(PierError):
    """The node could not be reached, or does not let us in."""


class ConnectionLost(PierError):
    """The connection ended with requests open."""


class RequestFailed(PierError):
    """A request failed; the node's own words."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.kind: str = failed.kind
        self.message: str = failed.message
        self.hint: str = failed.hint
        self.position: Position | None = failed.position
        self.account: Account | None = failed.account


class QueryRejected(RequestFailed):
    """The query's text is at fault."""


class LimitReached(RequestFailed):
    """A budget or a bound."""


class Refused(RequestFailed):
    """Not allowed, or not there."""


class Unavailable(RequestFailed):
    """The node cannot do this, or not now."""


class NodeFault(RequestFailed):
    """An error inside the node."""


_BY_KIND: dict[str, type[RequestFailed]] = {
    "syntax": QueryRejected,
    "plan": QueryRejected,
    "unknown_table": QueryRejected,
    "unsupported": QueryRejected,
    "limit": LimitReached,
    "refused": Refused,
    "unavailable": Unavailable,
    "internal": NodeFault,
}


def error_of(failed: Failed) -> RequestFailed:
    return _BY_KIND.get(failed.kind, RequestFailed)(failed)
