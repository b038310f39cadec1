"""As what a node answers for objects it stores: for which arc, alone, and with everything in it or not.

Whoever reads a part of a table at this node takes its standing first. It waits a little where the neighbours have to be
asked (`Router.confirm`), or where objects of the arc are still on their way here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.dht.doubts import Doubts
from overlay.ring import Arc
from overlay.router import Router
from runtime.api import Runtime, Timer

#: Who may wait at a time; beyond that the standing is taken as it is.
WAITING_MAX = 4_096


@dataclass(frozen=True, slots=True)
class Standing:
    """None: the neighbours have not agreed that this node has an arc."""

    arc: Arc | None
    #: Nothing that was published may be missing in the arc.
    whole: bool

    def has(self, identifier: int) -> bool:
        return self.arc is not None and self.arc.contains(identifier)


class Standings:
    """Takes this node's standing for whoever asks."""

    __slots__ = ("_doubts", "_router", "_runtime", "_waiting")

    def __init__(self, runtime: Runtime, router: Router, doubts: Doubts) -> None:
        self._runtime = runtime
        self._router = router
        self._doubts = doubts
        #: Who waits for doubts to end.
        self._waiting: dict[_Wait, None] = {}
        doubts.ended.append(self._look_again)

    def now(self) -> Standing:
        """Without asking anybody."""
        arc = self._router.certain()
        return Standing(arc, arc is not None and not self._doubts.touch(arc))

    def is_sure_of(self, identifier: int) -> bool:
        """Whether an id is in the arc and nothing can be missing there."""
        arc = self._router.certain()
        return arc is not None and arc.contains(identifier) and not self._doubts.contain(identifier)

    def is_settled(self, identifier: int) -> bool:
        """Whether what is made from published objects is there as well (`doubts`)."""
        return self.is_sure_of(identifier) and self._doubts.is_settled(identifier)

    def take(self, done: Callable[[Standing], None], wait_s: float) -> None:
        """Calls done with the standing, as soon as it is whole or after so long; never before this returns."""
        until = self._runtime.now() + wait_s

        def confirmed(arc: Arc | None) -> None:
            left_s = until - self._runtime.now()
            if (
                arc is None
                or left_s <= 0.0
                or not self._doubts.touch(arc)
                or len(self._waiting) >= WAITING_MAX
            ):
                done(self.now())
                return
            wait = _Wait(done)
            self._waiting[wait] = None
            wait.timer = self._runtime.call_later(left_s, self._end, wait)

        self._router.confirm(confirmed, wait_s)

    def _look_again(self) -> None:
        if not self._waiting:
            return
        arc = self._router.certain()
        if arc is not None and self._doubts.touch(arc):
            return
        for wait in list(self._waiting):
            if wait.timer is not None:
                wait.timer.cancel()
            # In a turn of its own: doubts end in the midst of other work.
            wait.timer = self._runtime.call_later(0.0, self._end, wait)

    def _end(self, wait: _Wait) -> None:
        if self._waiting.pop(wait, self) is None:
            wait.done(self.now())


@dataclass(slots=True, eq=False)
class _Wait:
    done: Callable[[Standing], None]
    timer: Timer | None = None
