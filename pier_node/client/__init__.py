"""The client library: `connect` for trio programs, `pier_node.client.sync` for scripts."""

from pier_node.client.connection import DEFAULT_PORT, Connection, connect
from pier_node.client.errors import (
    AnswerCancelled,
    AnswerFailed,
    AnswerIncomplete,
    AnswerLimited,
    AnswerPartial,
    ConnectFailed,
    ConnectionLost,
    Forbidden,
    LimitReached,
    NodeFault,
    PierError,
    QueryRejected,
    Refused,
    RequestFailed,
    Unavailable,
    UnknownTable,
)
from pier_node.client.requests import Answer, Feed, Piece
from pier_node.protocol.messages import Account, Limits, Progress

__all__ = [
    "DEFAULT_PORT",
    "Account",
    "Answer",
    "AnswerCancelled",
    "AnswerFailed",
    "AnswerIncomplete",
    "AnswerLimited",
    "AnswerPartial",
    "ConnectFailed",
    "Connection",
    "ConnectionLost",
    "Feed",
    "Forbidden",
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
    "UnknownTable",
    "connect",
]
