"""Simulated rings whose nodes keep a roster, every message encoded and decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from overlay.ring import BITS
from overlay.roster.config import RosterConfig
from overlay.roster.member import Profile
from overlay.roster.roster import Roster
from overlay.spread.account import Account
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig, OverlayNode
from runtime.message import Codec
from runtime.sim import SimHost, World, star

R = TypeVar("R")


class Ring:
    """Hosts are named by their number; `crash` and `again` are a kill and a start from what was kept on disk."""

    def __init__(self, count: int, config: RosterConfig | None = None, seed: int = 7) -> None:
        self.world = World(seed=seed, topology=star(0.02), codec=Codec(OVERLAY_MESSAGES), serialise=True)
        self.config = OverlayConfig(roster=config or RosterConfig())
        self.rng = self.world.rng("ids")
        self.ids: list[int] = []
        self.hosts: list[SimHost] = []
        self.nodes: list[OverlayNode] = []
        for number in range(count):
            self.ids.append(self.rng.getrandbits(BITS))
            self.hosts.append(self.world.add_host())
            self.nodes.append(self.make(self.hosts[-1], number))
            self.enter(number)
            self.world.run_for(0.5)
        self.world.run_for(20.0)

    def make(self, host: SimHost, number: int) -> OverlayNode:
        node = OverlayNode(host.runtime, host.messenger, self.ids[number], self.config)
        node.spread.on_arrival("hello", lambda branch: branch.reply())
        roster_of(node).describe(Profile(f"host-{number}", "1.0", "", ("fw",)))
        return node

    def enter(self, number: int) -> None:
        others = [node.router.me.address for node in self.nodes[:number] if node.router.joined]
        if others:
            self.nodes[number].join(others[:1])
        else:
            self.nodes[number].start()

    def crash(self, number: int) -> None:
        self.world.crash(self.hosts[number])

    def again(self, number: int, through: int) -> OverlayNode:
        kept = [(kept.member, kept.since) for kept in roster_of(self.nodes[number]).book]
        self.hosts[number] = self.world.restart(self.hosts[number])
        node = self.nodes[number] = self.make(self.hosts[number], number)
        roster_of(node).load(kept)
        node.join([self.nodes[through].router.me.address])
        return node

    def call(self, start: Callable[[Callable[[R], None]], object], within_s: float = 60.0) -> R:
        results: list[R] = []
        start(results.append)
        until = self.world.now + within_s
        while not results and self.world.now < until:
            self.world.run_for(0.05)
        assert len(results) == 1
        return results[0]

    def spread(self, at: int) -> Account:
        return self.call(
            lambda done: self.nodes[at].spread.start("hello", b"", lambda _, account: done(account))
        )


def roster_of(node: OverlayNode) -> Roster:
    assert node.roster is not None
    return node.roster


def hosts_of(node: OverlayNode) -> set[str]:
    """Host names that a node expects."""
    return {kept.member.host for kept in roster_of(node).book if kept.member.standing.expected}
