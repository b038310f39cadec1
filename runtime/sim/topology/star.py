"""All hosts hang off one hub: every pair is equally far apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Star:
    one_way_s: float

    def latency_s(self, sender: int, receiver: int) -> float:
        return self.one_way_s if sender != receiver else 0.0


def star(latency_s: float = 0.05) -> Star:
    """`latency_s` one way, from any host over the hub to any other."""
    if not latency_s > 0.0:
        raise ValueError(f"latency_s = {latency_s}: must be positive")
    return Star(latency_s)
