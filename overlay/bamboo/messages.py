"""What Bamboo nodes say to each other. Tags 1-19; ids are 20 bytes here and ints inside a node."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

import msgspec

from overlay.ring import NodeRef, WireArc
from runtime.message import Message, Part, WireCount, WireId, WireNumber

#: A list of nodes longer than this is not from an honest node: three rows of a table are 45.
REFS_MAX = 256
#: A route of log16 N hops plus detours; 40 digits make a path of 40 at the very worst.
HOPS_MAX = 40

Refs: TypeAlias = Annotated[tuple[NodeRef, ...], msgspec.Meta(max_length=REFS_MAX)]
#: Bytes of an id that stand for it in `Leaves`: the last ones, since neighbours share the first.
MARK_BYTES = 4
Marks: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MARK_BYTES * REFS_MAX)]
Reach: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
#: As many as one hop tries.
SILENT_MAX = 8
Silent: TypeAlias = Annotated[tuple[WireId, ...], msgspec.Meta(max_length=SILENT_MAX)]
Hops: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=HOPS_MAX)]
Level: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=39)]
Seconds: TypeAlias = Annotated[float, msgspec.Meta(ge=0.0, le=1e9)]


class Hop(Message, frozen=True, tag=1):
    """A message on its way to the owner of `key`. `payload` is another message: the object itself inside one
    process, its array form after decoding, which a hop that has no business with it passes on as it is."""

    key: WireId
    origin: NodeRef
    via: WireId
    sequence: WireNumber
    hops: Hops
    receipt: bool
    payload: Any
    #: Nodes found silent on the way: the next hop doubts them too, and looks.
    silent: Silent = ()
    #: The origin has sent it before and got no answer.
    again: bool = False


class Receipt(Message, frozen=True, tag=2):
    """To the origin: the message was delivered, or stopped by an upcall."""

    sequence: WireNumber


class Find(Message, frozen=True, tag=3):
    """Payload of a lookup."""

    token: WireNumber


class Found(Message, frozen=True, tag=4):
    """The owner's answer, straight to whoever looked."""

    token: WireNumber
    id: WireId
    arc: WireArc


class Ping(Message, frozen=True, tag=5):
    """`placed`: whether the sender may be taken for a neighbour; a node that only looks for its place may not.
    `leaf`: whether it takes the receiver for a leaf, and is likely to be one of the receiver's."""

    id: WireId
    token: WireNumber
    placed: bool
    leaf: bool = False


class Pong(Message, frozen=True, tag=6):
    id: WireId
    token: WireNumber


class Leaves(Part, frozen=True):
    """A leaf set in short: the last bytes of each id, and how far it reaches on each side (the upper 64 bits of
    the distance; all ones where a side is not full). Enough to see what the other lacks."""

    marks: Marks
    after: Reach
    before: Reach
    #: Nodes the sender knows in all: the ring has more.
    known: WireCount


class LeafAsk(Message, frozen=True, tag=7):
    """Push half of a leaf-set exchange. A joining node first only asks, then announces itself."""

    id: WireId
    token: WireNumber
    announce: bool
    leaves: Leaves


class LeafReply(Message, frozen=True, tag=8):
    """Pull half: what the asker lacks. `placed`: the sender holds the asker in its leaf set, or would if a scout
    announced itself; if not, others stand between them. `stranger`: it did not know the asker until just now."""

    id: WireId
    token: WireNumber
    joined: bool
    placed: bool
    missing: Refs
    leaves: Leaves
    stranger: bool = False


class LeafTell(Message, frozen=True, tag=16):
    """What the replier turned out to lack."""

    missing: Refs


class RowAsk(Message, frozen=True, tag=9):
    """Asks for the rows of the routing table from `low` to `high`, both included."""

    low: Level
    high: Level


class RowReply(Message, frozen=True, tag=10):
    nodes: Refs


class JoinAsk(Message, frozen=True, tag=11):
    """To a gateway: route a join for me."""

    id: WireId


class Join(Message, frozen=True, tag=12):
    """Payload of a routed join; each hop appends itself."""

    joiner: NodeRef
    path: Refs


class JoinReply(Message, frozen=True, tag=13):
    """From the node closest to the joiner: the path, itself last, and its leaf set."""

    path: Refs
    leaves: Refs
    session_s: Seconds


class Leaving(Message, frozen=True, tag=14):
    """A graceful goodbye, with the leaves that close the gap. `whole`: everything in the arc was handed over before."""

    id: WireId
    leaves: Refs
    whole: bool = True


class Down(Message, frozen=True, tag=15):
    """From an immediate neighbour of a node that fell silent. Nobody believes it; everybody looks."""

    node: NodeRef


MESSAGES: tuple[type[Message], ...] = (
    Hop,
    Receipt,
    Find,
    Found,
    Ping,
    Pong,
    LeafAsk,
    LeafReply,
    LeafTell,
    RowAsk,
    RowReply,
    JoinAsk,
    Join,
    JoinReply,
    Leaving,
    Down,
)
