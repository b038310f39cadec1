"""A host's clock: how its own time follows from the world's."""

from __future__ import annotations

import math
from dataclasses import dataclass

#: The Unix time at which every simulation starts: 2024-01-01.
EPOCH_S = 1_704_067_200.0


@dataclass(frozen=True, slots=True)
class Clock:
    """Own time = world time * rate + base; wall time is further off by `wall_offset_s`."""

    rate: float = 1.0
    base_s: float = 0.0
    wall_offset_s: float = 0.0

    def now(self, world_s: float) -> float:
        return world_s * self.rate + self.base_s

    def wall(self, world_s: float) -> float:
        return EPOCH_S + self.now(world_s) + self.wall_offset_s

    def after(self, world_s: float, delay_s: float) -> float:
        """World time at which so much own time has passed, by what `now` says then: a timer that fires a rounding
        error early would be set again for the same instant, for ever."""
        due_s = self.now(world_s) + delay_s
        at_s = world_s + delay_s / self.rate
        while self.now(at_s) < due_s:
            at_s = math.nextafter(at_s, math.inf)
        return at_s

    def skewed(self, world_s: float, wall_offset_s: float, rate: float) -> Clock:
        """This clock from now on at another rate; `now` does not jump."""
        return Clock(rate, self.now(world_s) - world_s * rate, wall_offset_s)


#: Shared by all hosts whose clock is right.
TRUE_CLOCK = Clock()
