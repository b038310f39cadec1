"""What nodes say to each other about the roster. Tags 100-109."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from overlay.roster.member import MARK_BYTES, Member
from runtime.message import Message

#: Parts of the roster by id that are compared one by one: members of a ring of 1,000 are then 16 a part, and to compare
#: all marks costs 256 bytes.
BUCKETS = 64
BUCKET_BYTES = 4
#: Members in one message.
TOLD_MAX = 128
#: Marks in one message: as many members as a roster may have.
MARKS_MAX = 1 << 16

Marks: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=MARKS_MAX * MARK_BYTES)]


class RosterAsk(Message, frozen=True, tag=100):
    """My roster in one mark. Who has the same says nothing."""

    mark: Annotated[bytes, msgspec.Meta(min_length=MARK_BYTES, max_length=MARK_BYTES)]


class RosterParts(Message, frozen=True, tag=101):
    """Mine is another: this is a mark for each of its parts."""

    marks: Annotated[
        bytes, msgspec.Meta(min_length=BUCKETS * BUCKET_BYTES, max_length=BUCKETS * BUCKET_BYTES)
    ]


class RosterMarks(Message, frozen=True, tag=102):
    """The marks of all my members in the parts where we differ."""

    parts: Annotated[bytes, msgspec.Meta(max_length=BUCKETS)]
    marks: Marks


class RosterTell(Message, frozen=True, tag=103):
    """Members as I know them; and marks of those that I should like to be told."""

    members: Annotated[tuple[Member, ...], msgspec.Meta(max_length=TOLD_MAX)]
    wanted: Marks = b""


class Namesake(Message, frozen=True, tag=104):
    """To a node that has the sender's own id: when the sender's life began, by its clock."""

    began: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


ROSTER_MESSAGES: tuple[type[Message], ...] = (RosterAsk, RosterParts, RosterMarks, RosterTell, Namesake)
