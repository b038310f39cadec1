"""How long nodes stay, as this one sees it, and the periods that follow from it.

Deaths of neighbours and the time they were watched come in; the mean session time comes out. A node that
joins starts from its neighbours' estimate. Deaths are halved together with the time they were counted over
whenever there are enough of them, so that the estimate follows a change within some tens of deaths.
"""

from __future__ import annotations

from overlay.bamboo.config import BambooConfig

#: Deaths that make an estimate; at this many, what was seen is halved.
DEATHS_ENOUGH = 16.0
#: What a neighbour's word is worth to a newcomer, in deaths: enough to outweigh its first seconds, in which it
#: watches many and can have noticed no death yet.
DEATHS_HEARSAY = 8.0


class Churn:
    __slots__ = ("_config", "_deaths", "_exposure_s", "_since")

    def __init__(self, config: BambooConfig, now: float) -> None:
        self._config = config
        self._since = now
        self._deaths = DEATHS_HEARSAY
        self._exposure_s = DEATHS_HEARSAY * config.session_initial_s

    def hear(self, session_s: float) -> None:
        """Takes over the estimate of the node that let this one in."""
        self._deaths = DEATHS_HEARSAY
        self._exposure_s = DEATHS_HEARSAY * min(session_s, self._config.session_ceiling_s)

    def watch(self, peers: int, now: float) -> None:
        """So many peers were watched since the last call."""
        exposure_s = self._exposure_s + peers * (now - self._since)
        self._since = now
        self._exposure_s = min(exposure_s, self._config.session_ceiling_s * self._deaths)

    def died(self) -> None:
        self._deaths += 1.0
        if self._deaths >= DEATHS_ENOUGH:
            self._deaths /= 2
            self._exposure_s /= 2

    @property
    def session_s(self) -> float:
        return self._exposure_s / self._deaths

    def neighbour_period_s(self) -> float:
        config = self._config
        return _within(
            config.neighbour_period_share * self.session_s,
            config.neighbour_period_floor_s,
            config.neighbour_period_ceiling_s,
        )

    def leaf_period_s(self) -> float:
        config = self._config
        return _within(
            config.leaf_period_share * self.session_s,
            config.leaf_period_floor_s,
            config.leaf_period_ceiling_s,
        )

    def ping_period_s(self) -> float:
        config = self._config
        return _within(
            config.ping_period_share * self.session_s,
            config.ping_period_floor_s,
            config.ping_period_ceiling_s,
        )


def _within(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)
