"""One member as the roster has it: what it says of itself, and how it stands.

A member speaks for itself: `life` rises with each of its starts, `word` with each time it speaks in that life. Others
may only say, of the last thing it said, that it is lost or retired; it contradicts by speaking again. So of two
records the one with the greater (life, word, standing) is the newer, and all copies end up with it in whatever order
they come.
"""

from __future__ import annotations

import enum
from hashlib import blake2b
from typing import Annotated, TypeAlias

import msgspec

from runtime.message import Part, WireAddress, WireId

#: Bounds of what a member says of itself: a host name, a version, a fingerprint, the name of a table.
HOST_CHARS_MAX = 255
WORD_CHARS_MAX = 64
TABLE_CHARS_MAX = 128
#: Tables named; a member with more says so, and may then have any.
TABLES_MAX = 64
#: A member's mark: what two nodes compare to see whether they have the same record of it.
MARK_BYTES = 8

Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=HOST_CHARS_MAX)]
Word: TypeAlias = Annotated[str, msgspec.Meta(max_length=WORD_CHARS_MAX)]
Tables: TypeAlias = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=TABLE_CHARS_MAX)], ...],
    msgspec.Meta(max_length=TABLES_MAX),
]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Standing(enum.IntEnum):
    """How a member stands, the stronger word last."""

    #: As it said itself; whether it is on the ring this moment, a spread tells.
    HERE = 0
    #: Its neighbours miss it. It is expected all the same.
    LOST = 1
    #: It said goodbye.
    LEFT = 2
    #: Somebody with the right to say so does not expect it any more.
    RETIRED = 3

    @property
    def expected(self) -> bool:
        return self <= Standing.LOST


class Member(Part, frozen=True):
    """A record. Times travel as ages: no two nodes' clocks are compared."""

    id: WireId
    address: WireAddress
    life: Count
    word: Count
    standing: Standing = Standing.HERE
    #: Seconds since it has stood so.
    age_s: Count = 0
    host: Text = ""
    version: Word = ""
    #: A fingerprint of its certificate; empty where ids are not certified.
    certificate: Word = ""
    #: Tables of its own that it brings, and whether there are more than are named.
    tables: Tables = ()
    more_tables: bool = False

    @property
    def rank(self) -> tuple[int, int, int]:
        return self.life, self.word, self.standing

    def mark(self) -> bytes:
        text = self.id + b"%d.%d.%d" % self.rank
        return blake2b(text, digest_size=MARK_BYTES).digest()


class Profile(msgspec.Struct, frozen=True):
    """What a node says of itself."""

    host: str = ""
    version: str = ""
    certificate: str = ""
    tables: tuple[str, ...] = ()


def described(member: Member, profile: Profile) -> Member:
    """The record of a member that says this of itself, within bounds. A name that is too long cannot be told, and so
    it counts among the tables that are not named."""
    named = [table for table in profile.tables if len(table) <= TABLE_CHARS_MAX][:TABLES_MAX]
    return msgspec.structs.replace(
        member,
        host=profile.host[:HOST_CHARS_MAX],
        version=profile.version[:WORD_CHARS_MAX],
        certificate=profile.certificate[:WORD_CHARS_MAX],
        tables=tuple(named),
        more_tables=len(named) < len(profile.tables),
    )
