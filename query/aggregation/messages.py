"""What nodes say to each other while states come together. Tags 140-149."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from query.aggregation.share import STEPS_MAX
from query.causes import WireCauses
from runtime.message import Message, WireAddress

#: One partial state; what is larger belongs to a rehash.
STATE_BYTES_MAX = 1 << 20
#: A tree is never that high: 64 children a node make a million nodes in four.
HEIGHT_MAX = 64
#: Nodes, epochs, milliseconds: what is larger is nonsense, and sums stay below it.
COUNT_MAX = 1 << 40

SessionId: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Steps: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=STEPS_MAX)]
Height: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=HEIGHT_MAX)]
State: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=STATE_BYTES_MAX)]
Age: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class Psr(Message, frozen=True, tag=140):
    """A partial state of some nodes for one epoch. `state` is empty for nodes that had nothing."""

    session: SessionId
    epoch: Count
    #: Who made it: the node itself, or the last that combined it.
    sender: WireAddress
    #: How many nodes' data is in it; a later one of the same sender and epoch has others.
    nodes: Count
    state: State
    #: Milliseconds since the oldest of its data was read, time on the network left out: ages need no common clock.
    age_ms: Count = 0
    #: The sender's height in the tree, and how many more children its part of it could take.
    height: Height = 0
    free: Count = 0
    #: The sender's number for it: what is sent again because it seemed lost is counted once.
    sequence: Count = 0
    #: What the epoch lacks of the nodes that it came by.
    causes: WireCauses = {}
    #: What of the ring the nodes in it answered for (`share`).
    steps: Steps = 0


class Redirect(Message, frozen=True, tag=142):
    """I have children enough: send the next to that one."""

    session: SessionId
    parent: WireAddress


class Clock(Message, frozen=True, tag=141):
    """You are behind: by my count the aggregation began so long ago."""

    session: SessionId
    age_ms: Count


class EpochResult(Message, frozen=True, tag=143):
    """The combined state of an epoch, from a root to the asker. One with a higher `revision` replaces it."""

    session: SessionId
    epoch: Count
    revision: Count
    nodes: Count
    state: State
    age_ms: Count = 0
    #: What the epoch lacks, as far as the nodes that it came by know.
    causes: WireCauses = {}
    steps: Steps = 0


AGGREGATION_MESSAGES: tuple[type[Message], ...] = (Psr, Clock, Redirect, EpochResult)
