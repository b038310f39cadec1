"""Results as the asker gives them on: the parts of an epoch together, what several roots have of it, revisions counted
here.

Each state ends at one root. When a root dies, or a node takes itself for one for a while, an epoch has several,
each with other nodes' states: the result is all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from query.aggregation.messages import COUNT_MAX, EpochResult
from query.aggregation.share import lacking
from query.causes import WireCauses, added
from runtime.api import Address

#: Epochs that may still be revised.
EPOCHS_MAX = 16


@dataclass(slots=True)
class _Epoch:
    #: By part and root.
    nodes: dict[tuple[int, Address], int] = field(default_factory=dict)
    states: dict[tuple[int, Address], bytes] = field(default_factory=dict)
    causes: dict[tuple[int, Address], WireCauses] = field(default_factory=dict)
    steps: dict[tuple[int, Address], int] = field(default_factory=dict)
    revision: int = 0
    given: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """A result for the client."""

    epoch: int
    revision: int
    nodes: int
    #: Of each part, the states of its roots.
    states: tuple[tuple[bytes, ...], ...]
    #: What it lacks, beside nodes that are not in it.
    causes: WireCauses = field(default_factory=dict)


class Gather:
    """The epochs of one aggregation, in one part or several."""

    def __init__(self, parts: int = 1) -> None:
        self.parts = parts
        self._epochs: dict[int, _Epoch] = {}
        #: Results of epochs that are too old, and such as had no more nodes in them than the root's earlier ones.
        self.outdated = 0

    @property
    def nbytes(self) -> int:
        return sum(len(state) for epoch in self._epochs.values() for state in epoch.states.values())

    @property
    def is_empty(self) -> bool:
        return not self._epochs

    def take(self, part: int, root: Address, result: EpochResult) -> Whole | None:
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
        if result.nodes <= epoch.nodes.get((part, root), -1):
            self.outdated += 1
            return None
        epoch.nodes[part, root] = result.nodes
        epoch.states[part, root] = result.state
        epoch.causes[part, root] = result.causes
        epoch.steps[part, root] = result.steps
        if not epoch.given and len({each for each, _ in epoch.nodes}) < self.parts:
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
        parts = range(self.parts)
        sums = (sum(n for (each, _), n in epoch.nodes.items() if each == part) for part in parts)
        nodes = min(COUNT_MAX, *sums)
        states = tuple(
            tuple(state for (each, _), state in epoch.states.items() if each == part) for part in parts
        )
        causes: WireCauses = {}
        for each in epoch.causes.values():
            causes = added(causes, each)
        for part in parts:
            steps = sum(each for (of, _), each in epoch.steps.items() if of == part)
            causes = added(causes, lacking(steps))
        return Whole(number, revision, nodes, states, causes)
