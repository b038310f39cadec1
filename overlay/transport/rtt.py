"""Round trips in, timeouts out: average + 4 x deviation (Jacobson; the Bamboo paper, section 4.2)."""

from __future__ import annotations

import math

from overlay.transport.config import TransportConfig

#: The shortest round trip is that of the last one to two of these, so that a longer path is believed in time.
SHORTEST_PERIOD_S = 10.0


class RttEstimator:
    """Gains 1/8 and 1/4, as RFC 6298."""

    __slots__ = (
        "_config",
        "_period_at",
        "_shortest_before_s",
        "_shortest_s",
        "deviation_s",
        "latest_s",
        "smoothed_s",
        "timeout_s",
    )

    def __init__(self, config: TransportConfig) -> None:
        self._config = config
        self.smoothed_s = 0.0
        self.deviation_s = 0.0
        self.latest_s = 0.0
        #: The shortest of this period and of the one before.
        self._shortest_s = self._shortest_before_s = math.inf
        self._period_at = -math.inf
        #: The timeout before back-off.
        self.timeout_s = config.timeout_initial_s

    def sample(self, now: float, rtt_s: float) -> None:
        self.latest_s = rtt_s
        smoothed_s = self.smoothed_s
        if not smoothed_s:
            self.smoothed_s = smoothed_s = rtt_s
            self.deviation_s = rtt_s / 2
        else:
            error_s = rtt_s - smoothed_s
            self.deviation_s += (abs(error_s) - self.deviation_s) / 4
            self.smoothed_s = smoothed_s = smoothed_s + error_s / 8
        config = self._config
        timeout_s = smoothed_s + 4 * self.deviation_s + config.ack_delay_s
        self.timeout_s = min(max(timeout_s, config.timeout_min_s), config.timeout_max_s)
        if now - self._period_at >= SHORTEST_PERIOD_S:
            self._period_at = now
            self._shortest_before_s, self._shortest_s = self._shortest_s, rtt_s
        elif rtt_s < self._shortest_s:
            self._shortest_s = rtt_s

    @property
    def queue_s(self) -> float:
        """How much longer round trips are, of late, than they need to be."""
        return self.smoothed_s - min(self._shortest_s, self._shortest_before_s)

    def backed_off_s(self, timeouts: int) -> float:
        """The timeout after so many in a row."""
        return min(self.timeout_s * (1 << timeouts), self._config.timeout_max_s)

    def reordering_s(self) -> float:
        """How long after a later datagram's acknowledgement an earlier one may still be on its way: 9/8 of
        a round trip, at least a millisecond (RFC 9002, 6.1.2)."""
        return max(1.125 * max(self.smoothed_s, self.latest_s), 0.001)
