"""What each simulated host sent, received and lost: counted on the host, read as frozen snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


class Counters:
    """The running counts of one host; they survive its restarts."""

    __slots__ = ("bytes_in", "bytes_out", "drops", "failed", "messages_in", "messages_out")

    def __init__(self) -> None:
        self.messages_out = 0
        self.messages_in = 0
        self.bytes_out = 0
        self.bytes_in = 0
        #: Sends that ended in a failure, whether or not somebody asked for the notice.
        self.failed = 0
        #: Reason to count, counted at the sender. None until the first: most hosts never drop anything.
        self.drops: dict[str, int] | None = None

    def drop(self, reason: str) -> None:
        if self.drops is None:
            self.drops = {}
        self.drops[reason] = self.drops.get(reason, 0) + 1


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts of one host, or of all. In packet-level simulation a message here is a datagram."""

    messages_out: int = 0
    messages_in: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    failed: int = 0
    drops: Mapping[str, int] = field(default_factory=dict)


def snapshot(hosts: Iterable[Counters]) -> Statistics:
    messages_out = messages_in = bytes_out = bytes_in = failed = 0
    drops: dict[str, int] = {}
    for counters in hosts:
        messages_out += counters.messages_out
        messages_in += counters.messages_in
        bytes_out += counters.bytes_out
        bytes_in += counters.bytes_in
        failed += counters.failed
        for reason, count in (counters.drops or {}).items():
            drops[reason] = drops.get(reason, 0) + count
    return Statistics(messages_out, messages_in, bytes_out, bytes_in, failed, dict(sorted(drops.items())))
