"""What the network is doing wrong at present: one object that both networks consult."""

from __future__ import annotations

from runtime.rng import Rng
from runtime.sim.faults.duplication import Duplication
from runtime.sim.faults.loss import Loss
from runtime.sim.faults.partition import Partitions
from runtime.sim.faults.reordering import Reordering


class Faults:
    """Each fault draws from a stream of its own, so turning one on does not change what another does."""

    __slots__ = ("duplication", "loss", "partitions", "reordering")

    def __init__(self, seed: int) -> None:
        self.loss = Loss(Rng.from_label(seed, "world/loss"))
        self.duplication = Duplication(Rng.from_label(seed, "world/duplication"))
        self.reordering = Reordering(Rng.from_label(seed, "world/reordering"))
        self.partitions = Partitions()
