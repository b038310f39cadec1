"""What a reliable transport does about loss, as a delay: shared by messages and streams."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retransmission:
    """The timeouts that UdpCC and TCP would wait: a multiple of the round trip, clamped, doubling."""

    #: Round-trip average plus four deviations, at the deviation of a quiet path.
    timeout_rtts: float = 1.5
    timeout_s_min: float = 0.2
    #: When the sender gives up and reports a failure.
    give_up_s: float = 5.0

    def timeout_s(self, rtt_s: float) -> float:
        return max(self.timeout_s_min, self.timeout_rtts * rtt_s)

    def delay_s(self, losses: int, rtt_s: float) -> float | None:
        """How much later a packet gets through that was lost so often; None: it was given up before."""
        if losses == 0:
            return 0.0
        # The bound comes first: 2 ** losses must not overflow.
        if losses > 32:
            return None
        delay_s = self.timeout_s(rtt_s) * float((1 << losses) - 1)
        return delay_s if delay_s < self.give_up_s else None
