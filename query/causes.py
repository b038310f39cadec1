"""Why rows are not in an answer, or why it ended: values with their consequences, carried beside the words for people.

Whoever drops, refuses or gives up says it with one of these. What an answer may call itself follows from the causes
alone; texts are folded, cut and translated as one likes. The numbers travel between nodes: they are never given anew.
"""

from __future__ import annotations

import enum
from typing import Annotated, TypeAlias

import msgspec

from query.counts import Count, total


class Fault(enum.Enum):
    """Whose it is: who could do something about it."""

    #: Whoever wrote the query.
    AUTHOR = "author"
    #: The data: rows that do not fit the query.
    DATA = "data"
    #: A budget, of the query or of a node; the text names the knob.
    LIMIT = "limit"
    #: A host that is slow, silent or gone, or one that says nonsense.
    NODE = "node"
    #: The ring, between two states: asking again helps.
    RING = "ring"
    #: Whoever asked: cancelled, or read too slowly.
    CLIENT = "client"


class Cause(enum.Enum):
    """(number on the wire, whether the answer lacks rows that it should have, or has some too often, whose fault)."""

    #: Rows that lack a column or have another type than the query needs: left out by design, and counted.
    UNFIT = (1, False, Fault.DATA)
    #: Rows outside what the query asks for: too late for their window, without a time, beyond a duration.
    OUTSIDE = (2, False, Fault.DATA)
    #: A cause of a newer version than this one: it may be anything.
    UNKNOWN = (3, True, Fault.NODE)

    #: Rows that no node could be made to store.
    NOT_STORED = (10, True, Fault.RING)
    #: Rows for a node that could not be reached.
    NOT_DELIVERED = (11, True, Fault.NODE)
    #: Batches that were put and that no node has taken.
    NOT_TAKEN = (12, True, Fault.RING)
    #: Rows that went to a node that was not asked.
    STRANGER = (13, True, Fault.RING)
    #: Rows that could not be fetched from the node that keeps them.
    NOT_FETCHED = (14, True, Fault.NODE)
    #: Messages, objects or states of a peer that cannot be read.
    UNREADABLE = (15, True, Fault.NODE)
    #: Rows of a source that could not be read, or not in time.
    NOT_READ = (16, True, Fault.NODE)
    #: Rows that left to make room for others.
    CROWDED_OUT = (17, True, Fault.LIMIT)
    #: Epochs that the client was too slow for.
    READER_SLOW = (18, True, Fault.CLIENT)
    #: A limit of the query or of a node ended part of it.
    LIMIT = (19, True, Fault.LIMIT)
    #: The query was cancelled.
    CANCELLED = (20, True, Fault.CLIENT)
    #: A node gave up with an error.
    ERROR = (21, True, Fault.NODE)
    #: Rows or states that came when their epoch was over.
    TOO_LATE = (22, True, Fault.NODE)
    #: A table that no node which was heard has.
    UNKNOWN_TABLE = (23, True, Fault.AUTHOR)
    #: Epochs that were left out, because those before took too long.
    SKIPPED = (24, True, Fault.LIMIT)
    #: Rows or states that may be in an answer twice: two nodes have shown one part of a published table, or one that
    #: was taken for gone may have passed its states on.
    DOUBLED = (25, True, Fault.RING)
    #: Epochs that were over before it was known how many nodes there are.
    UNCOUNTED = (26, True, Fault.RING)

    #: A part of the ring of which nobody is known to be the owner for the time being.
    UNOWNED = (30, True, Fault.RING)
    #: A member that the ring expects and that was not there.
    ABSENT = (31, True, Fault.NODE)
    #: An index that is not known to be whole.
    INDEX_NOT_WHOLE = (32, True, Fault.RING)
    #: A load or publication that is under way: some of its rows may be missing.
    PUBLISHING = (33, True, Fault.RING)

    def __init__(self, number: int, loses_rows: bool, fault: Fault) -> None:
        self.number = number
        self.loses_rows = loses_rows
        self.fault = fault

    @property
    def words(self) -> str:
        """The same for people; as a name in accounts it is the member's own in small letters."""
        return self.name.lower().replace("_", " ")


#: Kinds of causes that a newer version may have and this one need not know.
NUMBERS_MAX = 256

#: Counts by the causes' numbers, as they travel.
WireCauses: TypeAlias = Annotated[dict[int, Count], msgspec.Meta(max_length=NUMBERS_MAX)]

_BY_NUMBER = {cause.number: cause for cause in Cause}


def cause_of(number: int) -> Cause:
    """The cause that a peer named."""
    return _BY_NUMBER.get(number, Cause.UNKNOWN)


def loses_rows(causes: WireCauses) -> bool:
    """Whether one of these makes an answer less than whole."""
    return any(count > 0 and cause_of(number).loses_rows for number, count in causes.items())


def added(one: WireCauses, other: WireCauses) -> WireCauses:
    """Two counts by cause into one; as many entries as there are causes, whatever a peer sends."""
    sums: WireCauses = {}
    for causes in (one, other):
        for number, count in causes.items():
            known = cause_of(number).number
            sums[known] = total(sums.get(known, 0), count)
    return sums
