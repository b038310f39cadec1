"""The whole overlay node on the shipped router, every message encoded and decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, PutObject
from overlay.objects.name import Name
from overlay.ring import BITS
from overlay.spread.account import Account
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig, OverlayNode
from runtime.message import Codec
from runtime.sim import SimHost, World, star

R = TypeVar("R")


class Ring:
    def __init__(self, count: int) -> None:
        self.world = World(seed=5, topology=star(0.02), codec=Codec(OVERLAY_MESSAGES), serialise=True)
        self.rng = self.world.rng("ids")
        self.hosts: list[SimHost] = []
        self.nodes: list[OverlayNode] = []
        for _ in range(count):
            self.add()
            self.world.run_for(0.5)
        self.world.run_for(20.0)

    def add(self) -> OverlayNode:
        host = self.world.add_host()
        node = OverlayNode(host.runtime, host.messenger, self.rng.getrandbits(BITS))
        if self.nodes:
            node.join([self.nodes[0].router.me.address])
        else:
            node.start()
        self.hosts.append(host)
        self.nodes.append(node)
        return node

    def kill(self, at: int) -> None:
        self.world.crash(self.hosts.pop(at))
        del self.nodes[at]

    def call(self, start: Callable[[Callable[[R], None]], object], within_s: float = 60.0) -> R:
        results: list[R] = []
        start(results.append)
        until = self.world.now + within_s
        while not results and self.world.now < until:
            self.world.run_for(0.02)
        assert len(results) == 1
        return results[0]

    def census(self) -> Account:
        return self.call(
            lambda done: self.nodes[0].spread.start("census", b"", lambda _, account: done(account))
        )


@pytest.fixture(scope="module")
def puts() -> list[PutObject]:
    return [PutObject(Name("t", f"k{n}", "s"), b"%d" % n, 200.0) for n in range(200)]


def found(ring: Ring, count: int) -> int:
    gets = [GetObject("t", f"k{n}") for n in range(count)]
    results = ring.call(lambda done: ring.nodes[1].dht.get_many(gets, done))
    assert all(got.code is Code.OK for got in results)
    return sum(len(got.objects) for got in results)


def test_a_ring_from_nothing_to_kills_and_goodbyes(puts: list[PutObject]) -> None:
    ring = Ring(24)
    assert all(node.router.joined for node in ring.nodes)
    for node in ring.nodes:
        node.spread.on_arrival("census", lambda branch: branch.reply())
    publisher = ring.nodes[0].publisher
    assert ring.call(lambda done: publisher.publish(puts, done, period_s=20.0)) == [Code.OK] * 200
    assert found(ring, 200) == 200
    assert ring.census() == Account(received=24, answered=24)
    newcomer = ring.add()
    newcomer.spread.on_arrival("census", lambda branch: branch.reply())
    while not newcomer.router.joined:
        ring.world.run_for(0.1)
    assert found(ring, 200) == 200, "objects follow their arc"
    leaver = ring.nodes.pop(5)
    ring.call(lambda done: leaver.leave(lambda: done(True)))
    ring.world.crash(ring.hosts.pop(5))
    ring.world.run_for(5.0)
    assert found(ring, 200) == 200, "a goodbye loses nothing"
    for _ in range(6):
        ring.kill(4)
    ring.world.run_for(25.0)
    assert found(ring, 200) == 200, "one renewal period after a quarter was killed"
    assert ring.census().answered == 18
    statistics = ring.nodes[0].statistics()
    assert statistics.publisher.republished > 0
    assert statistics.dht.requests.under_way == 0
    assert statistics.router


def test_gets_ride_through_the_death_of_a_quarter(puts: list[PutObject]) -> None:
    ring = Ring(16)
    copied = [PutObject(put.name, put.value, 200.0, copies=3) for put in puts]
    assert ring.call(lambda done: ring.nodes[0].dht.put_many(copied, done)) == [Code.OK] * 200
    assert found(ring, 200) == 200
    for _ in range(4):
        ring.kill(3)
    began = ring.world.now
    ended: list[tuple[float, int]] = []
    for n in range(200):
        ring.nodes[1].dht.get(
            GetObject("t", f"k{n}"), lambda got: ended.append((ring.world.now - began, len(got.objects)))
        )
    ring.world.run_for(30.0)
    assert [count for _, count in ended] == [1] * 200
    latencies = sorted(latency for latency, _ in ended)
    assert latencies[197] < 1.5, "the first batch after the blow waits for the ring to notice"


def test_an_unknown_router_is_the_callers_mistake() -> None:
    world = World(seed=1, topology=star(0.02), codec=Codec(OVERLAY_MESSAGES))
    host = world.add_host()
    with pytest.raises(ValueError, match="there is no 'pastry'"):
        OverlayNode(host.runtime, host.messenger, 1, OverlayConfig(router="pastry"))
