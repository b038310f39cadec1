"""Rings in simulation: joining, owning, leaving, routing with upcalls, receipts and duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from overlay.bamboo import MESSAGES, BambooConfig, BambooRouter
from overlay.bamboo.messages import LeafAsk
from overlay.ring import WHOLE, from_wire
from overlay.router import Neighbour, Passage, Router, Verdict
from pier_node.scenario.routing_ring import RoutingRing
from runtime.api import Address, Messenger, Notice
from runtime.message import Codec, Message
from runtime.sim import World, king, star


class Note(Message, frozen=True, tag=41):
    text: str


CODEC = Codec([*MESSAGES, Note])


def make_ring(
    count: int, seed: int = 1, serialise: bool = False, config: BambooConfig | None = None
) -> RoutingRing:
    world = World(seed=seed, topology=king(seed, sites=64), codec=CODEC, serialise=serialise)
    ring = RoutingRing(world, config or BambooConfig())
    for _ in range(count):
        ring.build(world.add_host())
        world.run_for(0.1)
    world.run_for(10.0)
    return ring


def look(ring: RoutingRing, count: int) -> None:
    for _ in range(count):
        ring.look()
        ring.world.run_for(0.05)
    ring.world.run_for(20.0)


@pytest.mark.parametrize("count", [1, 2, 3, 12, 13, 14, 60])
def test_every_member_knows_its_neighbours_and_arcs_tile_the_circle(count: int) -> None:
    ring = make_ring(count)
    assert len(ring.members) == count
    assert ring.wrong_leaf_sets() == 0
    assert ring.rings() == 1
    arcs = [ring.router_of(identifier).arc() for identifier in ring.members]
    if count == 1:
        assert arcs == [WHOLE]
    else:
        assert all(arc.end == arcs[(place + 1) % count].start for place, arc in enumerate(arcs))
        assert sum(arc.width() for arc in arcs) == WHOLE.width()
    look(ring, 50)
    assert (ring.tally.right, ring.tally.wrong, ring.tally.failed) == (50, 0, 0)


def test_a_run_that_serialises_every_message_is_the_same_run() -> None:
    traces = []
    for serialise in (False, True):
        ring = make_ring(40, serialise=serialise)
        look(ring, 20)
        for _ in range(20):
            ring.send()
            ring.world.run_for(0.1)
        ring.world.run_for(10.0)
        assert ring.tally.delivered_right == 20
        traces.append(ring.world.trace_hash())
    assert traces[0] == traces[1]


def test_a_ring_of_two_is_enough_to_join_when_the_first_gateways_are_dead() -> None:
    ring = make_ring(3)
    world = ring.world
    dead = world.add_host()
    world.crash(dead)
    host = world.add_host()
    router = BambooRouter(host.runtime, host.messenger, 1 << 100, BambooConfig())
    router.join([dead.address, dead.address, ring.random_member().me.address])
    world.run_for(2.0)
    assert not router.joined
    world.run_for(10.0)
    assert router.joined


def test_leaving_hands_the_arc_over_at_once() -> None:
    ring = make_ring(30)
    leaver = ring.random_member()
    arc = leaver.arc()
    key = arc.start
    changes = []
    leaver.on_arc(lambda old, new: changes.append((old, new)))
    others = [
        ring.router_of(identifier) for identifier in ring.members if ring.router_of(identifier) is not leaver
    ]
    leaver.leave()
    assert changes == [(arc, None)]
    assert not leaver.joined
    ring.world.run_for(1.0)
    assert sum(router.owns(key) for router in others) == 1
    known = [each for router in others for each in router.neighbours() if each.node == leaver.me]
    assert all(each.role == "table" for each in known)
    ring.world.run_for(120.0)
    assert not [each for router in others for each in router.neighbours() if each.node == leaver.me]
    assert ring.statistics().get("suspected", 0) == 0


def test_upcalls_see_every_hop_once_and_may_change_the_message() -> None:
    ring = make_ring(60, serialise=True)
    seen: list[tuple[str, Passage]] = []
    delivered: list[tuple[str, Passage]] = []

    def upcall(note: Note, passage: Passage) -> Verdict | Message:
        seen.append((note.text, passage))
        return Note(note.text + "+")

    for router in ring.routers.values():
        router.on_upcall(Note, upcall)
        router.on_deliver(Note, lambda note, passage: delivered.append((note.text, passage)))
    origin = ring.random_member()
    target = max(ring.members, key=lambda identifier: (identifier - from_wire(origin.me.id)) % (1 << 159))
    told: list[bool] = []
    origin.route(target, Note("x"), told.append)
    ring.world.run_for(5.0)
    assert told == [True]
    ((text, passage),) = delivered
    assert passage.hops >= 1
    assert text == "x" + "+" * (passage.hops + 1)
    assert [each.hops for _, each in seen] == list(range(passage.hops + 1))
    assert [each.locally_sent for _, each in seen] == [True] + [False] * passage.hops
    assert [each.at_owner for _, each in seen] == [False] * passage.hops + [True]
    assert seen[1][1].previous == origin.me
    assert all(each.origin == origin.me and each.key == target for _, each in seen)


def test_an_upcall_may_stop_a_message_and_the_origin_is_told() -> None:
    ring = make_ring(40)
    delivered: list[str] = []
    for router in ring.routers.values():
        router.on_upcall(Note, lambda note, passage: Verdict.STOP if passage.hops == 1 else Verdict.FORWARD)
        router.on_deliver(Note, lambda note, passage: delivered.append(note.text))
    origin = ring.random_member()
    key = (from_wire(origin.me.id) + (1 << 159)) % (1 << 160)
    told: list[bool] = []
    origin.route(key, Note("x"), told.append)
    ring.world.run_for(5.0)
    assert told == [True]
    assert delivered == []


def test_a_message_nobody_handles_is_given_up_and_counted() -> None:
    ring = make_ring(10)
    told: list[bool] = []
    ring.random_member().route(1 << 159, Note("x"), told.append)
    ring.world.run_for(60.0)
    assert told == [False]
    assert ring.statistics()["dropped_unhandled"] > 0


def test_replicas_are_the_nearest_on_both_sides_and_neighbours_have_roles() -> None:
    ring = make_ring(30)
    router = ring.random_member()
    place = ring.members.index(from_wire(router.me.id))
    nearest = {ring.members[(place + 1) % 30], ring.members[place - 1]}
    assert {from_wire(ref.id) for ref in router.replicas(2)} == nearest
    neighbours: list[Neighbour] = router.neighbours()
    assert {neighbour.role for neighbour in neighbours} == {"leaf", "table"}
    as_protocol: Router = router
    assert as_protocol.joined


def test_a_static_ring_is_right_without_a_message() -> None:
    world = World(seed=5, topology=star(0.05), codec=CODEC)
    ring = RoutingRing(world, BambooConfig(maintenance=False))
    ring.fill([world.add_host() for _ in range(300)])
    assert ring.wrong_leaf_sets() == 0
    look(ring, 50)
    assert ring.tally.right == 50
    assert all(router.core.view.table.depth() >= 2 for router in ring.routers.values())
    world.run_for(100.0)
    assert world.statistics().messages_out < 50 * 8


def test_static_and_joined_tables_have_no_holes_that_a_member_could_fill() -> None:
    ring = make_ring(60)
    ring.world.run_for(300.0)
    holes = 0
    for router in ring.routers.values():
        table = router.core.view.table
        holes += len({table.cell_of(other) for other in ring.members if other != table.me} - set(table.cells))
    assert holes <= 0.02 * 60 * 20


def test_a_rush_of_joins_into_a_ring_of_one_makes_one_ring() -> None:
    """Newcomers meet neighbours that were right a moment ago, and rings that seem smaller than they are."""
    world = World(seed=1, topology=king(1, sites=100), codec=CODEC)
    ring = RoutingRing(world, BambooConfig())
    for _ in range(400):
        ring.build(world.add_host())
        world.run_for(0.004)
    for _ in range(100):
        if len(ring.members) > 50:
            ring.look()
        world.run_for(0.02)
    world.run_for(8.0)
    assert len(ring.members) == 400
    assert ring.wrong_leaf_sets() == 0
    world.run_for(20.0)
    assert (ring.tally.wrong, ring.tally.failed) == (0, 0)


class Counted:
    """A messenger that counts what is sent through it."""

    def __init__(self, inner: Messenger) -> None:
        self._inner = inner
        self.sent: Counter[type[Message]] = Counter()

    def on(self, kind: type[Any], handler: Callable[[Address, Any], None]) -> None:
        self._inner.on(kind, handler)

    def send(self, to: Address, message: Message, notice: Notice | None = None) -> None:
        self.sent[type(message)] += 1
        self._inner.send(to, message, notice)


def test_a_newcomer_meets_all_its_leaves_and_exchanges_sets_with_its_neighbours_only() -> None:
    ring = make_ring(60, config=BambooConfig(leaf_period_floor_s=60.0, leaf_period_ceiling_s=60.0))
    host = ring.world.add_host()
    messenger = Counted(host.messenger)
    identifier = 1 << 159
    router = BambooRouter(host.runtime, messenger, identifier, ring.config)
    router.join([ring.random_member().me.address])
    ring.world.run_for(2.0)
    assert router.joined
    for neighbour in ring.near(identifier, ring.config.leaf_per_side):
        assert identifier in [leaf.id for leaf in neighbour.core.view.leaves.members]
        assert neighbour.me in router.core.view.leaf_refs()
    # Twice with each of the two, as a scout and when it announces itself, and a few that were not the nearest.
    assert 4 <= messenger.sent[LeafAsk] <= ring.config.leaf_per_side + 2


def test_a_young_member_does_not_own_the_world() -> None:
    """A member that has met only its two neighbours routes far keys on instead of delivering them."""
    ring = make_ring(60)
    world = ring.world
    host = world.add_host()
    router = BambooRouter(host.runtime, host.messenger, 3 << 157, BambooConfig(maintenance=False))
    found: list[bool] = []

    def joined(old: object, new: object) -> None:
        if old is not None:
            return
        assert not router.core.view.leaves.full
        for key in (place << 156 for place in range(16)):
            assert router.core.view.next_hop(key) is not None or router.owns(key)
            assert not router.owns(key) or key == 6 << 156
            router.lookup(key, lambda owner, key=key: found.append(bool(owner and owner.arc.contains(key))))  # type: ignore[misc]

    router.on_arc(joined)
    router.join([ring.random_member().me.address])
    world.run_for(10.0)
    assert router.joined
    assert found == [True] * 16


def test_leaf_sets_are_compared_soon_again_while_they_change() -> None:
    ring = make_ring(5)
    router = ring.router_of(ring.members[0])
    config, compare = router.core.config, router._maintenance._leaves
    compare()
    assert compare() == config.leaf_period_ceiling_s
    ring.build(ring.world.add_host())
    ring.world.run_for(2.0)
    assert compare() == config.leaf_period_floor_s
