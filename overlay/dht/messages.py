"""What nodes say to each other about objects: puts, gets, renewals, sends, and the moving of arcs.

Requests carry a call number of the asker's; replies repeat it. Times are ages and remainders in whole
milliseconds, never instants. Message tags 50-69.
"""

from __future__ import annotations

import enum
from typing import Annotated, TypeAlias

import msgspec

from overlay.ring import NodeRef, WireArc
from runtime.message import Message, Part, WireCount, WireId, WireMillis, WireNumber

#: Namespaces, keys and suffixes: long enough for any key made of a few columns.
NAME_CHARS_MAX = 1024
#: One value; a store takes less, and says so.
VALUE_BYTES_MAX = 12 << 20
#: Arcs in the answer to a claim.
WHOLE_MAX = 16
#: Objects in one message; the byte bound of the sender is usually met first.
ITEMS_MAX = 65_536

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
Load: TypeAlias = Annotated[str, msgspec.Meta(max_length=64)]
Copies: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=16)]


class Code(enum.IntEnum):
    """How an operation on one object ended; the first six travel, one byte each, the others are this node's own."""

    OK = 0
    #: The node asked does not own the id; the reply says what it knows. Never reaches a caller.
    NOT_MINE = 1
    #: The owner's store is full.
    FULL = 2
    #: The value is larger than the owner takes.
    TOO_LARGE = 3
    #: Renewal of an object, or of a version of it, that the owner does not have.
    UNKNOWN = 4
    #: The node is joining or leaving; ask again.
    BUSY = 5
    #: No owner answered within the attempts.
    UNREACHED = 6
    #: This node has too many operations under way.
    LIMIT = 7
    #: Its namespace, key or suffix is longer than any node reads (`NAME_CHARS_MAX`).
    LONG_NAME = 8


class Cause(enum.IntEnum):
    """Why an object is handed to a node."""

    PUT = 0
    #: Its arc moved here.
    MOVED = 1
    #: It is a replica.
    COPY = 2
    #: Sent by way of the router, not put.
    SENT = 3


class Item(Part, frozen=True):
    """One object under way."""

    id: WireId
    namespace: Text
    key: Text
    suffix: Text
    value: bytes
    #: What is left of it.
    lifetime_ms: WireMillis
    #: How long ago the publisher let go of it.
    age_ms: WireMillis = 0
    version: WireNumber = 0
    copies: Copies = 0
    temporary: bool = False
    #: The load it is part of, as long as nobody is to see it.
    load: Load = ""
    #: How long ago this content was first put, by whoever published it.
    born_ms: WireMillis = 0


class WireOwner(Part, frozen=True):
    node: NodeRef
    arc: WireArc


Items: TypeAlias = Annotated[tuple[Item, ...], msgspec.Meta(max_length=ITEMS_MAX)]
Owners: TypeAlias = Annotated[tuple[WireOwner, ...], msgspec.Meta(max_length=1024)]
Codes: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=ITEMS_MAX)]


class Put(Message, frozen=True, tag=50):
    call: WireNumber
    items: Items
    cause: Cause = Cause.PUT
    #: Addressed to this very node: store whether or not the id is owned.
    anyhow: bool = False


class PutReply(Message, frozen=True, tag=51):
    call: WireNumber
    #: A `Code` for each item, in order.
    codes: Codes
    #: Who does own what was not mine, as far as known.
    owners: Owners = ()


class Want(Part, frozen=True):
    """What to read: everything under a key, one suffix of it, or what comes after a suffix."""

    id: WireId
    namespace: Text
    key: Text
    suffix: Text | None = None
    after: Text | None = None


class Get(Message, frozen=True, tag=52):
    call: WireNumber
    wants: Annotated[tuple[Want, ...], msgspec.Meta(max_length=ITEMS_MAX)]
    anyhow: bool = False


