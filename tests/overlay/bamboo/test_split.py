"""Splitting an arc: disjoint parts, each with its neighbour inside, and a broadcast by them that misses nobody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.bamboo import MESSAGES, BambooConfig
from overlay.bamboo.peer import Peer
from overlay.bamboo.split import split_arc
from overlay.ring import MASK, WHOLE, Arc, NodeRef, from_wire, to_wire
from pier_node.scenario.routing_ring import RoutingRing
from runtime.message import Codec
from runtime.sim import World, star

ids = st.integers(min_value=0, max_value=MASK)


def peers(identifiers: list[int]) -> list[Peer]:
    return [Peer(id=each, ref=NodeRef(to_wire(each), f"host{each}:1")) for each in identifiers]


@given(me=ids, others=st.lists(ids, unique=True, max_size=12), start=ids, end=ids)
def test_parts_are_disjoint_hold_their_neighbour_and_not_this_node(
    me: int, others: list[int], start: int, end: int
) -> None:
    arc = Arc(start, end)
    inside = {other for other in others if other != me and arc.contains(other)}
    parts = split_arc(me, peers([other for other in others if other != me]), arc)
    assert {from_wire(ref.id) for ref, _ in parts} == inside
    for ref, part in parts:
        assert part.contains(from_wire(ref.id))
        assert not part.contains(me)
        assert arc.contains(part.start)
    assert sum(part.width() for _, part in parts) <= arc.width()
    for one, (_, part) in enumerate(parts):
        for other in parts[one + 1 :]:
            assert not part.contains(other[1].start)
            assert not other[1].contains(part.start)


@given(me=ids, others=st.lists(ids, unique=True, min_size=1, max_size=12))
def test_the_whole_circle_is_covered_but_for_this_node(me: int, others: list[int]) -> None:
    others = [other for other in others if other != me]
    parts = split_arc(me, peers(others), WHOLE)
    if others:
        assert sum(part.width() for _, part in parts) == MASK


def test_a_broadcast_by_parts_reaches_every_member_once() -> None:
    world = World(seed=3, topology=star(0.02), codec=Codec(MESSAGES))
    ring = RoutingRing(world, BambooConfig())
    for _ in range(150):
        ring.build(world.add_host())
        world.run_for(0.05)
    world.run_for(10.0)
    reached: dict[int, int] = {}
    depths = []

    def spread(identifier: int, arc: Arc, depth: int) -> None:
        reached[identifier] = reached.get(identifier, 0) + 1
        depths.append(depth)
        for ref, part in ring.router_of(identifier).split(arc):
            spread(from_wire(ref.id), part, depth + 1)

    spread(ring.members[7], WHOLE, 0)
    assert set(reached) == set(ring.members)
    assert set(reached.values()) == {1}
    assert max(depths) <= 5
