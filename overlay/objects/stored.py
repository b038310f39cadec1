"""One object as a node keeps it, and what a node says when it is offered one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from overlay.objects.name import Name


class Role(enum.IntEnum):
    """Why this node holds an object."""

    #: Because it owns the object's routing id, or did until the ring changed and the object has not moved yet.
    PRIMARY = 0
    #: For its owner's sake: a replica, or what stayed behind after a move. First to go when memory is short.
    COPY = 1
    #: Because somebody named this node by its address; ownership does not matter.
    PINNED = 2


class Outcome(enum.Enum):
    """What became of an offered object."""

    STORED = "stored"
    REPLACED = "replaced"
    #: The same value again: only its life is extended.
    SAME = "same"
    #: A younger object of that name is already here; the offered one is not needed.
    SUPERSEDED = "superseded"
    FULL = "full"
    TOO_LARGE = "too large"

    @property
    def kept(self) -> bool:
        return self not in (Outcome.FULL, Outcome.TOO_LARGE)


@dataclass(slots=True, eq=False)
class StoredObject:
    """Only the store changes it; a replacement changes it in place and gives it a new serial."""

    name: Name
    #: Routing id.
    id: int
    value: bytes
    #: When the publisher let go of this value, by this node's clock: younger wins over older.
    put_at: float
    expires_at: float
    #: When this content was first put anywhere, by this node's clock: handovers, copies and renewals do not change it.
    born_at: float
    #: The publisher's mark on this value; a renewal names the value it means.
    version: int
    #: How many replicas the publisher asked for beside the primary.
    copies: int
    role: Role
    #: State of a query (CAN 4): short-lived, never renewed, never replicated.
    temporary: bool
    #: The load it is part of and with which it will be shown; nothing when it is to be seen.
    load: str = ""
    #: It came from another node that had it before: its birth is known as well as an age can travel.
    moved: bool = False
    #: Counts changes of the store; tells a scan what was there before it began.
    serial: int = 0
    #: Where `ExpiryBuckets` keeps it.
    bucket: int = 0
