"""Spreads over Bamboo on links that are full for seconds: everybody lives, so everybody answers, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from overlay.bamboo import BambooRouter
from overlay.bamboo.static import fill
from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from overlay.ring import BITS
from overlay.spread.account import Account
from overlay.spread.branch import Branch
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig, OverlayNode
from runtime.message import Codec
from runtime.sim import SimHost, World, king
from runtime.sim.links import Fifo

#: The links of PIER's experiments.
LINK_BITS_PER_S = 1.5e6
NODES = 24
#: Objects of a kilobyte that each node puts at once: two seconds of its link, and as much at the owners.
BURST = 150


@dataclass
class Crowd:
    """Members of a ring, each of whom answers with its id."""

    seed: int
    hosts: list[SimHost] = field(default_factory=list)
    nodes: list[OverlayNode] = field(default_factory=list)
    results: list[tuple[bytes | None, Account]] = field(default_factory=list)

    def __post_init__(self) -> None:
        links = Fifo(LINK_BITS_PER_S, LINK_BITS_PER_S)
        self.world = World(
            seed=self.seed, topology=king(self.seed), codec=Codec(OVERLAY_MESSAGES), links=links
        )
        ids = self.world.rng("ids")
        for _ in range(NODES):
            host = self.world.add_host()
            node_id = int.from_bytes(ids.randbytes(BITS // 8), "big")
            node = OverlayNode(host.runtime, host.messenger, node_id, OverlayConfig(in_trees=False))
            node.spread.on_arrival("census", self.answer(node))
            self.hosts.append(host)
            self.nodes.append(node)
        place = {host.address: host.index for host in self.hosts}
        latency_s = self.world.topology.latency_s
        routers = [node.router for node in self.nodes]
        fill(
            [router for router in routers if isinstance(router, BambooRouter)],
            self.world.rng("tables"),
            lambda a, b: 2.0 * latency_s(place[a.me.address], place[b.me.address]),
        )
        for node in self.nodes:
            node.start()
        self.world.run_for(1.0)

    @staticmethod
    def answer(node: OverlayNode) -> Callable[[Branch], None]:
        def arrived(branch: Branch) -> None:
            branch.combine = lambda a, b: a + b
            branch.reply(node.router.me.id)

        return arrived

    def saturate(self) -> None:
        values = self.world.rng("values")
        for number, node in enumerate(self.nodes):
            objects = [
                PutObject(Name("bulk", f"{self.world.now}.{number}.{at}", ""), values.randbytes(1000), 600.0)
                for at in range(BURST)
            ]
            node.dht.put_many(objects)

    def ask(self, root: OverlayNode) -> None:
        root.spread.start(
            "census",
            b"who is there",
            lambda reply, account: self.results.append((reply, account)),
            combine=lambda a, b: a + b,
        )

    def count(self, name: str) -> int:
        return sum(node.router.statistics().get(name, 0) for node in self.nodes)


def test_on_saturated_links_every_living_node_answers_once_and_none_is_called_failed() -> None:
    crowd = Crowd(1)
    for turn in range(2):
        crowd.saturate()
        crowd.world.run_for(1.0)
        crowd.ask(crowd.nodes[turn * 7])
        crowd.world.run_for(3.0)
    crowd.world.run_for(30.0)
    assert crowd.count("suspected") > 0, "the links were not full enough to show anything"
    assert len(crowd.results) == 2
    alive = sorted(node.router.me.id for node in crowd.nodes)
    for reply, account in crowd.results:
        assert account == Account(received=NODES, answered=NODES)
        assert reply is not None
        assert sorted(reply[at : at + 20] for at in range(0, len(reply), 20)) == alive


def test_a_node_that_dies_under_load_is_named_and_nobody_else() -> None:
    crowd = Crowd(3)
    crowd.saturate()
    crowd.world.run_for(1.0)
    crowd.ask(crowd.nodes[0])
    crowd.world.run_for(0.2)
    crowd.world.crash(crowd.hosts[5])
    crowd.world.run_for(40.0)
    (reply, account), dead = crowd.results[0], crowd.nodes[5].router.me.id
    assert (account.answered, account.uncovered) == (NODES - 1, 0)
    assert (*account.failed_nodes, *account.unreachable_nodes) == (dead,)
    assert reply is not None and dead not in [reply[at : at + 20] for at in range(0, len(reply), 20)]
