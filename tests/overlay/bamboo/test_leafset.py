"""The leaf set against a sorted list of everybody."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.bamboo.leafset import LeafSet
from overlay.bamboo.peer import Peer
from overlay.ring import MASK, SPACE, NodeRef, closer, to_wire

ids = st.integers(min_value=0, max_value=MASK)


def peer(identifier: int) -> Peer:
    return Peer(id=identifier, ref=NodeRef(to_wire(identifier), f"host{identifier}:1"))


@given(me=ids, others=st.lists(ids, unique=True, max_size=20), per_side=st.integers(1, 5))
def test_sides_are_the_nearest_whatever_the_order_of_arrival(
    me: int, others: list[int], per_side: int
) -> None:
    others = [other for other in others if other != me]
    leaves = LeafSet(me, per_side)
    for other in others:
        leaves.offer(peer(other), large=False)
    clockwise = sorted(others, key=lambda other: (other - me) & MASK)
    assert [leaf.id for leaf in leaves.after] == clockwise[:per_side]
    assert [leaf.id for leaf in leaves.before] == clockwise[::-1][:per_side]
    assert leaves.covers_all == (len(others) < 2 * per_side)


@given(
    me=ids,
    others=st.lists(ids, unique=True, max_size=20),
    keys=st.lists(ids),
    per_side=st.integers(1, 5),
    large=st.booleans(),
)
def test_one_after_the_other_or_all_at_once_is_the_same(
    me: int, others: list[int], keys: list[int], per_side: int, large: bool
) -> None:
    peers = [peer(other) for other in others if other != me]
    grown, built = LeafSet(me, per_side), LeafSet(me, per_side)
    grown.rebuild([], large=large)
    for each in peers:
        grown.offer(each, large=large)
    built.rebuild(peers, large=large)
    assert (grown.after, grown.before, grown.members) == (built.after, built.before, built.members)
    assert (grown.full, grown.reach()) == (built.full, built.reach())
    for key in (*keys, *others):
        assert grown.spans(key) == built.spans(key)
        assert grown.closest(key) is built.closest(key)
        assert grown.lacking(key, b"") == built.lacking(key, b"")
        assert grown.lacking(key, grown.marks) == []


@given(me=ids, others=st.lists(ids, unique=True, max_size=20), key=ids, per_side=st.integers(1, 5))
def test_closest_within_the_span_is_the_closest_of_all(
    me: int, others: list[int], key: int, per_side: int
) -> None:
    others = [other for other in others if other != me]
    leaves = LeafSet(me, per_side)
    leaves.rebuild([peer(other) for other in others], large=False)
    if not leaves.spans(key):
        return
    best = me
    for other in others:
        if closer(key, other, best):
            best = other
    found = leaves.closest(key)
    assert (me if found is None else found.id) == best


@given(me=ids, others=st.lists(ids, unique=True, min_size=4, max_size=20), key=ids)
def test_outside_the_span_the_closest_leaf_is_nearer_than_this_node(
    me: int, others: list[int], key: int
) -> None:
    others = [other for other in others if other != me]
    leaves = LeafSet(me, 2)
    leaves.rebuild([peer(other) for other in others], large=False)
    if not leaves.spans(key):
        found = leaves.closest(key)
        assert found is not None
        assert closer(key, found.id, me)


def test_suspects_are_left_out_and_fits_follows_the_edges() -> None:
    leaves = LeafSet(0, 2)
    peers = [peer(place * (SPACE // 8)) for place in range(1, 8)]
    leaves.rebuild(peers, large=False)
    assert [leaf.id for leaf in leaves.after] == [peers[0].id, peers[1].id]
    assert not leaves.fits(SPACE // 2)
    assert leaves.fits(1)
    peers[0].suspect = True
    leaves.rebuild(peers, large=False)
    assert [leaf.id for leaf in leaves.after] == [peers[1].id, peers[2].id]


@given(me=ids, others=st.lists(ids, unique=True, min_size=1, max_size=9), key=ids)
def test_a_set_not_full_in_a_large_ring_covers_only_its_stretch(me: int, others: list[int], key: int) -> None:
    others = [other for other in others if other != me]
    leaves = LeafSet(me, 5)
    leaves.rebuild([peer(other) for other in others], large=True)
    assert not leaves.covers_all or not others
    if not others:
        return
    clockwise = sorted(others, key=lambda other: (other - me) & MASK)
    assert leaves.successor is not None
    assert leaves.predecessor is not None
    near_after = [other for other in clockwise if (other - me) & MASK <= SPACE // 2]
    near_before = [other for other in clockwise[::-1] if (other - me) & MASK > SPACE // 2]
    assert [leaf.id for leaf in leaves.after] == (near_after or clockwise[:1])
    assert [leaf.id for leaf in leaves.before] == (near_before or clockwise[-1:])
    assert {leaf.id for leaf in leaves.members} == set(near_after + near_before)
    if near_after and near_before:
        offset = (key - me) & MASK
        inside = offset <= (near_after[-1] - me) & MASK or offset >= (near_before[-1] - me) & MASK
        assert leaves.spans(key) == inside
