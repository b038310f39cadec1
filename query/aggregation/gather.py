"""Results as the asker gives them on: the parts of an epoch together, better ones only, revisions counted here.

A root that takes over from one that died counts its revisions from the beginning and knows little; whatever has
fewer nodes in it than what the client already has is no revision.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from query.aggregation.messages import EpochResult

#: Epochs that may still be revised.
EPOCHS_MAX = 64


@dataclass(slots=True)
class _Epoch:
    nodes: dict[int, int] = field(default_factory=dict)
    states: dict[int, bytes] = field(default_factory=dict)
    revision: int = 0
    given: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """A result for the client."""

    epoch: int
    revision: int
    nodes: int
    states: tuple[bytes, ...]


class Gather:
    """The epochs of one aggregation, in one part or several."""

    def __init__(self, parts: int = 1) -> None:
        self.parts = parts
        self._epochs: dict[int, _Epoch] = {}
        #: Results of epochs that are too old, and such as had fewer nodes in them than earlier ones.
        self.outdated = 0

    @property
    def nbytes(self) -> int:
        return sum(len(state) for epoch in self._epochs.values() for state in epoch.states.values())

    @property
    def is_empty(self) -> bool:
        return not self._epochs

    def take(self, part: int, result: EpochResult) -> Whole | None:
        """Notes a result; returns the whole if that is now there or better than before."""
        epoch = self._epochs.get(result.epoch)
        if epoch is None:
            if len(self._epochs) >= EPOCHS_MAX:
                oldest = min(self._epochs)
                if result.epoch < oldest:
                    self.outdated += 1
                    return None
                del self._epochs[oldest]
            epoch = self._epochs[result.epoch] = _Epoch()
        if part in epoch.nodes and result.nodes <= epoch.nodes[part]:
            self.outdated += 1
            return None
        epoch.nodes[part] = result.nodes
        epoch.states[part] = result.state
        if len(epoch.nodes) < self.parts and not epoch.given:
            return None
        return self._give(result.epoch, epoch)

    def first_missing(self, first: int, last: int) -> int:
        """The first of these epochs that has not been given."""
        for number in range(max(first, last - EPOCHS_MAX), last):
            epoch = self._epochs.get(number)
            if epoch is None or not epoch.given:
                return number
        return last

    def incomplete(self, number: int | None = None) -> list[Whole]:
        """What there is of epochs whose parts are not all there, or of one of them; given once."""
        return [
            self._give(each, epoch)
            for each, epoch in sorted(self._epochs.items())
            if not epoch.given and number in (None, each)
        ]

    def _give(self, number: int, epoch: _Epoch) -> Whole:
        revision = epoch.revision
        epoch.revision += 1
        epoch.given = True
        nodes = min(epoch.nodes.get(part, 0) for part in range(self.parts))
        states = tuple(epoch.states[part] for part in sorted(epoch.states))
        if self.parts == 1:
            epoch.states.clear()
        return Whole(number, revision, nodes, states)
