"""Onto the ring and back: seeds that start together, a ring that is lost and returns, names that move."""

from __future__ import annotations

from overlay.ring import BITS, SPACE
from overlay.stack import OVERLAY_MESSAGES, OverlayNode
from runtime.message import Codec
from runtime.sim import SimHost, World, star

#: Longer than any timeout, quarantine or retry period of the overlay.
LONG_S = 3 * 3600.0


class Hosts:
    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed=seed, topology=star(), codec=Codec(OVERLAY_MESSAGES))
        self._rng = self.world.rng("ids")

    def node(self, host: SimHost | None = None) -> OverlayNode:
        host = host or self.world.add_host()
        return OverlayNode(host.runtime, host.messenger, self._rng.getrandbits(BITS))

    def one_ring(self, nodes: list[OverlayNode]) -> bool:
        """Whether the arcs of exactly these nodes cover the circle."""
        if not all(node.router.joined for node in nodes):
            return False
        return sum(node.router.arc().width() for node in nodes) == SPACE

    def wait(self, nodes: list[OverlayNode], within_s: float) -> None:
        until = self.world.now + within_s
        while not self.one_ring(nodes):
            assert self.world.now < until, f"no ring of {len(nodes)} within {within_s} s"
            self.world.run_for(1.0)


def test_every_seed_gone_for_hours_then_back() -> None:
    """The seeds return as new nodes, under addresses that the others learn from the names only."""
    hosts = Hosts()
    seeds = [hosts.node() for _ in range(2)]
    seeds[0].start()
    seeds[1].join([seeds[0].router.me.address])
    others = [hosts.node() for _ in range(2)]
    for node in others:
        node.join([seed.router.me.address for seed in seeds])
    hosts.wait([*seeds, *others], 60.0)
    for host in hosts.world.hosts[:2]:
        hosts.world.crash(host)
    hosts.wait(others, 600.0)
    # The last two lose each other as well.
    hosts.world.crash(hosts.world.hosts[2])
    (left,) = others[1:]
    hosts.wait([left], 600.0)
    hosts.world.run_for(LONG_S)
    back = hosts.node()
    back.start()
    left.join([back.router.me.address])
    hosts.wait([back, left], 120.0)


def test_a_joiner_waits_for_its_seed_as_long_as_it_takes() -> None:
    hosts = Hosts()
    late = hosts.world.add_host()
    joiner = hosts.node()
    joiner.join([late.address])
    hosts.world.run_for(LONG_S)
    assert not joiner.router.joined
    seed = hosts.node(late)
    seed.start()
    hosts.wait([seed, joiner], 120.0)


def test_seeds_that_could_not_find_each_other_become_one_ring() -> None:
    """Both tried the other in vain, then started: what each does after `SEED_WAIT_S`."""
    hosts = Hosts()
    first, second = hosts.node(), hosts.node()
    first.join([second.router.me.address])
    second.join([first.router.me.address])
    hosts.world.run_for(3.0)
    first.start()
    second.start()
    hosts.wait([first, second], 60.0)
