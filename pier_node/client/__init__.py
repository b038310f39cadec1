"""The client library: `connect` for trio programs, `pier_node.client.sync` for scripts."""

from pier_node.client.connection import DEFAULT_PORT, Connection, connect
from pier_node.client.errors import (
    ConnectFailed,
    ConnectionLost,
    LimitReached,
    NodeFault,
    PierError,
    QueryRejected,
    Refused,
    RequestFailed,
    Unavailable,
)
from pier_node.client.requests import Answer, Feed, Piece
from pier_node.protocol.messages import Account, Limits, Progress

__all__ = [
    "DEFAULT_PORT",
    "Account",
    "Answer",
    "ConnectFailed",
    "Connection",
    "ConnectionLost",
    "Feed",
    "LimitReached",
    "Limits",
    "NodeFault",
    "Piece",
    "PierError",
    "Progress",
    "QueryRejected",
    "Refused",
    "RequestFailed",
    "Unavailable",
    "connect",
]
