"""Whether the ends of a spread's edges are still there.

A parent shows every few seconds, to each child that has the message, for which spreads it waits: one message a child,
however many spreads. A child that does not acknowledge is asked again (see `below`); one that does not know the spread
says so; one that is done says it again. A node that is shown nothing for long gives its spreads up. Finished parts are
forgotten after a while. One timer a node, none while it takes part in nothing, and a rare one while it only
remembers.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.router import Router
from overlay.spread.branch import Branch, Child
from overlay.spread.messages import SpreadDetach, SpreadWait
from runtime.api import Address, Messenger, Runtime, Timer

#: How often a waiting parent shows itself; well below the time a query's user would call stuck.
WAIT_PERIOD_S = 5.0
#: A parent that showed nothing for so long is gone, and so are those who would have replaced it.
ABANDONED_AFTER_S = 60.0
#: How long a finished part is remembered in case the tree above is rebuilt: as long as failures take to surface.
FINISHED_KEEP_S = 60.0
#: Edges named in one message.
EDGES_MAX = 1024


class Liveness:
    """Watches the edges of one node's spreads."""

    __slots__ = (
        "_branches",
        "_drop",
        "_due_s",
        "_messenger",
        "_router",
        "_runtime",
        "_timer",
        "_unheard",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        branches: dict[bytes, Branch],
        unheard: Callable[[Branch, Child], None],
        drop: Callable[[Branch, str, bool], None],
    ) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._branches = branches
        self._unheard = unheard
        self._drop = drop
        self._timer: Timer | None = None
        self._due_s = 0.0
        messenger.on(SpreadWait, self._waited_for)

    def arm(self, after_s: float = WAIT_PERIOD_S) -> None:
        """Something is waited for from now on."""
        due_s = self._runtime.now() + after_s
        if self._timer is not None:
            if self._due_s <= due_s:
                return
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._runtime.call_later(after_s, self._tick, None)

    def ask(self, branch: Branch, child: Child) -> None:
        """Shows one child at once that it is waited for."""
        self._show(child.node.address, [(branch, child)])

    def _tick(self, _: None) -> None:
        self._timer = None
        now = self._runtime.now()
        waiting: dict[Address, list[tuple[Branch, Child]]] = {}
        next_s = FINISHED_KEEP_S
        for branch in list(self._branches.values()):
            if branch._finished:
                if now - branch._touched_at >= FINISHED_KEEP_S:
                    del self._branches[branch.spread]
                next_s = min(next_s, max(WAIT_PERIOD_S, branch._touched_at + FINISHED_KEEP_S - now))
                continue
            if branch.parent is not None and now - branch._touched_at >= ABANDONED_AFTER_S:
                self._drop(branch, "nobody waits for the answer any more", False)
                continue
            next_s = WAIT_PERIOD_S
            for child in branch._children.values():
                if child.received and not child.done:
                    waiting.setdefault(child.node.address, []).append((branch, child))
        for address, edges in waiting.items():
            for first in range(0, len(edges), EDGES_MAX):
                self._show(address, edges[first : first + EDGES_MAX])
        if self._branches:
            self.arm(next_s)

    def _show(self, address: Address, edges: list[tuple[Branch, Child]]) -> None:
        def notice(arrived: bool) -> None:
            for branch, child in edges:
                if arrived:
                    child.heard_at = self._runtime.now()
                else:
                    self._unheard(branch, child)

        named = tuple((branch.spread, child.version) for branch, child in edges)
        self._messenger.send(address, SpreadWait(named), notice)

    def _waited_for(self, sender: Address, message: SpreadWait) -> None:
        now, me = self._runtime.now(), self._router.me.id
        for spread, version in message.edges:
            branch = self._branches.get(spread)
            if branch is None:
                self._messenger.send(sender, SpreadDetach(spread, version, by=me))
            elif branch._version != version:
                self._messenger.send(sender, SpreadDetach(spread, version, branch._version > version, me))
            else:
                branch._touched_at = now
                if branch._finished and branch._outcome is not None:
                    self._messenger.send(sender, branch._outcome)
