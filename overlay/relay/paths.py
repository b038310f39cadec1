"""Which peers are reached through which others, and when the straight path is tried again.

Nothing here is timed: a path that is not used is forgotten when the table is looked at, and the straight path
is tried when there is something to send. A path has one relay, and a relay is reached straight: so a message
takes one step more than it should, never a circle.
"""

from __future__ import annotations

from dataclasses import dataclass

from runtime.api import Address

#: Peers reached through others. A host that cannot reach this many has another trouble than a broken pair.
PATHS_MAX = 1_024
#: A path that carried nothing for so long is forgotten.
IDLE_S = 600.0
#: The straight path is tried again after so long, and then after twice as long each time.
RETRY_FIRST_S = 15.0
RETRY_MAX_S = 120.0
#: A peer that has just been reached straight is not sent around because others cannot reach it.
STRAIGHT_S = 5.0
STRAIGHT_MAX = 256


@dataclass(slots=True, eq=False)
class Path:
    to: Address
    via: Address
    used_at: float
    retry_at: float
    retry_s: float = RETRY_FIRST_S
    #: The straight path is being tried; it was found to be broken.
    trying: bool = False
    needed: bool = False


class Paths:
    __slots__ = ("_straight", "by_target")

    def __init__(self) -> None:
        #: Longest unused first.
        self.by_target: dict[Address, Path] = {}
        #: When a peer was last found to be reached straight; oldest first.
        self._straight: dict[Address, float] = {}

    def get(self, to: Address, now: float) -> Path | None:
        """The path to a peer, which is now used."""
        path = self.by_target.pop(to, None)
        if path is None or now - path.used_at >= IDLE_S:
            return None
        path.used_at = now
        self.by_target[to] = path
        return path

    def indirect(self, to: Address) -> bool:
        """Whether a peer is known not to be reached straight."""
        path = self.by_target.get(to)
        return path is not None and path.needed

    def learn(self, to: Address, via: Address, now: float) -> Path | None:
        """The new path; None when there is one already, when it would be of two steps, or when it is not needed."""
        if to in self.by_target or to == via or via in self.by_target:
            return None
        straight_at = self._straight.get(to)
        if straight_at is not None and now - straight_at < STRAIGHT_S:
            return None
        for lost in [path.to for path in self.by_target.values() if path.via == to]:
            del self.by_target[lost]
        while len(self.by_target) >= PATHS_MAX:
            del self.by_target[next(iter(self.by_target))]
        path = self.by_target[to] = Path(to, via, now, now)
        return path

    def turn(self, to: Address, via: Address) -> Path | None:
        """The path to a peer, if there is one, through another relay from now on."""
        path = self.by_target.get(to)
        if path is None or path.via == via or via in self.by_target:
            return None
        path.via = via
        return path

    def forget(self, path: Path) -> bool:
        """Whether it was still there."""
        if self.by_target.get(path.to) is not path:
            return False
        del self.by_target[path.to]
        return True

    def through(self, via: Address) -> list[Path]:
        return [path for path in self.by_target.values() if path.via == via]

    def straight(self, to: Address, now: float) -> None:
        """A peer was reached straight."""
        self._straight.pop(to, None)
        if len(self._straight) >= STRAIGHT_MAX:
            del self._straight[next(iter(self._straight))]
        self._straight[to] = now
