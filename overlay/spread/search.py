"""Finding somebody in a part of the ring by lookups, when the node that was to cover it is gone.

The owner of the first id may lie before the part; its arc then says how far nobody else can be, and the
search goes on after it. Works on any router: only lookups and the arcs they return are used.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.ring import SPACE, Arc, NodeRef, clockwise, from_wire
from overlay.router import Owner, Router
from runtime.api import Runtime

#: Two steps settle it in a ring at rest; more are only needed while arcs move.
STEPS_MAX = 8
PAUSE_S = 0.5


class Search:
    """Calls done(node, True) with a member whose id lies in the part; done(None, True) when nobody is there;
    done(None, False) when lookups gave no answer."""

    __slots__ = (
        "_at",
        "_done",
        "_part",
        "_router",
        "_runtime",
        "_steps",
    )

    def __init__(
        self, runtime: Runtime, router: Router, part: Arc, done: Callable[[NodeRef | None, bool], None]
    ) -> None:
        self._runtime = runtime
        self._router = router
        self._part = part
        self._done = done
        self._steps = 0
        self._at = part.start

    def start(self) -> None:
        self._steps += 1
        if self._steps > STEPS_MAX:
            self._done(None, False)
        else:
            self._router.lookup(self._at, self._found)

    def _again(self, _: None) -> None:
        self.start()

    def _found(self, owner: Owner | None) -> None:
        if owner is None or not owner.arc.contains(self._at):
            self._runtime.call_later(PAUSE_S, self._again, None)
            return
        rest = Arc(self._at, self._part.end)
        if rest.contains(from_wire(owner.node.id)):
            self._done(owner.node, True)
        elif owner.arc.width() >= SPACE or clockwise(self._at, owner.arc.end) >= rest.width():
            self._done(None, True)
        else:
            self._at = owner.arc.end
            self.start()
