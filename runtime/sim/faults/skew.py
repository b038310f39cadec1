"""Clock skew: a host whose wall clock is off and whose oscillator runs fast or slow."""

from __future__ import annotations

from runtime.sim.host import SimHost

#: Oscillators are off by parts per million; a factor beyond this would not be a clock.
RATE_MIN, RATE_MAX = 0.1, 10.0


def skew(host: SimHost, offset_s: float = 0.0, rate: float = 1.0) -> None:
    """`wall` is off by `offset_s`, and from now on `now`, `wall` and timers advance `rate` seconds a second.

    `now` stays continuous: a monotonic clock does not jump. Timers already armed keep their instant."""
    if not RATE_MIN <= rate <= RATE_MAX:
        raise ValueError(f"rate = {rate}: must be in {RATE_MIN} ... {RATE_MAX}")
    host.set_clock(host.clock.skewed(host.runtime.world.now, offset_s, rate))
