"""Silence, churn, mass death, partitions, hearsay and hostile messages."""

from __future__ import annotations

import pytest

from overlay.bamboo import BambooConfig, BambooRouter
from overlay.bamboo.messages import Down, Hop, LeafTell, Ping, Pong, Receipt, RowReply
from overlay.ring import NodeRef, from_wire, to_wire
from overlay.router import Passage
from pier_node.scenario.routing_ring import ROUTING_MESSAGES, Errand, RoutingRing
from runtime.message import Codec
from runtime.sim import Churn, SimHost, World, king


def make_ring(count: int, seed: int = 1, **config: object) -> RoutingRing:
    world = World(seed=seed, topology=king(seed, sites=64), codec=Codec(ROUTING_MESSAGES))
    ring = RoutingRing(world, BambooConfig(**config))  # type: ignore[arg-type]
    for _ in range(count):
        ring.build(world.add_host())
        world.run_for(0.1)
    world.run_for(20.0)
    return ring


def look(ring: RoutingRing, count: int, every_s: float = 0.05) -> None:
    for _ in range(count):
        ring.look()
        ring.world.run_for(every_s)
    ring.world.run_for(20.0)


def host_of(ring: RoutingRing, router: BambooRouter) -> SimHost:
    return ring.world.by_address[router.me.address]


def test_a_silent_owner_is_passed_by_within_its_timeouts() -> None:
    """No fixed deadline: the message reaches the next owner after some round trips."""
    ring = make_ring(40)
    origin = ring.random_member()
    victim = next(router for router in ring.routers.values() if router is not origin)
    key = from_wire(victim.me.id)
    ring.world.crash(host_of(ring, victim))
    heir = ring.owner(key)
    found: list[tuple[float, int]] = []
    began = ring.world.now
    origin.lookup(key, lambda owner: found.append((ring.world.now - began, from_wire(owner.node.id))))  # type: ignore[union-attr]
    ring.world.run_for(10.0)
    ((took_s, owner),) = found
    assert owner == heir
    assert took_s < 3.0
    roles = {each.role for each in ring.router_of(heir).neighbours() if each.node == victim.me}
    assert roles <= {"suspect"}


def test_on_suspect_names_the_silent_neighbour_and_the_arc_grows() -> None:
    ring = make_ring(20)
    place = 5
    watcher, victim = ring.router_of(ring.members[place]), ring.router_of(ring.members[place + 1])
    suspects: list[NodeRef] = []
    arcs: list[object] = []
    watcher.on_suspect(suspects.append)
    watcher.on_arc(lambda old, new: arcs.append((old, new)))
    before = watcher.arc()
    ring.world.crash(host_of(ring, victim))
    ring.world.run_for(40.0)
    assert victim.me in suspects
    assert arcs
    assert watcher.arc().width() > before.width()
    assert ring.wrong_leaf_sets() == 0


def test_lookups_stay_right_under_heavy_churn() -> None:
    ring = make_ring(50)
    world = ring.world
    churn = Churn(world, ring.build, hosts=list(world.hosts), session_mean_s=60.0, replace_s_max=2.0)
    world.run_for(60.0)
    for _ in range(400):
        ring.look()
        ring.send()
        world.run_for(0.2)
    churn.stop()
    world.run_for(40.0)
    tally = ring.tally
    assert churn.ended > 50
    assert tally.total > 350
    assert tally.right_share() >= 0.97
    assert tally.delivered_wrong <= 0.03 * tally.delivered_right
    assert tally.delivered_twice <= 0.01 * tally.delivered_right
    assert tally.latency_s.figures()["p99"] < 4.0
    assert ring.wrong_leaf_sets() == 0


def test_half_killed_at_once_heals_within_two_minutes() -> None:
    ring = make_ring(120)
    rng = ring.world.rng("kill")
    for host in rng.sample(ring.world.hosts, 60):
        ring.world.crash(host)
    ring.world.run_for(120.0)
    look(ring, 200)
    assert (ring.tally.right, ring.tally.wrong, ring.tally.failed) == (200, 0, 0)
    assert ring.rings() == 1
    assert ring.wrong_leaf_sets() == 0


def test_a_partition_makes_two_rings_and_its_end_makes_them_one() -> None:
    ring = make_ring(40)
    world = ring.world
    left = [host.index for host in world.hosts[:20]]
    right = [host.index for host in world.hosts[20:]]
    cut = world.faults.partitions.cut(left, right)
    world.run_for(600.0)
    assert ring.rings() == 2
    world.faults.partitions.heal(cut)
    world.run_for(400.0)
    assert ring.rings() == 1
    assert ring.wrong_leaf_sets() == 0
    look(ring, 50)
    assert ring.tally.right == 50