class Found(Part, frozen=True):
    suffix: Text
    value: bytes
    lifetime_ms: WireMillis
    age_ms: WireMillis = 0


class Answer(Part, frozen=True):
    code: Code
    found: Annotated[tuple[Found, ...], msgspec.Meta(max_length=ITEMS_MAX)] = ()
    #: There is more after the last suffix: ask again with `after`.
    more: bool = False
    #: The node is sure of its arc and of having all there is in it; else something may be missing.
    sure: bool = True
    #: Whether objects that nodes make from others, as entries of an index, are all there as well.
    settled: bool = True


class GetReply(Message, frozen=True, tag=53):
    call: WireNumber
    answers: Annotated[tuple[Answer, ...], msgspec.Meta(max_length=ITEMS_MAX)]
    owners: Owners = ()


class Renewal(Part, frozen=True):
    id: WireId
    namespace: Text
    key: Text
    suffix: Text
    #: Nothing: the object ends now.
    lifetime_ms: WireMillis
    version: WireNumber | None = None
    #: As of an item; nothing: it is to be seen from now on.
    load: Load = ""


class Renew(Message, frozen=True, tag=54):
    call: WireNumber
    renewals: Annotated[tuple[Renewal, ...], msgspec.Meta(max_length=ITEMS_MAX)]
    anyhow: bool = False


class RenewReply(Message, frozen=True, tag=55):
    call: WireNumber
    codes: Codes
    owners: Owners = ()


class Send(Message, frozen=True, tag=56):
    """Objects of one routing id on their way hop by hop, seen by upcalls."""

    serial: WireNumber
    items: Items


class SendTo(Message, frozen=True, tag=57):
    """Objects sent straight to an address."""

    items: Items


class MultiSend(Message, frozen=True, tag=59):
    """Objects for many ids inside one arc of node positions; each node passes on what is not its own."""

    serial: WireNumber
    origin: NodeRef
    arc: WireArc
    items: Items
    #: The origin wants to be told of deliveries.
    receipts: bool = False


class MultiSendReceipt(Message, frozen=True, tag=60):
    serial: WireNumber
    delivered: WireCount
    failed: WireCount = 0


class MultiSendOne(Message, frozen=True, tag=61):
    """The last step of a multi-send whose owner lies outside the arc in which it was looked for."""

    serial: WireNumber
    origin: NodeRef
    item: Item
    receipts: bool = False


class Claim(Message, frozen=True, tag=62):
    """I own this arc now; send me what you hold of it."""

    call: WireNumber
    arc: WireArc


class Claimed(Message, frozen=True, tag=63):
    """That was all I hold of the arc you claimed."""

    call: WireNumber
    objects: WireCount
    #: Parts of it that were mine until you came, with everything in them.
    whole: Annotated[tuple[WireArc, ...], msgspec.Meta(max_length=WHOLE_MAX)] = ()


def refusal(item: Item | Want | Renewal) -> Code | None:
    """Why nobody could read this item; None when it can travel. Asked of each before it shares a message with others,
    because a receiver that cannot read one item of a message reads none."""
    suffix = item.suffix
    if (
        len(item.namespace) > NAME_CHARS_MAX
        or len(item.key) > NAME_CHARS_MAX
        or (suffix is not None and len(suffix) > NAME_CHARS_MAX)
    ):
        return Code.LONG_NAME
    if isinstance(item, Item) and len(item.value) > VALUE_BYTES_MAX:
        return Code.TOO_LARGE
    return None


def name_bytes(item: Item | Want | Renewal) -> int:
    """About what the names of an item take in a message."""
    return len(item.namespace) + len(item.key) + len(item.suffix or "")


DHT_MESSAGES: tuple[type[Message], ...] = (
    Put, PutReply, Get, GetReply, Renew, RenewReply, Send, SendTo,
    MultiSend, MultiSendReceipt, MultiSendOne, Claim, Claimed,
)  # fmt: skip
