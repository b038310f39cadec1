"""Reordering: some packets are held back, so that later ones overtake them."""

from __future__ import annotations

from runtime.rng import Rng


class Reordering:
    __slots__ = ("_delay_s_max", "_rng", "rate")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self.rate = 0.0
        self._delay_s_max = 0.0

    def set_rate(self, rate: float, delay_s_max: float = 0.1) -> None:
        """With probability `rate` a packet takes up to `delay_s_max` longer."""
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"reordering rate = {rate}: must be in 0 ... 1")
        if not delay_s_max >= 0.0:
            raise ValueError(f"delay_s_max = {delay_s_max}: must not be negative")
        self.rate = rate
        self._delay_s_max = delay_s_max

    def held_s(self) -> float:
        if self.rate <= 0.0 or self._rng.random() >= self.rate:
            return 0.0
        return self._rng.random() * self._delay_s_max
