"""Who sends to this node: whom it waits for (Learned), and the places it has left for more (Tree routing).

PIER 4.2.2: with each state a child reports its height and how many more children its part of the tree can take. A node
that is full sends a new child to the lowest of its own with the most room. Who is silent for a while is forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from query.aggregation.messages import HEIGHT_MAX
from runtime.api import Address

#: Senders remembered; the root of a one-level aggregation has all nodes.
SENDERS_MAX = 1 << 20


class Waited:
    """Senders, and for which epoch each sent last."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[Address, int] = {}

    def __len__(self) -> int:
        return len(self._last)

    def known(self) -> dict[Address, None]:
        """Everybody who has sent lately, as an ordered set of the caller's own."""
        return dict.fromkeys(self._last)

    def heard(self, sender: Address, epoch: int) -> None:
        if sender in self._last or len(self._last) < SENDERS_MAX:
            self._last[sender] = max(self._last.get(sender, 0), epoch)

    def forget(self, sender: Address) -> None:
        self._last.pop(sender, None)

    def silent(self, epoch: int) -> list[Address]:
        """Those who have sent nothing for this epoch or a later one."""
        return [sender for sender, last in self._last.items() if last < epoch]


@dataclass(slots=True)
class _Place:
    height: int
    free: int
    epoch: int


class Places:
    """The children of a node in a tree of bounded in-degree."""

    __slots__ = ("_most", "_places")

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: dict[Address, _Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    @property
    def height(self) -> int:
        return min(HEIGHT_MAX, 1 + max((place.height for place in self._places.values()), default=-1))

    @property
    def free(self) -> int:
        """How many more children this part of the tree can take."""
        return self._most - len(self._places) + sum(place.free for place in self._places.values())

    def take(self, child: Address, epoch: int, height: int, free: int) -> Address | None:
        """Notes what a child reports. Returns where to send it if it is new and there is no place."""
        place = self._places.get(child)
        if place is not None:
            place.height, place.free, place.epoch = height, free, max(place.epoch, epoch)
            return None
        if len(self._places) < self._most:
            self._places[child] = _Place(height, free, epoch)
            return None
        found = min(
            (address for address, each in self._places.items() if each.free > 0),
            key=lambda address: (self._places[address].height, -self._places[address].free),
            default=None,
        )
        if found is None:
            # Nobody has room: every child was just given all it could take. It is asked again next time.
            return None
        # Counted at once: the child reports its new number only with its next state.
        self._places[found].free -= 1
        return found

    def forget_silent(self, epoch: int) -> None:
        for child in [child for child, place in self._places.items() if place.epoch < epoch]:
            del self._places[child]
