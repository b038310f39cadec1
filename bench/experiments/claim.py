"""What a paper says of a figure, put so that our measurements can say yes or no."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """What the thesis says of a figure, as a number of ours that is to be no larger than another."""

    figure: str
    text: str
    ours: float
    peer: float
    peer_name: str

    @property
    def ratio(self) -> float:
        return self.ours / self.peer

    @property
    def holds(self) -> bool:
        return self.ours <= self.peer
