"""Pauses: a host that does nothing for a while, and then everything that fell due meanwhile.

What a stopped process, a suspended machine, a long collection or a busy loop looks like from outside: silence without
a crash. Its clock goes on. Timers and messages wait and come late, all at once: to the node the time in between never
was, unless it looks at its clock.
"""

from __future__ import annotations

from runtime.sim.host import SimHost

#: A machine that slept for longer was turned off.
PAUSE_S_MAX = 3_600.0


def pause(host: SimHost, for_s: float) -> None:
    """Freezes a host from now on. A restart ends it, since it is the process that stands still."""
    if not 0.0 < for_s <= PAUSE_S_MAX:
        raise ValueError(f"for_s = {for_s}: must be in 0 ... {PAUSE_S_MAX}")
    host.runtime.freeze(host.runtime.world.now + for_s)
