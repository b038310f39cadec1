"""One overlay node put together: router, objects, DHT verbs, publisher, spreads, distribution trees.

What a query processor needs of the network, made from a runtime and a messenger. Which router is at work is a
matter of configuration; nothing above it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from overlay.bamboo import MESSAGES as BAMBOO_MESSAGES
from overlay.bamboo import BambooConfig, BambooRouter
from overlay.dht.loopback import Loopback
from overlay.dht.messages import DHT_MESSAGES
from overlay.dht.publisher import Publisher, PublisherStatistics
from overlay.dht.recall import Recall
from overlay.dht.verbs import Dht, DhtConfig, DhtStatistics
from overlay.loads import LoadWords
from overlay.relay import RELAY_MESSAGES, Relays, RelayStatistics
from overlay.ring import NodeRef
from overlay.roster.config import RosterConfig
from overlay.roster.messages import ROSTER_MESSAGES
from overlay.roster.namesakes import Namesakes
from overlay.roster.roster import Roster, RosterStatistics
from overlay.router import Router
from overlay.spread.messages import SPREAD_MESSAGES
from overlay.spread.spread import Spread, SpreadStatistics
from overlay.spread.trees import DistributionTrees, TreesConfig, TreeStatistics
from runtime.api import Address, Messenger, Runtime, Timer
from runtime.message import Message, NotUnderstood

#: Everything overlay nodes say to each other, for the codec.
OVERLAY_MESSAGES: tuple[type[Message], ...] = (
    *BAMBOO_MESSAGES,
    *DHT_MESSAGES,
    *SPREAD_MESSAGES,
    *ROSTER_MESSAGES,
    *RELAY_MESSAGES,
    NotUnderstood,
)
#: A leaving node gives its objects away for at most so long.
LEAVE_MAX_S = 30.0


class StackRouter(Router, Protocol):
    """What the stack needs of a router beyond the interface: its counts, and a word with whoever looks for ways around
    broken paths."""

    def statistics(self) -> Mapping[str, int]: ...

    def on_unanswered(self, handler: Callable[[NodeRef], None]) -> None:
        """Calls handler with each node that left a question unanswered, before it is taken out of use."""
        ...

    def way_found(self, address: Address) -> None:
        """A silent node may be heard by another way now."""
        ...


@dataclass(frozen=True, slots=True)
class OverlayConfig:
    #: Which of `ROUTERS`.
    router: str = "bamboo"
    bamboo: BambooConfig = field(default_factory=BambooConfig)
    dht: DhtConfig = field(default_factory=DhtConfig)
    trees: TreesConfig = field(default_factory=TreesConfig)
    #: Register in the distribution trees; without, broadcasts by tree do not reach this node.
    in_trees: bool = True
    #: Who belongs to the ring; None: nobody keeps count, and who is not there is not missed.
    roster: RosterConfig | None = None


def _bamboo(runtime: Runtime, messenger: Messenger, node_id: int, config: OverlayConfig) -> StackRouter:
    return BambooRouter(runtime, messenger, node_id, config.bamboo)


ROUTERS: Mapping[str, Callable[[Runtime, Messenger, int, OverlayConfig], StackRouter]] = {"bamboo": _bamboo}


@dataclass(frozen=True, slots=True)
class OverlayStatistics:
    router: Mapping[str, int]
    dht: DhtStatistics
    publisher: PublisherStatistics
    spread: SpreadStatistics
    trees: TreeStatistics
    relay: RelayStatistics
    roster: RosterStatistics | None = None


class OverlayNode:
    """A member of the ring."""

    __slots__ = (
        "config",
        "dht",
        "loads",
        "messenger",
        "publisher",
        "recall",
        "roster",
        "router",
        "runtime",
        "spread",
        "trees",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        node_id: int,
        config: OverlayConfig | None = None,
        peer_id: Callable[[Address], bytes | None] | None = None,
    ) -> None:
        """`peer_id` is the id that the node at an address has proven, where nodes do that."""
        config = config or OverlayConfig()
        if config.router not in ROUTERS:
            raise ValueError(f"router: there is no {config.router!r}; there are {', '.join(ROUTERS)}")
        self.config = config
        self.runtime = runtime
        #: What everything on this node sends with: it finds a way where the straight path is broken.
        self.messenger = relays = Relays(runtime, messenger)
        self.router = ROUTERS[config.router](runtime, relays, node_id, config)
        self._find_ways(relays)
        wire = Loopback(runtime, relays)
        self.dht = Dht(runtime, wire, self.router, config.dht)
        self.publisher = Publisher(runtime, self.dht)
        self.spread = Spread(runtime, wire, self.router)
        self.loads = LoadWords(self.dht, self.spread)
        self.recall = Recall(runtime, self.router, self.spread, self.publisher, self.dht.doubts)
        self.trees = DistributionTrees(runtime, wire, self.router, config.trees)
        self.roster: Roster | None = None
        if config.roster is not None:
            namesakes = Namesakes(runtime, messenger, self.router, peer_id)
            self.roster = Roster(runtime, wire, self.router, self.spread, config.roster, namesakes)

    def start(self) -> None:
        """Becomes the first member of a new ring."""
        if self.roster is not None:
            self.roster.begin()
        self.router.start()
        self._go()

    def join(self, gateways: Sequence[Address]) -> None:
        """Joins through any member, for as long as it takes. A member is only told whom to ask when it has lost
        the ring."""
        member = self.router.joined
        self.router.join(gateways)
        if not member:
            if self.roster is not None:
                self.roster.begin(gateways)
            self._go()

    def leave(self, done: Callable[[], None]) -> None:
        """Gives its objects to those who will own them, says goodbye, and calls done."""
        timer: Timer | None = None

        failed_before = self.dht.statistics().handover.failed

        def go(in_time: bool = True) -> None:
            nonlocal timer
            if timer is not None:
                timer.cancel()
                timer = None
                if self.roster is not None:
                    self.roster.leave()
                failed = self.dht.statistics().handover.failed - failed_before
                self.router.leave(in_time and not failed and not self.dht.doubts)
                done()

        timer = self.runtime.call_later(LEAVE_MAX_S, lambda _: go(in_time=False), None)
        self.trees.stop()
        if self.router.joined:
            self.dht.leave(go)
        else:
            self.runtime.call_later(0.0, lambda _: go(), None)

    def statistics(self) -> OverlayStatistics:
        return OverlayStatistics(
            router=self.router.statistics(),
            dht=self.dht.statistics(),
            publisher=self.publisher.statistics(),
            spread=self.spread.statistics(),
            trees=self.trees.statistics(),
            roster=None if self.roster is None else self.roster.statistics(),
            relay=self.messenger.statistics(),
        )

    def _find_ways(self, relays: Relays) -> None:
        """Silence at the router makes the relays look for a path; a path found makes the router ask again."""
        router = self.router
        relays.helpers = lambda: [each.node.address for each in router.neighbours() if each.role != "suspect"]
        router.on_unanswered(lambda node: relays.seek(node.address))
        relays.found.append(router.way_found)

    def _go(self) -> None:
        if self.config.in_trees:
            self.trees.start()
