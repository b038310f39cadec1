"""Loss: each packet vanishes with a probability.

At packet level a datagram is gone. At message level the modelled transport retransmits, so a loss is a delay,
and only a message that was lost more often than the transport tries is a failure.
"""

from __future__ import annotations

import math

from runtime.rng import Rng

#: More losses in a row than any transport retries.
LOSSES_MAX = 64


class Loss:
    """`rate` holds everywhere; hosts with bad links may have a higher one of their own."""

    __slots__ = ("_hosts", "_rng", "active", "rate")

    def __init__(self, rng: Rng) -> None:
        self._rng = rng
        self._hosts: dict[int, float] = {}
        self.rate = 0.0
        #: False while nothing is ever lost: spares the caller the draw.
        self.active = False

    def set_rate(self, rate: float, host: int | None = None) -> None:
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"loss rate = {rate}: must be in 0 ... 1")
        if host is None:
            self.rate = rate
        elif rate > 0.0:
            self._hosts[host] = rate
        else:
            self._hosts.pop(host, None)
        self.active = self.rate > 0.0 or bool(self._hosts)

    def between(self, sender: int, receiver: int) -> float:
        if sender == receiver:
            return 0.0
        if not self._hosts:
            return self.rate
        return max(self.rate, self._hosts.get(sender, 0.0), self._hosts.get(receiver, 0.0))

    def lost(self, sender: int, receiver: int) -> bool:
        """Whether this one packet is lost."""
        return self._rng.random() < self.between(sender, receiver)

    def losses(self, sender: int, receiver: int, packets: int) -> int:
        """How often the unluckiest of `packets` is lost before it gets through, in one draw: with loss p, all
        get through within k losses with probability (1 - p**(k + 1)) ** packets."""
        rate = self.between(sender, receiver)
        if rate <= 0.0:
            return 0
        drawn = self._rng.random()
        if rate >= 1.0:
            return LOSSES_MAX
        missing = 1.0 - drawn ** (1.0 / packets)
        if missing <= 0.0:
            return LOSSES_MAX
        return min(int(math.log(missing) / math.log(rate)), LOSSES_MAX)
