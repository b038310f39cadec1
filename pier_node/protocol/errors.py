"""Whose fault it is when two ends of a connection disagree.

ProtocolError
├── RemoteProtocolError   the peer broke the rules: say so, hang up, count it
└── LocalProtocolError    our caller used the machine wrongly: a bug on this side
"""

from __future__ import annotations


class ProtocolError(Exception):
    """Base of both families."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that no well-behaved peer sends."""


class LocalProtocolError(ProtocolError):
    """This side asked its own machine for something the protocol does not allow."""
