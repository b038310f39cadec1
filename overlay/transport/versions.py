"""Which versions of the messages between nodes a node speaks; every greeting says it, so that two that cannot work
together find out at once, and both say so.

The outer form of greetings stays as it is for ever, so that a node can always read which versions another speaks. A
session has the newest version that both ends speak. Fields that are appended to messages need no new version
(`runtime.message`); what an older node would misunderstand does.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct

#: The oldest and the newest that this release speaks.
OLDEST = NEWEST = 1
RELEASE_BYTES = 24
VERSIONS = Struct(f">HH{RELEASE_BYTES}s")
#: Peers of other versions that are remembered, for whoever looks at the status; the oldest are forgotten.
OTHERS_MAX = 64


@dataclass(frozen=True, slots=True)
class Versions:
    oldest: int = OLDEST
    newest: int = NEWEST
    #: What the node calls its release, for people.
    release: str = ""

    def common(self, other: Versions) -> int | None:
        """The newest version that both speak."""
        newest = min(self.newest, other.newest)
        return newest if newest >= max(self.oldest, other.oldest) else None

    def to_bytes(self) -> bytes:
        return VERSIONS.pack(self.oldest, self.newest, self.release.encode()[:RELEASE_BYTES])

    def __str__(self) -> str:
        spoken = f"{self.oldest}" if self.oldest == self.newest else f"{self.oldest} to {self.newest}"
        return f"versions {spoken} (release {self.release or 'unknown'})"


#: What a node spoke that did not say it yet.
BEFORE = Versions(0, 0)


def parse_versions(body: bytes, start: int) -> Versions:
    """The text comes from a peer and goes to people: nothing but plain characters gets through."""
    oldest, newest, release = VERSIONS.unpack_from(body, start)
    text = "".join(chr(byte) for byte in release if 0x21 <= byte <= 0x7E)
    return Versions(oldest, newest, text)


class Others:
    """Peers that no session can be had with, by address; `news` are those not told of yet."""

    __slots__ = ("by_address", "news")

    def __init__(self) -> None:
        self.by_address: dict[str, Versions] = {}
        self.news: list[tuple[str, Versions]] = []

    def met(self, address: str, versions: Versions) -> None:
        known = self.by_address.pop(address, None)
        while len(self.by_address) >= OTHERS_MAX:
            del self.by_address[next(iter(self.by_address))]
        self.by_address[address] = versions
        if known != versions and len(self.news) < OTHERS_MAX:
            self.news.append((address, versions))

    def agreed(self, address: str) -> None:
        self.by_address.pop(address, None)

    def take_news(self) -> list[tuple[str, Versions]]:
        news, self.news = self.news, []
        return news
