"""Distribution trees as soft state: PIER's way to broadcast (3.3.3), several trees with different roots.

Every node routes a registration toward each tree's root id from time to time; the first hop records it as a
child and stops the message. A broadcast goes to the root's owner and from there down the recorded edges.
Children that stop registering are forgotten. Nothing is acknowledged end to end: a broadcast may miss nodes
while edges are out of date, and reach some twice over several trees; both are counted. A node registers as long as
it has a handler or children: trees that nobody listens to cost nothing.
`overlay.spread.spread` knows exactly whom it reached; these trees cost nothing per broadcast to set up and
suit queries that are announced again and again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.dht.loopback import Loopback
from overlay.dht.recent import Recent
from overlay.ring import NodeRef, routing_id
from overlay.router import Passage, Router, Verdict
from overlay.spread.messages import TreeBroadcast, TreeRegister
from runtime.api import Address, Messenger, Runtime, Timer
from runtime.message import Message


@dataclass(frozen=True, slots=True)
class TreesConfig:
    #: More trees: fewer misses and more even load, each at the price of one small message a refresh and node.
    trees: int = 2
    #: How often a node registers; what a change of membership can cost in missed broadcasts.
    refresh_s: float = 30.0
    #: A child is forgotten after so many refreshes without registration.
    refreshes_missed_max: float = 2.5


#: Children of one node in one tree; the paper's well-connected nodes have some hundred.
CHILDREN_MAX = 4096
#: Broadcasts remembered to drop repeats.
RECENT_MAX = 4096
#: Origins whose sequence is followed to notice misses; those heard of longest ago are forgotten.
ORIGINS_MAX = 4096
#: A sequence that jumps further does not go on where it was.
GAP_MAX = 1_000

OnBroadcast = Callable[[NodeRef, bytes], None]


@dataclass(frozen=True, slots=True)
class TreeStatistics:
    registrations: int
    children: int
    broadcasts: int
    received: int
    forwarded: int
    duplicates: int
    #: Gaps in the sequences of the origins heard, minus what came late.
    missed: int
    refused_children: int


class DistributionTrees:
    """This node's place in every tree."""

    __slots__ = (
        "_broadcasts",
        "_children",
        "_duplicates",
        "_forwarded",
        "_handlers",
        "_heard",
        "_messenger",
        "_missed",
        "_received",
        "_recent",
        "_refused",
        "_registrations",
        "_rng",
        "_router",
        "_runtime",
        "_sequence",
        "_started",
        "_timer",
        "config",
    )

    def __init__(
        self, runtime: Runtime, messenger: Messenger, router: Router, config: TreesConfig | None = None
    ) -> None:
        self.config = config or TreesConfig()
        self._runtime = runtime
        self._messenger = Loopback.over(runtime, messenger)
        self._router = router
        self._rng = runtime.rng("spread/trees")
        #: Tree, child's address, when it is forgotten.
        self._children: list[dict[Address, float]] = [{} for _ in range(self.config.trees)]
        self._handlers: dict[str, OnBroadcast] = {}
        self._recent: Recent[tuple[bytes, int]] = Recent(RECENT_MAX)
        self._heard: dict[bytes, int] = {}
        self._sequence = 0
        self._started = False
        self._timer: Timer | None = None
        self._registrations = self._broadcasts = self._received = self._forwarded = 0
        self._duplicates = self._missed = self._refused = 0
        router.on_upcall(TreeRegister, self._register)
        router.on_deliver(TreeRegister, lambda message, passage: None)
        router.on_deliver(TreeBroadcast, self._at_root)
        self._messenger.on(TreeBroadcast, self._from_parent)

    def start(self) -> None:
        """Begins to register; call once the node is a member, or before: it waits."""
        self._started = True
        self._arm()

    def stop(self) -> None:
        self._started = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def on_broadcast(self, topic: str, handler: OnBroadcast) -> None:
        """Calls handler(origin, payload) once for each broadcast of the topic that gets here."""
        self._handlers[topic] = handler
        self._arm()

    def broadcast(self, topic: str, payload: bytes, *, trees: int = 1) -> None:
        """Through so many trees at once; they take turns at being first."""
        self._broadcasts += 1
        self._sequence += 1
        for number in range(min(trees, self.config.trees)):
            tree = (self._sequence + number) % self.config.trees
            message = TreeBroadcast(tree, self._router.me, self._sequence, topic, payload)
            self._router.route(root_id(tree), message)

    def children(self, tree: int) -> list[Address]:
        now = self._runtime.now()
        return [address for address, until in self._children[tree].items() if until > now]

    def statistics(self) -> TreeStatistics:
        return TreeStatistics(
            registrations=self._registrations,
            children=sum(len(self.children(tree)) for tree in range(self.config.trees)),
            broadcasts=self._broadcasts,
            received=self._received,
            forwarded=self._forwarded,
            duplicates=self._duplicates,
            missed=self._missed,
            refused_children=self._refused,
        )

    # --- the trees ---------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Begins to register once there is somebody to register for."""
        if self._started and self._timer is None and (self._handlers or any(self._children)):
            self._timer = self._runtime.call_later(0.0, self._refresh, None)

    def _refresh(self, _: None) -> None:
        self._timer = None
        now = self._runtime.now()
        for children in self._children:
            for address in [address for address, until in children.items() if until <= now]:
                del children[address]
        if not (self._handlers or any(self._children)):
            return
        for tree in range(self.config.trees):
            if self._router.joined:
                self._registrations += 1
                self._router.route(root_id(tree), TreeRegister(tree, self._router.me))
        period_s = self.config.refresh_s * self._rng.uniform(0.75, 1.25)
        self._timer = self._runtime.call_later(period_s, self._refresh, None)

    def _register(self, message: TreeRegister, passage: Passage) -> Verdict | Message:
        """The first hop after the child itself takes it for its own."""
        if passage.locally_sent:
            return Verdict.FORWARD
        if message.tree < self.config.trees:
            children = self._children[message.tree]
            if message.child.address in children or len(children) < CHILDREN_MAX:
                keep_s = self.config.refresh_s * self.config.refreshes_missed_max
                children[message.child.address] = self._runtime.now() + keep_s
                self._arm()
            else:
                self._refused += 1
        return Verdict.STOP

    def _at_root(self, message: TreeBroadcast, passage: Passage) -> None:
        self._take(message)

    def _from_parent(self, sender: Address, message: TreeBroadcast) -> None:
        self._take(message)

    def _take(self, message: TreeBroadcast) -> None:
        if message.tree >= self.config.trees:
            self._refused += 1
            return
        if self._recent.add((message.origin.id, message.sequence)):
            self._received += 1
            self._follow(message.origin.id, message.sequence)
            handler = self._handlers.get(message.topic)
            if handler is not None:
                handler(message.origin, message.payload)
            self._forward(message)
        elif self._recent.add((message.origin.id, -1 - message.sequence * self.config.trees - message.tree)):
            # Known already, but new by this tree: its children may not have it.
            self._duplicates += 1
            self._forward(message)
        else:
            self._duplicates += 1

    def _forward(self, message: TreeBroadcast) -> None:
        self._recent.add((message.origin.id, -1 - message.sequence * self.config.trees - message.tree))
        for address in self.children(message.tree):
            self._forwarded += 1
            self._messenger.send(address, message)

    def _follow(self, origin: bytes, sequence: int) -> None:
        last = self._heard.pop(origin, None)
        if last is None and len(self._heard) >= ORIGINS_MAX:
            del self._heard[next(iter(self._heard))]
        if last is None or abs(sequence - last) > GAP_MAX:
            # Not heard before, or another life of it: nothing is missing that could be known.
            last = sequence
        elif sequence > last + 1:
            self._missed += sequence - last - 1
        elif sequence < last:
            self._missed -= 1
        self._heard[origin] = max(sequence, last)


def root_id(tree: int) -> int:
    """The well-known root of a tree."""
    return routing_id("pier.distribution-tree", str(tree))
