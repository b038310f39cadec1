"""Whether the ends of a spread's edges are still there.

A parent shows every few seconds, to each child it waits for, for which spreads it waits: one message a child,
however many spreads. A child that does not acknowledge is lost; one that does not know the spread says so;
one that is done says it again. A node that is shown nothing for long gives its spreads up. Finished parts are
forgotten after a while. One timer a node, and none while it takes part in nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.ring import NodeRef
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
        "_child_lost",
        "_drop",
        "_messenger",
        "_runtime",
        "_timer",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        branches: dict[bytes, Branch],
        child_lost: Callable[[Branch, Child], None],
        drop: Callable[[Branch, str], None],
    ) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._branches = branches
        self._child_lost = child_lost
        self._drop = drop
        self._timer: Timer | None = None
        messenger.on(SpreadWait, self._waited_for)

    def arm(self) -> None:
        if self._timer is None:
            self._timer = self._runtime.call_later(WAIT_PERIOD_S, self._tick, None)

    def suspected(self, node: NodeRef) -> None:
        """The router has found a neighbour silent."""
        for branch in list(self._branches.values()):
            child = branch._children.get(node.address)
            if child is not None and child.node.id == node.id:
                self._child_lost(branch, child)

    def _tick(self, _: None) -> None:
        self._timer = None
        now = self._runtime.now()
        waiting: dict[Address, list[tuple[Branch, Child]]] = {}
        for branch in list(self._branches.values()):
            if branch._finished:
                if now - branch._touched_at >= FINISHED_KEEP_S:
                    del self._branches[branch.spread]
                continue
            if branch.parent is not None and now - branch._touched_at >= ABANDONED_AFTER_S:
                self._drop(branch, "nobody waits for the answer any more")
                continue
            for child in branch._children.values():
                if not child.done:
                    waiting.setdefault(child.node.address, []).append((branch, child))
        for address, edges in waiting.items():
            for first in range(0, len(edges), EDGES_MAX):
                self._show(address, edges[first : first + EDGES_MAX])
        if self._branches:
            self.arm()

    def _show(self, address: Address, edges: list[tuple[Branch, Child]]) -> None:
        def notice(arrived: bool) -> None:
            if not arrived:
                for branch, child in edges:
                    self._child_lost(branch, child)

        named = tuple((branch.spread, child.version) for branch, child in edges)
        self._messenger.send(address, SpreadWait(named), notice)

    def _waited_for(self, sender: Address, message: SpreadWait) -> None:
        now = self._runtime.now()
        for spread, version in message.edges:
            branch = self._branches.get(spread)
            if branch is None:
                self._messenger.send(sender, SpreadDetach(spread, version))
            elif branch._version != version:
                self._messenger.send(sender, SpreadDetach(spread, version, newer=branch._version > version))
            else:
                branch._touched_at = now
                if branch._finished and branch._outcome is not None:
                    self._messenger.send(sender, branch._outcome)
