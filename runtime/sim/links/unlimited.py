"""No congestion: only latency counts."""

from __future__ import annotations

from typing import Any

from runtime.sim.links.base import Deliver, Port
from runtime.sim.wheel import WORLD, Wheel


class Unlimited:
    """Links of infinite capacity."""

    def attach(self, wheel: Wheel, queue_s_max: float) -> None:
        self._wheel = wheel

    def carry(
        self,
        sender: Port,
        receiver: Port,
        size: int,
        latency_s: float,
        arrived: Deliver,
        dropped: Deliver,
        arg: Any,
    ) -> None:
        wheel = self._wheel
        wheel.call_at(wheel.now + latency_s, arrived, arg, WORLD)
