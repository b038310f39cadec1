"""The roster on simulated rings: what every node comes to know, and what spreads say of who is not there."""

from __future__ import annotations

import pytest

from overlay.ring import MASK, Arc, to_wire
from overlay.roster.config import RosterConfig
from overlay.roster.member import Member, Profile, Standing
from overlay.roster.messages import BUCKET_BYTES, BUCKETS, RosterMarks, RosterParts, RosterTell
from overlay.spread.account import Account
from tests.overlay.roster.rings import Ring, hosts_of, roster_of


def numbers(account: Account) -> tuple[int, int, int]:
    return account.answered, account.failed + account.unreachable, account.absent


def test_every_node_comes_to_know_every_member() -> None:
    ring = Ring(40)
    ring.world.run_for(60.0)
    everybody = {f"host-{number}" for number in range(40)}
    assert all(hosts_of(node) == everybody for node in ring.nodes)
    assert {roster_of(node).book.mark() for node in ring.nodes} == {roster_of(ring.nodes[0]).book.mark()}
    assert numbers(ring.spread(3)) == (40, 0, 0)


def test_a_killed_node_is_never_just_not_there() -> None:
    """From the kill on, every spread counts it: as failed or not reached while it is doubted, then as absent."""
    ring = Ring(16)
    ring.crash(5)
    last = (0, 0, 0)
    for _ in range(40):
        last = numbers(ring.spread(2))
        assert last in ((15, 1, 0), (15, 0, 1)), last
        ring.world.run_for(0.5)
    assert last == (15, 0, 1)
    account = ring.spread(2)
    assert account.absent_nodes == (to_wire(ring.ids[5]),)
    ring.world.run_for(30.0)
    lost = roster_of(ring.nodes[9]).book.get(to_wire(ring.ids[5]))
    assert lost is not None and lost.member.standing is Standing.LOST


@pytest.mark.parametrize("seed", range(3))
def test_whoever_was_to_answer_for_an_absent_members_place_may_be_lost_too(seed: int) -> None:
    """Neighbours die one after the other: nobody forgets the first when the second is given up."""
    ring = Ring(16, seed=seed)
    order = sorted(range(1, 16), key=ring.ids.__getitem__)
    for at in (3, 4, 5, 6):
        ring.crash(order[at])
        for _ in range(6):
            answered, missing, absent = numbers(ring.spread(0))
            assert (answered, missing + absent) == (18 - at, at - 2)
            ring.world.run_for(3.0)


def test_it_is_expected_until_it_is_back() -> None:
    ring = Ring(8)
    ring.crash(5)
    ring.world.run_for(60.0)
    assert numbers(ring.spread(2)) == (7, 0, 1)
    ring.again(5, through=0)
    ring.world.run_for(20.0)
    assert numbers(ring.spread(2)) == (8, 0, 0)
    ring.world.run_for(20.0)
    standings = {kept.member.standing for node in ring.nodes for kept in roster_of(node).book}
    assert standings == {Standing.HERE}


def test_who_leaves_in_good_order_is_not_missed() -> None:
    ring = Ring(8)
    ring.call(lambda done: ring.nodes[5].leave(lambda: done(None)))
    ring.world.run_for(1.0)
    assert numbers(ring.spread(2)) == (7, 0, 0)
    ring.crash(5)
    ring.world.run_for(30.0)
    assert numbers(ring.spread(2)) == (7, 0, 0)
    assert hosts_of(ring.nodes[2]) == {f"host-{number}" for number in range(8) if number != 5}


def test_a_retired_member_is_missed_no_more_and_may_come_back() -> None:
    ring = Ring(8)
    ring.crash(5)
    ring.world.run_for(20.0)
    retired = to_wire(ring.ids[5])
    assert ring.call(lambda done: roster_of(ring.nodes[1]).retire(retired, done))
    assert [numbers(ring.spread(at)) for at in (1, 2, 7)] == [(7, 0, 0)] * 3
    ring.again(5, through=0)
    ring.world.run_for(20.0)
    assert "host-5" in hosts_of(ring.nodes[2])
    ring.crash(5)
    ring.world.run_for(20.0)
    assert numbers(ring.spread(2)) == (7, 0, 1)


