"""What travels along the edges of spreads and distribution trees. Message tags 70-89."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from overlay.ring import NodeRef, WireArc
from runtime.message import Message, Part, WireId, WireMillis, WireNumber

#: A question and its plan; larger things belong into the DHT and are named here.
PAYLOAD_BYTES_MAX = 4 << 20
#: Depth of a tree of arcs: five for a million nodes with sixteen children each, far more where routing tables are
#: still empty and only ring neighbours are known.
DEPTH_MAX = 255
#: Nodes named in an account; beyond that they are only counted.
NAMED_MAX = 64
#: Nodes counted in an account: a peer that has more to tell of makes no sense, and sums stay below it.
NODES_MAX = 1 << 32

SpreadId: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
Body: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
Topic: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
#: A node id, or nothing.
MaybeId: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=20)]
Nodes: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NODES_MAX)]
#: The place in the order of trees over the same nodes: see `overlay.spread.spread`.
Version: TypeAlias = Annotated[tuple[WireNumber, ...], msgspec.Meta(min_length=1, max_length=DEPTH_MAX)]
Named: TypeAlias = Annotated[tuple[WireId, ...], msgspec.Meta(max_length=NAMED_MAX)]


class WireMissing(Part, frozen=True):
    """A node that somebody above tried in vain."""

    node: NodeRef
    #: It had acknowledged the message.
    received: bool
    #: It is given up; else it is only silent, and to be asked by whoever has nobody else for its place.
    gone: bool
    silent_ms: WireMillis = 0


class WireAccount(Part, frozen=True):
    received: Nodes = 0
    answered: Nodes = 0
    failed: Nodes = 0
    unreachable: Nodes = 0
    uncovered: Nodes = 0
    failed_nodes: Named = ()
    unreachable_nodes: Named = ()
    absent: Nodes = 0
    absent_nodes: Named = ()


class SpreadDown(Message, frozen=True, tag=70):
    """Take part in this spread for the nodes of `part`, and answer to the sender."""

    spread: SpreadId
    version: Version
    topic: Topic
    part: WireArc
    root: NodeRef
    parent: NodeRef
    payload: Body
    missing: Annotated[tuple[WireMissing, ...], msgspec.Meta(max_length=NAMED_MAX)] = ()
    #: Whom the part was given: another node may have its address by now, and must not answer in its name.
    to: MaybeId = b""
    #: How long ago the spread began, the time on the wire left out.
    age_ms: WireMillis = 0


class SpreadDone(Message, frozen=True, tag=71):
    """My part is complete: this is the combined reply and who gave it."""

    spread: SpreadId
    version: Version
    account: WireAccount
    reply: Body | None = None


class SpreadUp(Message, frozen=True, tag=72):
    """Something for the parent before the end."""

    spread: SpreadId
    version: Version
    body: Body


class SpreadInto(Message, frozen=True, tag=73):
    """Something for a child, after the beginning."""

    spread: SpreadId
    version: Version
    body: Body


class SpreadDetach(Message, frozen=True, tag=74):
    """I am no child of yours: I do not know this spread, or belong to a newer tree of it."""

    spread: SpreadId
    version: Version
    #: The second reason: the tree you build is out of date.
    newer: bool = False
    #: Who says so: if it is not the child, then the child is gone from this address.
    by: MaybeId = b""


class SpreadEnd(Message, frozen=True, tag=76):
    """The root wants no more of this spread; pass it on."""

    spread: SpreadId
    version: Version


class SpreadWait(Message, frozen=True, tag=75):
    """I am still waiting for you in these spreads; tell me if you are not at work on one."""

    edges: Annotated[tuple[tuple[SpreadId, Version], ...], msgspec.Meta(max_length=4096)]


class TreeRegister(Message, frozen=True, tag=80):
    """I am a child of whoever sees this first, in that tree (PIER 3.3.3)."""

    tree: WireNumber
    child: NodeRef


class TreeBroadcast(Message, frozen=True, tag=81):
    """To the root of a tree, and then down it."""

    tree: WireNumber
    origin: NodeRef
    sequence: WireNumber
    topic: Topic
    payload: Body


SPREAD_MESSAGES: tuple[type[Message], ...] = (
    SpreadDown, SpreadDone, SpreadUp, SpreadInto, SpreadDetach, SpreadEnd, SpreadWait,
    TreeRegister, TreeBroadcast,
)  # fmt: skip
