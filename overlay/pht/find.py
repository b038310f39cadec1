"""Finding leaves: for each of many keys the shallowest label that is not internal, by binary search on its length.

The labels above a leaf are internal, those below it have no state, so half of the lengths left are ruled out by each
look. What is known from before narrows the search at the start; all keys are looked for at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.dht.operations import Got
from overlay.dht.verbs import Dht
from overlay.pht.entry import Found, get_label, read
from overlay.pht.label import BITS, Label, label_at


class Known:
    """Labels that were seen to be internal, and leaves: where to begin looking, never more."""

    def __init__(self, labels_max: int = 1 << 17) -> None:
        self._labels_max = labels_max
        self.internal: set[Label] = set()
        self.leaves: set[Label] = set()

    def learn(self, found: Found) -> None:
        if len(self.internal) + len(self.leaves) > self._labels_max:
            self.internal.clear()
            self.leaves.clear()
        (self.internal if found.internal else self.leaves).add(found.label)
        (self.leaves if found.internal else self.internal).discard(found.label)

    def guess(self, place: int) -> int:
        """The length of the leaf of a place, as far as is known."""
        low, high = 0, BITS
        while low < high:
            middle = (low + high) // 2
            if label_at(place, middle) in self.internal:
                low = middle + 1
            else:
                high = middle
        return low


class Finder:
    """Looks for the leaves of some places; `done` gets each leaf as it was read, in the order of the places."""

    def __init__(
        self,
        dht: Dht,
        namespace: str,
        known: Known,
        places: Sequence[int],
        done: Callable[[dict[int, Found]], None],
    ) -> None:
        self._dht = dht
        self._namespace = namespace
        self._known = known
        self._done = done
        #: For each place: the lengths between which its leaf's must be, and the next to look at.
        self._open = {place: [0, BITS, known.guess(place)] for place in places}
        self._read: dict[Label, Found] = {}
        self._leaves: dict[int, Found] = {}

    def start(self) -> None:
        self._round()

    def _round(self) -> None:
        labels: dict[Label, None] = {}
        for place, (_, _, at) in self._open.items():
            label = label_at(place, at)
            if label not in self._read:
                labels[label] = None
        if not labels:
            self._advance()
            return
        wanted = list(labels)

        def got(answers: list[Got]) -> None:
            for label, answer in zip(wanted, answers, strict=True):
                found = self._read[label] = read(label, answer)
                if found.known:
                    self._known.learn(found)
            self._advance()

        self._dht.get_many([get_label(self._namespace, label) for label in wanted], got)

    def _advance(self) -> None:
        for place, bounds in list(self._open.items()):
            low, high, at = bounds
            found = self._read.get(label_at(place, at))
            while found is not None and low < high:
                if found.internal:
                    low = at + 1
                else:
                    high = at
                # Beside the guess first: it is mostly right or one level off.
                at = _next(low, high, at)
                found = self._read.get(label_at(place, at))
            bounds[:] = [low, high, at]
            if found is not None and low >= high:
                self._leaves[place] = found
                del self._open[place]
        if self._open:
            self._round()
        else:
            self._done(self._leaves)


def _next(low: int, high: int, at: int) -> int:
    if low >= high:
        return low
    if at == high and at - 1 >= low and high - low > 8:
        return at - 1
    if at + 1 == low and high - low > 8:
        return low
    return (low + high) // 2
