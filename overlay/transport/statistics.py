"""Counters of one transport, so that nothing vanishes uncounted; `Statistics` is a snapshot for outsiders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Statistics:
    """All since the start, except `peers` and the two `..._bytes`, which are now."""

    peers: int
    backlog_bytes: int
    reassembly_bytes: int
    messages_sent: int
    messages_acknowledged: int
    messages_failed: int
    messages_received: int
    datagrams_sent: int
    datagrams_received: int
    #: Calls to `Datagrams.send_many`.
    send_calls: int
    segments_sent: int
    segments_repeated: int
    segments_duplicate: int
    acks_alone: int
    timeouts: int
    peers_dead: int
    peers_restarted: int
    peers_forgotten: int
    #: Received datagrams and messages that were refused, by reason.
    dropped: Mapping[str, int]
    #: Messages that were not even tried, by reason.
    refused: Mapping[str, int]
    #: Messages that peers did not understand, by kind and why, as they said.
    not_understood: Mapping[str, int]
    #: Exceptions of message handlers and notices, caught.
    crashes: int
    #: Peers that no session can be had with, by address, and what they speak.
    other_versions: Mapping[str, str]


class Counters:
    """The same, being counted."""

    __slots__ = (
        "acks_alone",
        "crashes",
        "datagrams_received",
        "datagrams_sent",
        "dropped",
        "messages_acknowledged",
        "messages_failed",
        "messages_received",
        "messages_sent",
        "not_understood",
        "peers_dead",
        "peers_forgotten",
        "peers_restarted",
        "refused",
        "segments_duplicate",
        "segments_repeated",
        "segments_sent",
        "send_calls",
        "timeouts",
    )

    def __init__(self) -> None:
        self.messages_sent = self.messages_acknowledged = self.messages_failed = self.messages_received = 0
        self.datagrams_sent = self.datagrams_received = self.send_calls = 0
        self.segments_sent = self.segments_repeated = self.segments_duplicate = self.acks_alone = 0
        self.timeouts = self.peers_dead = self.peers_restarted = self.peers_forgotten = self.crashes = 0
        self.dropped: dict[str, int] = {}
        self.refused: dict[str, int] = {}
        self.not_understood: dict[str, int] = {}

    def drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def snapshot(
        self, peers: int, backlog_bytes: int, reassembly_bytes: int, other_versions: Mapping[str, str]
    ) -> Statistics:
        by_reason = ("dropped", "refused", "not_understood")
        counts = {name: getattr(self, name) for name in self.__slots__ if name not in by_reason}
        return Statistics(
            peers=peers,
            backlog_bytes=backlog_bytes,
            reassembly_bytes=reassembly_bytes,
            dropped=dict(self.dropped),
            refused=dict(self.refused),
            not_understood=dict(self.not_understood),
            other_versions=other_versions,
            **counts,
        )