def test_both_sides_of_a_partition_know_whom_they_lack() -> None:
    ring = Ring(8)
    cut = ring.world.faults.partitions.cut([0, 1], range(2, 8))
    ring.world.run_for(60.0)
    small, large = ring.spread(0), ring.spread(5)
    assert numbers(small) == (2, 0, 6)
    assert numbers(large) == (6, 0, 2)
    assert set(small.absent_nodes) == {to_wire(ring.ids[number]) for number in range(2, 8)}
    ring.world.faults.partitions.heal(cut)
    ring.world.run_for(200.0)
    assert numbers(ring.spread(0)) == numbers(ring.spread(5)) == (8, 0, 0)
    standings = {kept.member.standing for node in ring.nodes for kept in roster_of(node).book}
    assert standings == {Standing.HERE}, "who is there contradicts what was said of it"


def test_a_node_that_is_all_alone_misses_all_others() -> None:
    ring = Ring(6)
    for number in range(1, 6):
        ring.crash(number)
    ring.world.run_for(60.0)
    assert numbers(ring.spread(0)) == (1, 0, 5)


def test_a_key_whose_owner_is_absent_is_missed_by_who_asks_for_it_alone() -> None:
    ring = Ring(8)
    key = (ring.ids[5] + 1) & MASK
    point = Arc(key, (key + 1) & MASK)

    def ask(at: int) -> Account:
        return ring.call(
            lambda done: ring.nodes[at].spread.start(
                "hello", b"", lambda _, account: done(account), arc=point
            )
        )

    assert numbers(ask(2)) == (1, 0, 0)
    ring.crash(5)
    ring.world.run_for(30.0)
    account = ask(2)
    assert numbers(account) == (1, 0, 1) and account.absent_nodes == (to_wire(ring.ids[5]),)


def test_a_lost_member_is_forgotten_after_the_configured_time() -> None:
    ring = Ring(6, RosterConfig(keep_s=100.0))
    ring.crash(4)
    ring.world.run_for(60.0)
    assert numbers(ring.spread(0)) == (5, 0, 1)
    ring.world.run_for(120.0)
    assert numbers(ring.spread(0)) == (5, 0, 0)
    assert all(len(roster_of(node).book) == 5 for at, node in enumerate(ring.nodes) if at != 4)


def test_a_node_that_says_something_new_of_itself_is_heard_everywhere() -> None:
    ring = Ring(20)
    roster_of(ring.nodes[3]).describe(Profile("host-3", "1.1", "", ("fw", "dns")))
    ring.world.run_for(30.0)
    for node in ring.nodes:
        kept = roster_of(node).book.get(to_wire(ring.ids[3]))
        assert kept is not None and (kept.member.version, kept.member.tables) == ("1.1", ("fw", "dns"))


@pytest.mark.parametrize("count", [64])
def test_an_idle_ring_pays_next_to_nothing(count: int) -> None:
    """One comparison a minute and node, and no exchange."""
    ring = Ring(count)
    ring.world.run_for(120.0)
    before = [roster_of(node).statistics() for node in ring.nodes]
    ring.world.run_for(600.0)
    after = [roster_of(node).statistics() for node in ring.nodes]
    assert sum(b.exchanges - a.exchanges for a, b in zip(before, after, strict=True)) == 0
    assert sum(b.told - a.told for a, b in zip(before, after, strict=True)) == 0
    asked = sum(b.asked - a.asked for a, b in zip(before, after, strict=True)) / count
    assert 7 <= asked <= 13


def test_nonsense_from_a_member_is_counted_and_does_no_harm() -> None:
    ring = Ring(3)
    here, there = ring.nodes[0], ring.nodes[1].router.me.address
    messenger = ring.hosts[0].messenger
    for message in (
        RosterMarks(bytes([255]), b""),
        RosterMarks(bytes([1]), b"abc"),
        RosterTell((), b"abc"),
        RosterParts(b"x" * (BUCKETS * BUCKET_BYTES)),
        RosterTell((Member(to_wire(7), "a:1", 1, 0, Standing.LOST, 1 << 60),)),
    ):
        messenger.send(there, message)
    ring.world.run_for(5.0)
    roster = roster_of(ring.nodes[1])
    assert roster.statistics().malformed == 3
    assert hosts_of(ring.nodes[1]) == hosts_of(here) == {"host-0", "host-1", "host-2"}
