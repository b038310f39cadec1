"""How a node gets onto the ring and back onto it: names in, members to join through out, for as long as it runs.

Names are looked up again and again, because what they lead to changes: a resolver that comes up late, a seed that
returns under another address. A node that is one of its own join addresses is a *seed*. It tries the others first,
and starts a ring when none of them lets it in for a while, so that a cluster whose hosts all have the same list
comes up from nothing: the first of the list starts, the others wait for it in turn. Seeds that started each their own
all the same ask each other now and then, and become one ring. Any other node waits for a seed for ever. A member whose
whole ring has gone keeps asking the addresses of its list.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from overlay.stack import OverlayNode
from pier_node.journal import Journal
from pier_node.resolve import resolve_members

#: How often names are looked up, and who they lead to is asked for this node's neighbours if it is a stranger: while
#: the node is not on the ring, by a seed, by any other member.
RESOLVE_PERIOD_S = 5.0
RESOLVE_SEED_PERIOD_S = 10.0
RESOLVE_MEMBER_PERIOD_S = 60.0
#: How long the first seed tries other members before it starts a ring; the second waits twice as long, and so on. And
#: how often it looks whether it has to.
SEED_WAIT_S = 3.0
_SEED_LOOK_S = 0.1


class Joining:
    """One node's way onto the ring."""

    def __init__(self, overlay: OverlayNode, own: str, names: Sequence[str], journal: Journal) -> None:
        """`own` is what other nodes reach this one under."""
        self._overlay = overlay
        self._own = own
        self._names = names
        self._journal = journal
        self._known: list[str] = []
        self._problems: list[str] = []

    async def run(self) -> None:
        """Until cancelled; without names it only starts a ring."""
        if not self._names:
            self._start()
            return
        found = await self._look()
        if self._own in found:
            await self._wait_for_others(SEED_WAIT_S * (1 + found.index(self._own)))
        while True:
            await trio.sleep(self._period_s(found))
            found = await self._look()

    def _period_s(self, found: Sequence[str]) -> float:
        if not self._overlay.router.joined:
            return RESOLVE_PERIOD_S
        return RESOLVE_SEED_PERIOD_S if self._own in found else RESOLVE_MEMBER_PERIOD_S

    async def _look(self) -> list[str]:
        """Resolves the names and tells the overlay who is not this node; returns all."""
        found, problems = await resolve_members(self._names)
        for problem in problems:
            if problem not in self._problems:
                self._journal.warning("cannot resolve a member to join", member=problem)
        self._problems = problems
        members = [member for member in found if member != self._own]
        if members != self._known:
            self._known = members
            self._journal.info("members to join through", members=",".join(members))
        elif not self._overlay.router.joined:
            # The join that is under way is tried again by itself.
            return found
        if members:
            self._overlay.join(members)
        return found

    async def _wait_for_others(self, wait_s: float) -> None:
        with trio.move_on_after(wait_s if self._known else 0.0):
            while not self._overlay.router.joined:
                await trio.sleep(_SEED_LOOK_S)
        if not self._overlay.router.joined:
            self._start()

    def _start(self) -> None:
        self._journal.info("starting a ring")
        self._overlay.start()
