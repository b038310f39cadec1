"""Clock jumps: a machine that was suspended, or whose wall clock was set."""

from __future__ import annotations

from dataclasses import replace

from runtime.sim.host import SimHost


def jump(host: SimHost, ahead_s: float = 0.0, wall_s: float = 0.0) -> None:
    """`now` leaps `ahead_s`, as a clock that counts suspended time does, and `wall` by `wall_s` more, either way.
    Timers already armed keep their instant: they come late by the host's own clock."""
    if ahead_s < 0.0:
        raise ValueError(f"ahead_s = {ahead_s}: a monotonic clock does not go back")
    clock = host.clock
    host.set_clock(replace(clock, base_s=clock.base_s + ahead_s, wall_offset_s=clock.wall_offset_s + wall_s))
