"""How long to wait for a reply before asking elsewhere: smoothed round trips, per peer and over all.

The rule of TCP's retransmission timer (RFC 6298): mean plus four deviations. An expiry doubles the peer's
value until it answers again, so that a slow peer is not asked for ever faster. Asking again costs a message
and nothing else: every operation is idempotent by its name.
"""

from __future__ import annotations

from runtime.api import Address

#: Before anything is known of anybody: above any round trip on the Internet worth waiting for.
TIMEOUT_INITIAL_S = 0.8
#: A busy peer on the same machine answers in well under this.
TIMEOUT_MIN_S = 0.15
TIMEOUT_MAX_S = 3.0
#: Slowest bulk rate that is not yet a failure; adds to the wait for large messages.
BYTES_PER_S_MIN = 250_000
#: Peers remembered: those asked longest ago are forgotten first.
PEERS_MAX = 2048


class _Estimate:
    __slots__ = ("deviation_s", "mean_s", "penalty")

    def __init__(self, sample_s: float) -> None:
        self.mean_s = sample_s
        self.deviation_s = sample_s / 2
        self.penalty = 1.0

    def add(self, sample_s: float) -> None:
        self.deviation_s += 0.25 * (abs(sample_s - self.mean_s) - self.deviation_s)
        self.mean_s += 0.125 * (sample_s - self.mean_s)
        self.penalty = 1.0

    def timeout_s(self) -> float:
        return max(TIMEOUT_MIN_S, self.mean_s + 4.0 * self.deviation_s) * self.penalty


class ReplyTimes:
    """Timeouts learnt from the replies seen."""

    __slots__ = ("_everyone", "_peers")

    def __init__(self) -> None:
        self._everyone: _Estimate | None = None
        self._peers: dict[Address, _Estimate] = {}

    def replied(self, peer: Address, took_s: float) -> None:
        estimate = self._peers.get(peer)
        if estimate is not None:
            estimate.add(took_s)
            return
        # A peer not heard before is what the estimate over all is for.
        if self._everyone is None:
            self._everyone = _Estimate(took_s)
        else:
            self._everyone.add(took_s)
        if len(self._peers) >= PEERS_MAX:
            del self._peers[next(iter(self._peers))]
        self._peers[peer] = _Estimate(took_s)

    def expired(self, peer: Address) -> None:
        estimate = self._peers.get(peer)
        if estimate is not None:
            estimate.penalty = min(estimate.penalty * 2.0, TIMEOUT_MAX_S / TIMEOUT_MIN_S)

    def timeout_s(self, peer: Address, size_bytes: int) -> float:
        estimate = self._peers.get(peer) or self._everyone
        base = estimate.timeout_s() if estimate is not None else TIMEOUT_INITIAL_S
        return min(base, TIMEOUT_MAX_S) + size_bytes / BYTES_PER_S_MIN
