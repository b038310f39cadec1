"""Simulated rings of nodes under the DHT, over the perfect router."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from overlay.dht.messages import DHT_MESSAGES
from overlay.dht.verbs import Dht, DhtConfig
from overlay.ring import SPACE
from overlay.router import Router
from overlay.spread.messages import SPREAD_MESSAGES
from overlay.spread.spread import Spread
from overlay.spread.trees import DistributionTrees
from runtime.message import Codec
from runtime.sim import SimHost, World, star
from tests.overlay.perfect import Hop, Membership, PerfectRouter

R = TypeVar("R")


class Node:
    def __init__(self, host: SimHost, identifier: int, members: Membership, config: DhtConfig) -> None:
        self.host = host
        self.id = identifier
        self.runtime = host.runtime
        self.router = PerfectRouter(host.runtime, host.messenger, identifier, members)
        as_protocol: Router = self.router
        self.dht = Dht(host.runtime, host.messenger, as_protocol, config)
        self.spread = Spread(host.runtime, host.messenger, as_protocol)
        self.trees = DistributionTrees(host.runtime, host.messenger, as_protocol)


class Ring:
    """Nodes evenly spaced with a little disorder, all members from the start."""

    def __init__(self, count: int, *, config: DhtConfig | None = None, seed: int = 1) -> None:
        self.world = World(
            seed=seed, topology=star(), codec=Codec([*DHT_MESSAGES, *SPREAD_MESSAGES, Hop]), serialise=True
        )
        self.members = Membership()
        self.config = config or DhtConfig()
        self.rng = self.world.rng("ring")
        self.nodes = [
            self.make(SPACE // count * place + self.rng.getrandbits(150)) for place in range(count)
        ]  # fmt: skip
        for node in self.nodes:
            node.router.start()

    def make(self, identifier: int) -> Node:
        return Node(self.world.add_host(), identifier, self.members, self.config)

    def kill(self, node: Node, *, noticed: bool = True) -> None:
        """Crashes a node; the others notice at once, or later by `notice`."""
        self.world.crash(node.host)
        self.nodes.remove(node)
        if noticed:
            self.notice(node)

    def notice(self, node: Node) -> None:
        self.members.remove(node.router, suspect=True)

    def owner(self, key: int) -> Node:
        owner = self.members.owner(key)
        return next(node for node in self.nodes if node.id == owner)

    def call(self, start: Callable[[Callable[[R], None]], None], within_s: float = 60.0) -> R:
        """Runs the world until an operation has called back."""
        results: list[R] = []
        start(results.append)
        assert not results, "called back before the call returned"
        until = self.world.now + within_s
        while not results and self.world.now < until:
            self.world.run_for(0.01)
        assert len(results) == 1, f"{len(results)} results within {within_s} s"
        return results[0]
