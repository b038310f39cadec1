"""Labels: the nodes of the trie, each a prefix of keys' bits. A label is where something lies in the DHT, by its text.

Keys are bytes in the order in which they compare. Of a key the first 128 bits place it; the rest only tells keys in one
leaf apart, so leaves of keys that begin alike for that long can grow without bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

BITS = 128
_BYTES = BITS // 8


class Label(NamedTuple):
    """The first `length` bits of keys, as a number."""

    length: int
    bits: int

    @property
    def text(self) -> str:
        return f"{self.length}:{self.bits:x}"

    @property
    def parent(self) -> Label:
        return Label(self.length - 1, self.bits >> 1)

    @property
    def sibling(self) -> Label:
        return Label(self.length, self.bits ^ 1)

    def child(self, bit: int) -> Label:
        return Label(self.length + 1, self.bits << 1 | bit)

    def holds(self, other: Label) -> bool:
        """Whether the other is this or lies below it."""
        return other.length >= self.length and other.bits >> (other.length - self.length) == self.bits

    def first(self) -> int:
        """The lowest place below it."""
        return self.bits << (BITS - self.length)

    def last(self) -> int:
        return ((self.bits + 1) << (BITS - self.length)) - 1

    def ancestors(self) -> list[Label]:
        """Everything above it, the root first."""
        return [Label(n, self.bits >> (self.length - n)) for n in range(self.length)]


ROOT = Label(0, 0)


def label_of(text: str) -> Label | None:
    """The label that a text is of; None if it is of none."""
    length, _, bits = text.partition(":")
    try:
        label = Label(int(length), int(bits, 16))
    except ValueError:
        return None
    return label if 0 <= label.length <= BITS and 0 <= label.bits < 1 << label.length else None


def place_of(key: bytes) -> int:
    """The bits of a key that place it."""
    return int.from_bytes(key[:_BYTES].ljust(_BYTES, b"\0"), "big")


def label_at(place: int, length: int) -> Label:
    return Label(length, place >> (BITS - length))


def common(places: Iterable[int]) -> Label:
    """The longest label that holds all places; there is at least one."""
    each = iter(places)
    first = next(each)
    differing = 0
    for place in each:
        differing |= first ^ place
    return label_at(first, BITS - differing.bit_length())
