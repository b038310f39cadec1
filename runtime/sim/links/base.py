"""What the networks ask of a link model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from runtime.sim.wheel import Wheel

#: The capacity of an access link where nothing else is said: PIER's experiments used 1.5 Mbps.
CAPACITY_BPS = 1_500_000.0

Deliver: TypeAlias = Callable[[Any], None]


class Port(Protocol):
    """One host's access link, out and in. `link` is the model's own state, None until first used."""

    index: int
    link: Any


class Links(Protocol):
    """Carries one message, datagram or stream segment from host to host."""

    def attach(self, wheel: Wheel, queue_s_max: float) -> None:
        """Called once, by the world, with the longest queue that its kind of network tolerates."""
        ...

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
        """Exactly one of the two runs: `arrived(arg)` when the last bit is in, or `dropped(arg)` when a queue
        was full."""
        ...