def test_a_node_that_restarts_at_its_address_with_its_id_joins_again() -> None:
    ring = make_ring(20)
    world = ring.world
    victim = ring.random_member()
    gateway = next(router for router in ring.routers.values() if router is not victim)
    host = world.restart(host_of(ring, victim))
    again = BambooRouter(host.runtime, host.messenger, from_wire(victim.me.id), BambooConfig())
    again.join([gateway.me.address])
    world.run_for(10.0)
    assert again.joined
    assert again.arc() == victim.arc()


def test_hearsay_enters_no_table_without_an_answer() -> None:
    ring = make_ring(20)
    world = ring.world
    victim = ring.random_member()
    liar = world.add_host()
    ghosts = tuple(
        NodeRef(to_wire((from_wire(victim.me.id) + offset) % (1 << 160)), f"10.9.9.{number}:1")
        for number, offset in enumerate([1, 2, 1 << 100, 1 << 157, 1 << 159])
    )
    liar.messenger.send(victim.me.address, LeafTell(ghosts))
    liar.messenger.send(victim.me.address, RowReply(ghosts))
    before = victim.arc()
    for _ in range(40):
        world.run_for(0.5)
        assert not {ghost.address for ghost in ghosts} & set(victim.core.view.peers)
    assert victim.arc() == before
    assert victim.statistics()["candidates_silent"] >= 2


def test_a_false_alarm_harms_nobody() -> None:
    ring = make_ring(20)
    victim, other = ring.router_of(ring.members[3]), ring.router_of(ring.members[4])
    liar = ring.world.add_host()
    for _ in range(50):
        liar.messenger.send(victim.me.address, Down(other.me))
    ring.world.run_for(10.0)
    assert other.me in [neighbour.node for neighbour in victim.neighbours()]
    assert victim.statistics().get("suspected", 0) == 0


def test_malformed_payloads_are_dropped_and_counted() -> None:
    ring = make_ring(5)
    victim = ring.random_member()
    stranger = ring.world.add_host()
    origin = NodeRef(to_wire(7), stranger.address)
    for payload in (None, [], ["x"], [40], [40, "not a number"], [3], 5, {"a": 1}):
        stranger.messenger.send(
            victim.me.address, Hop(victim.me.id, origin, to_wire(7), 1, 0, False, payload)
        )
    stranger.messenger.send(victim.me.address, Hop(victim.me.id, origin, to_wire(7), 2, 0, False, [999, 1]))
    stranger.messenger.send(victim.me.address, Pong(to_wire(9), 1))
    ring.world.run_for(5.0)
    counts = victim.statistics()
    assert counts["dropped_malformed"] == 8
    assert counts["dropped_unhandled"] == 1


def test_second_copies_are_not_delivered_again_but_receipted() -> None:
    ring = make_ring(10)
    owner = ring.random_member()
    delivered: list[int] = []

    def deliver(errand: Errand, passage: Passage) -> None:
        delivered.append(errand.number)

    owner.on_deliver(Errand, deliver)
    sender = ring.world.add_host()
    receipts: list[int] = []
    sender.messenger.on(Receipt, lambda address, receipt: receipts.append(receipt.sequence))
    origin = NodeRef(to_wire(7), sender.address)
    for _ in range(3):
        sender.messenger.send(owner.me.address, Hop(owner.me.id, origin, to_wire(7), 5, 1, True, Errand(1)))
        ring.world.run_for(1.0)
    assert delivered == [1]
    assert receipts == [5, 5, 5]


def test_a_scout_is_no_neighbour_yet() -> None:
    ring = make_ring(10)
    stranger = ring.world.add_host()
    for router in list(ring.routers.values()):
        stranger.messenger.send(router.me.address, Ping(to_wire(12345), 1, False))
    ring.world.run_for(5.0)
    assert all(stranger.address not in router.core.view.peers for router in ring.routers.values())


@pytest.mark.slow
def test_an_hour_of_partition_heals() -> None:
    ring = make_ring(100)
    world = ring.world
    cut = world.faults.partitions.cut(
        [h.index for h in world.hosts[:50]], [h.index for h in world.hosts[50:]]
    )
    world.run_for(3_600.0)
    assert ring.rings() == 2
    world.faults.partitions.heal(cut)
    world.run_for(600.0)
    assert ring.rings() == 1
    assert ring.wrong_leaf_sets() == 0
