"""What the networks ask of a topology."""

from __future__ import annotations

from typing import Protocol


class Topology(Protocol):
    """Hosts are known by their index: 0, 1, 2, ... in order of their arrival in the world."""

    def latency_s(self, sender: int, receiver: int) -> float:
        """One-way latency, without queueing. A pure function of the two."""
        ...
