"""The arc this node owns, kept at hand: every operation asks, and arcs change seldom."""

from __future__ import annotations

from overlay.ring import MASK, Arc
from overlay.router import Router


class OwnArc:
    """Follows `Router.on_arc`. Owns nothing while the node is not a member."""

    __slots__ = ("_start", "_width", "member")

    def __init__(self, router: Router) -> None:
        self.member = False
        self._start = 0
        self._width = 0
        self._changed(None, router.arc() if router.joined else None)
        router.on_arc(self._changed)

    def owns(self, identifier: int) -> bool:
        return (identifier - self._start) & MASK < self._width

    def _changed(self, _: Arc | None, new: Arc | None) -> None:
        self.member = new is not None
        self._start, self._width = (new.start, new.width()) if new is not None else (0, 0)
