"""What nodes say to each other to get a message around a broken path. Tags 90-97.

origin                     relay                      target
  RelayAsk  target   --->
                             RelayTry  origin   --->
                                                <---    RelayTried
                     <---    RelayFound
  Relay     message  --->    Relayed   message  --->    the handler, as if it had come straight
                     <---    RelayNotice, when the target's transport has acknowledged or is given up
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from runtime.message import Message, WireAddress, WireNumber

#: The largest message that the transport takes, less what a relay adds around it.
RELAYED_BYTES_MAX = 16 * 1024 * 1024 - 1_024
Payload: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=RELAYED_BYTES_MAX)]
#: The node id that the relay's transport has for the origin; empty where transports know none.
ProvenId: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=20)]


class RelayAsk(Message, frozen=True, tag=90):
    """Do you reach this node? I do not."""

    token: WireNumber
    target: WireAddress


class RelayTry(Message, frozen=True, tag=91):
    """Somebody reaches you through me."""

    token: WireNumber
    origin: WireAddress
    id: ProvenId = b""


class RelayTried(Message, frozen=True, tag=92):
    token: WireNumber


class RelayFound(Message, frozen=True, tag=93):
    token: WireNumber


class Relay(Message, frozen=True, tag=94):
    """To be passed on, as it is, to a node for which the sender has found this one."""

    #: Zero: only a failure is to be told.
    call: WireNumber
    to: WireAddress
    payload: Payload


class Relayed(Message, frozen=True, tag=95):
    origin: WireAddress
    payload: Payload
    id: ProvenId = b""


class RelayNotice(Message, frozen=True, tag=96):
    """What became of a message that was to be passed on."""

    call: WireNumber
    to: WireAddress
    arrived: bool


class DirectTry(Message, frozen=True, tag=97):
    """Is the straight path open again? Its acknowledgement is the answer."""


RELAY_MESSAGES: tuple[type[Message], ...] = (
    RelayAsk,
    RelayTry,
    RelayTried,
    RelayFound,
    Relay,
    Relayed,
    RelayNotice,
    DirectTry,
)
