"""Cells, rows and who wins a cell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from overlay.bamboo.peer import Peer
from overlay.bamboo.table import BASE, DIGITS, RoutingTable, digit, shared_digits
from overlay.ring import MASK, NodeRef, to_wire

ids = st.integers(min_value=0, max_value=MASK)


def peer(identifier: int, rtt_s: float = -1.0) -> Peer:
    return Peer(id=identifier, ref=NodeRef(to_wire(identifier), f"host{identifier}:1"), rtt_s=rtt_s)


@given(a=ids, b=ids)
def test_shared_digits_is_the_common_prefix_of_the_hexadecimal_forms(a: int, b: int) -> None:
    left, right = f"{a:040x}", f"{b:040x}"
    common = next((place for place in range(DIGITS) if left[place] != right[place]), DIGITS)
    assert shared_digits(a, b) == common
    if common < DIGITS:
        assert digit(a, common) == int(left[common], 16)


@given(me=ids, others=st.lists(ids, unique=True, max_size=40), key=ids)
def test_a_hop_shares_more_digits_with_the_key(me: int, others: list[int], key: int) -> None:
    table = RoutingTable(me, None)
    for other in others:
        if other != me:
            table.offer(peer(other))
    if key != me:
        hop = table.towards(key)
        if hop is not None:
            assert shared_digits(hop.id, key) > shared_digits(me, key)
    for level in range(table.depth()):
        for held in table.row(level):
            assert shared_digits(held.id, me) == level
            assert table.cells[level * BASE + digit(held.id, level)] is held


def test_the_nearer_node_wins_only_with_proximity_and_clearly() -> None:
    first, near, hardly = peer(0x1 << 156, 0.100), peer(0x11 << 152, 0.050), peer(0x12 << 152, 0.049)
    table = RoutingTable(0, 0.9)
    assert table.offer(first) is None
    assert table.offer(near) is first
    assert table.offer(hardly) is hardly
    assert table.holds(near)
    unmeasured = peer(0x13 << 152)
    assert table.offer(unmeasured) is unmeasured
    plain = RoutingTable(0, None)
    plain.offer(first)
    assert plain.offer(near) is near
