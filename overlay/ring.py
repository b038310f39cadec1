"""The identifier circle: 160-bit ids, arcs of it, and who is closer (PIER 2.3.1, 3.2.1).

Ids are plain ints inside a node and 20 big-endian bytes on the wire.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from runtime.message import Part, WireAddress, WireId

BITS = 160
ID_BYTES = BITS // 8
SPACE = 1 << BITS
MASK = SPACE - 1
HALF = SPACE >> 1


def to_wire(identifier: int) -> bytes:
    return identifier.to_bytes(ID_BYTES, "big")


#: The reverse; bare, since it is called for every id that arrives.
from_wire: Callable[[bytes], int] = int.from_bytes


def routing_id(namespace: str, key: str) -> int:
    """The default routing identifier of an object: SHA-1 of "namespace.key" (PIER 3.2.1)."""
    return from_wire(hashlib.sha1(f"{namespace}.{key}".encode(), usedforsecurity=False).digest())


def clockwise(start: int, end: int) -> int:
    """How far it is from start to end going up, with wraparound."""
    return (end - start) & MASK


def distance(a: int, b: int) -> int:
    """The shorter way round."""
    gap = (a - b) & MASK
    return gap if gap <= HALF else SPACE - gap


def closer(key: int, a: int, b: int) -> bool:
    """Whether a is closer to key than b; on a tie the one clockwise of the key wins."""
    da, db = distance(key, a), distance(key, b)
    return da < db or (da == db and clockwise(key, a) < clockwise(key, b))


class Arc(NamedTuple):
    """The ids from start up to, not including, end, clockwise; start == end is the whole circle."""

    start: int
    end: int

    def contains(self, identifier: int) -> bool:
        if self.start == self.end:
            return True
        return (identifier - self.start) & MASK < (self.end - self.start) & MASK

    def width(self) -> int:
        return ((self.end - self.start) & MASK) or SPACE


WHOLE = Arc(0, 0)


def point(identifier: int) -> Arc:
    """The arc of one id; the last id is followed by the first."""
    return Arc(identifier, (identifier + 1) & MASK)


def owned_arc(predecessor: int, identifier: int, successor: int) -> Arc:
    """The ids closer to `identifier` than to its two neighbours on the circle.

    A key exactly half-way belongs to the node clockwise of it, so the arc starts at the half-way point to the
    predecessor (rounded up) and ends at the one to the successor."""
    if predecessor == identifier:
        return WHOLE
    before = clockwise(predecessor, identifier) or SPACE
    after = clockwise(identifier, successor) or SPACE
    return Arc((identifier - before // 2) & MASK, (identifier + after - after // 2) & MASK)


class NodeRef(Part, frozen=True):
    """Who a node is and where."""

    id: WireId
    address: WireAddress


class WireArc(Part, frozen=True):
    """An arc inside a message."""

    start: WireId
    end: WireId
