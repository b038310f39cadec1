"""Counters of one node's detours, so that nothing vanishes uncounted."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RelayStatistics:
    """All since the start, except `paths`, `seeking`, `waiting`, `pairs` and `carrying_bytes`, which are now."""

    #: Peers that are reached through another, searches for one, messages whose fate is not known yet.
    paths: int
    seeking: int
    waiting: int
    #: Paths looked for, found, and given up because they failed or the straight one is open again.
    sought: int
    found: int
    lost: int
    straightened: int
    #: Messages of this node's that went around, and those that came so.
    sent: int
    failed: int
    received: int
    #: For others: pairs served, messages passed on, and their bytes, now and in all.
    pairs: int
    carried: int
    carried_failed: int
    carried_bytes: int
    carrying_bytes: int
    #: Not done because of a bound, for somebody who did not ask before, or because the origin is revoked.
    refused_seeks: int
    refused_calls: int
    refused_tries: int
    refused_load: int
    refused_unknown: int
    refused_revoked: int
    #: Relayed messages of a kind that this node does not know, or malformed; and the word that one of ours was so.
    not_understood: int


class RelayCounters:
    """The same, being counted."""

    __slots__ = (
        "carried",
        "carried_bytes",
        "carried_failed",
        "failed",
        "found",
        "lost",
        "not_understood",
        "received",
        "refused_calls",
        "refused_load",
        "refused_revoked",
        "refused_seeks",
        "refused_tries",
        "refused_unknown",
        "sent",
        "sought",
        "straightened",
    )

    def __init__(self) -> None:
        self.sought = self.found = self.lost = self.straightened = 0
        self.sent = self.failed = self.received = self.not_understood = 0
        self.carried = self.carried_failed = self.carried_bytes = 0
        self.refused_seeks = self.refused_calls = self.refused_tries = 0
        self.refused_load = self.refused_unknown = self.refused_revoked = 0

    def snapshot(
        self, *, paths: int, seeking: int, waiting: int, pairs: int, carrying_bytes: int
    ) -> RelayStatistics:
        return RelayStatistics(
            paths=paths,
            seeking=seeking,
            waiting=waiting,
            pairs=pairs,
            carrying_bytes=carrying_bytes,
            **{name: getattr(self, name) for name in self.__slots__},
        )
