"""Churn: hosts leave for good after a session of random length, and fresh ones take their place.

Session times are exponential, given by their mean or their median. A host's end is a crash: nobody says
goodbye. What takes its place is a new host with a new address.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from runtime.api import Timer
from runtime.sim.host import SimHost

if TYPE_CHECKING:
    from runtime.sim.world import World


class Churn:
    """Runs from its creation until `stop`. `build` puts a node on a fresh host."""

    def __init__(
        self,
        world: World,
        build: Callable[[SimHost], None],
        *,
        hosts: Sequence[SimHost],
        session_mean_s: float | None = None,
        session_median_s: float | None = None,
        replace_s_max: float = 1.0,
    ) -> None:
        if (session_mean_s is None) == (session_median_s is None):
            raise ValueError("give session_mean_s or session_median_s")
        mean_s = session_mean_s if session_mean_s is not None else (session_median_s or 0.0) / math.log(2.0)
        if not (mean_s > 0.0 and replace_s_max >= 0.0):
            raise ValueError("session times must be positive, replace_s_max not negative")
        self._world = world
        self._build = build
        self._rate = 1.0 / mean_s
        self._replace_s_max = replace_s_max
        self._rng = world.rng("churn")
        self._stopped = False
        #: The one pending call of each place: an end or a replacement. Bounded by the hosts under churn.
        self._timers: dict[int, Timer] = {}
        self._empty: set[int] = set()
        self.ended = 0
        self.replaced = 0
        for place, host in enumerate(hosts):
            self._live(place, host)

    def stop(self, refill: bool = False) -> None:
        """Hosts alive now stay; places empty now stay empty, or are filled when their time has come."""
        self._stopped = True
        for place, timer in self._timers.items():
            if not (refill and place in self._empty):
                timer.cancel()
        self._timers.clear()

    def _live(self, place: int, host: SimHost) -> None:
        at = self._world.now + self._rng.expovariate(self._rate)
        self._timers[place] = self._world.call_at(at, self._end, (place, host))

    def _end(self, session: tuple[int, SimHost]) -> None:
        place, host = session
        if host.retired:
            # Another churn has ended it and fills its place.
            del self._timers[place]
            return
        self._world.retire(host)
        self._empty.add(place)
        self.ended += 1
        at = self._world.now + self._rng.random() * self._replace_s_max
        self._timers[place] = self._world.call_at(at, self._replace, place)

    def _replace(self, place: int) -> None:
        self._empty.discard(place)
        host = self._world.add_host()
        self.replaced += 1
        self._build(host)
        if not self._stopped:
            self._live(place, host)
