"""Duplication: a datagram arrives once more, a little later."""

from __future__ import annotations

from runtime.rng import Rng

#: The copy trails the original by at most this long.
TRAIL_S_MAX = 0.1


class Duplication:
    __slots__ = ("_rng", "rate")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.rate = 0.0

    def set_rate(self, rate: float) -> None:
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"duplication rate = {rate}: must be in 0 ... 1")
        self.rate = rate

    def trail_s(self) -> float | None:
        """How long after the original a copy arrives; None: there is no copy."""
        if self.rate <= 0.0 or self._rng.random() >= self.rate:
            return None
        return self._rng.random() * TRAIL_S_MAX
