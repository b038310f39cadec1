"""Whose fault it is when two ends of a connection disagree.

ProtocolError
├── RemoteProtocolError   the peer broke the rules: say so, hang up, count it
│   └── UnfitRequest      what it sent for one request cannot be used: that request ends, the others go on
└── LocalProtocolError    our caller used the machine wrongly: a bug on this side
"""

from __future__ import annotations


class ProtocolError(Exception):
    """Base of both families."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something that no well-behaved peer sends."""


class UnfitRequest(RemoteProtocolError):
    """Well framed, and about one request, which it ends: a name that is too long, rows that are none."""


class LocalProtocolError(ProtocolError):
    """This side asked its own machine for something the protocol does not allow."""
