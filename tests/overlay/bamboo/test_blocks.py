"""Address blocks: one network cannot fill a routing table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.bamboo.blocks import block_of
from overlay.bamboo.peer import Peer
from overlay.bamboo.table import RoutingTable
from overlay.ring import BITS, NodeRef, to_wire

CAP = 2


def peer(digit: int, network: int, rtt_s: float) -> Peer:
    """One of sixteen cells of the first row, one of four networks."""
    identifier = (digit << (BITS - 4)) | network
    return Peer(id=identifier, ref=NodeRef(to_wire(identifier), f"10.0.{network}.{digit}:7700"), rtt_s=rtt_s)


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("192.0.2.7:7700", "192.0.2"),
        ("[2001:db8:1:2::3]:7700", "20010db80001/48"),
        ("[2001:db8:1:ffff::3]:1", "20010db80001/48"),
        ("[fe80::1%eth0]:1", "fe8000000000/48"),
        ("host17:1", ""),
        ("[nonsense]:1", ""),
    ],
)
def test_what_is_a_block(address: str, block: str) -> None:
    assert block_of(address) == block


@given(
    st.lists(
        st.tuples(st.integers(1, 15), st.integers(0, 3), st.floats(0.001, 1.0), st.booleans()), max_size=80
    )
)
def test_no_block_has_more_cells_than_its_cap(offers: list[tuple[int, int, float, bool]]) -> None:
    table = RoutingTable(0, 0.9, CAP)
    known: dict[tuple[int, int], Peer] = {}
    for digit, network, rtt_s, remove in offers:
        each = known.setdefault((digit, network), peer(digit, network, rtt_s))
        if remove:
            table.remove(each)
        else:
            wanted = table.wants(each.id, each.ref.address)
            loser = table.offer(each)
            assert not wanted or loser is None
        held = [block_of(cell.ref.address) for cell in table.cells.values()]
        assert all(held.count(block) <= CAP for block in held)


def test_a_full_block_gives_way_only_to_itself() -> None:
    table = RoutingTable(0, 0.9, 1)
    first, rival, other = peer(1, 1, 0.5), peer(2, 1, 0.1), peer(2, 2, 0.5)
    assert table.offer(first) is None
    assert table.offer(rival) is rival and table.blocks.refused == 1
    assert not table.wants(rival.id, rival.ref.address)
    assert table.offer(other) is None
    nearer = Peer(id=first.id | 9, ref=NodeRef(to_wire(first.id | 9), "10.0.1.99:1"), rtt_s=0.01)
    assert table.offer(nearer) is first
