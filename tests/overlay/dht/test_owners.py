"""The owner cache as an interval map, and the arithmetic of arcs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.dht.arcs import difference
from overlay.dht.owners import OwnerCache
from overlay.ring import MASK, Arc, NodeRef, to_wire
from overlay.router import Owner

#: Few positions, at both ends of the circle, so that arcs meet, nest and wrap.
POSITIONS = st.sampled_from([0, 1, 2, 5, 9, MASK - 4, MASK - 1, MASK])
ARCS = st.builds(Arc, POSITIONS, POSITIONS)
PROBES = [0, 1, 2, 3, 5, 6, 9, 10, 1 << 100, MASK - 5, MASK - 4, MASK - 2, MASK - 1, MASK]


def node(number: int) -> NodeRef:
    return NodeRef(to_wire(number), f"n{number}:1")


@given(st.lists(st.tuples(st.integers(0, 5), ARCS), max_size=12), st.integers(1, 4))
def test_newer_knowledge_wins_and_arcs_never_overlap(answers: list[tuple[int, Arc]], limit: int) -> None:
    cache = OwnerCache(limit)
    for number, arc in answers:
        cache.learn(Owner(node(number), arc))
        for probe in PROBES:
            owner = cache.find(probe)
            if arc.contains(probe):
                assert owner == Owner(node(number), arc)
            elif owner is not None:
                assert owner.arc.contains(probe)
        assert len(cache) <= limit
    found = [{p for p in PROBES if (o := cache.find(p)) and o.node == node(n)} for n in range(6)]
    assert sum(map(len, found)) == len({p for p in PROBES if cache.find(p)})
    for number in range(6):
        cache.forget(node(number))
    assert len(cache) == 0


@given(ARCS, ARCS)
def test_difference(arc: Arc, without: Arc) -> None:
    pieces = difference(arc, without)
    for probe in PROBES:
        inside = [piece for piece in pieces if piece.contains(probe)]
        assert len(inside) == int(arc.contains(probe) and not without.contains(probe))
    assert difference(arc, None) == [arc]
