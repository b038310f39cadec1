"""Two lives of one id on simulated rings: one is put out, whoever came first; nobody else can be put out by a word."""

from __future__ import annotations

import pytest

from overlay.ring import from_wire
from overlay.roster.config import RosterConfig
from overlay.roster.member import Member, Standing
from overlay.roster.messages import Namesake, RosterTell
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig, OverlayNode
from overlay.transport import MessageHost, open_messenger
from overlay.transport.identity import Authority, Identity
from overlay.transport.keyring import Key, Keyring
from runtime.message import Codec
from runtime.sim import SimHost, World, star
from tests.overlay.roster.rings import Ring, hosts_of, roster_of


class Put:
    """Keeps who was put out, and lets it go as its process would."""

    def __init__(self) -> None:
        self.out: list[tuple[str, str]] = []

    def watch(self, node: OverlayNode) -> None:
        here = node.router.me.address

        def put_out(other: str) -> None:
            self.out.append((here, other))
            roster_of(node).withdraw()
            node.leave(lambda: None)

        roster_of(node).namesakes.on_put_out = put_out


def clone(ring: Ring, number: int) -> OverlayNode:
    """A host of its own with the id of another."""
    return ring.make(ring.world.add_host(), number)


@pytest.mark.parametrize("count", [2, 8, 30])
def test_the_later_of_two_lives_is_put_out(count: int) -> None:
    ring, put = Ring(count), Put()
    original = ring.nodes[1]
    twin = clone(ring, 1)
    for node in (*ring.nodes, twin):
        put.watch(node)
    twin.join([ring.nodes[0].router.me.address])
    ring.world.run_for(5.0)
    here, there = original.router.me.address, twin.router.me.address
    assert put.out == [(there, here)]
    assert [each.address for each in roster_of(original).namesakes.seen.values()] == [there]
    assert roster_of(original).statistics().namesakes == 1
    ring.world.run_for(60.0)
    account = ring.spread(0)
    assert (account.answered, account.absent) == (count, 0)
    assert all(hosts_of(node) == {f"host-{n}" for n in range(count)} for node in ring.nodes)
    kept = roster_of(ring.nodes[0]).book.get(original.router.me.id)
    assert kept is not None and (kept.member.address, kept.member.standing) == (here, Standing.HERE)


def test_the_later_one_goes_even_if_the_ring_knew_it_first() -> None:
    """The earlier life was cut off when its copy was started; when both can be reached, the copy goes."""
    ring, put = Ring(6), Put()
    cut = ring.world.faults.partitions.cut([3], [0, 1, 2, 4, 5, 6])
    ring.world.run_for(60.0)
    twin = clone(ring, 3)
    for node in (*ring.nodes, twin):
        put.watch(node)
    twin.join([ring.nodes[0].router.me.address])
    ring.world.run_for(30.0)
    assert twin.router.joined and put.out == []
    ring.world.faults.partitions.heal(cut)
    ring.world.run_for(200.0)
    assert put.out == [(twin.router.me.address, ring.nodes[3].router.me.address)]
    assert ring.spread(0).answered == 6


def test_a_twin_that_only_the_roster_knows_of_is_put_out_as_well() -> None:
    """It is on a ring of its own; somebody has heard of it there."""
    ring, put = Ring(4), Put()
    twin = clone(ring, 2)
    put.watch(twin)
    twin.start()
    ring.world.run_for(1.0)
    heard = roster_of(twin).book.get(twin.router.me.id)
    assert heard is not None
    ring.hosts[0].messenger.send(ring.hosts[2].address, RosterTell((heard.member,)))
    ring.world.run_for(5.0)
    assert put.out == [(twin.router.me.address, ring.hosts[2].address)]


def test_a_start_at_another_address_is_no_clone() -> None:
    ring, put = Ring(6), Put()
    ring.crash(3)
    moved = clone(ring, 3)
    for node in (*ring.nodes, moved):
        put.watch(node)
    moved.join([ring.nodes[0].router.me.address])
    ring.world.run_for(60.0)
    assert put.out == [] and moved.router.joined
    ring.nodes[3] = moved
    account = ring.spread(0)
    assert (account.answered, account.absent) == (6, 0)


def test_a_stale_record_of_a_later_life_is_outlived() -> None:
    """A host whose clock was ahead, and that lost what it knew: its own record seems to be of its future."""
    ring = Ring(4)
    node = ring.nodes[2]
    record = Member(node.router.me.id, "10.9.9.9:7700", 1 << 61, 3, Standing.LEFT)
    for other in (ring.nodes[0], ring.nodes[1]):
        ring.nodes[3].router.core.messenger.send(other.router.me.address, RosterTell((record,)))  # type: ignore[attr-defined]
    ring.world.run_for(60.0)
    for each in ring.nodes:
        kept = roster_of(each).book.get(node.router.me.id)
        assert kept is not None and kept.member.standing is Standing.HERE
        assert kept.member.life > 1 << 61


class Sealed:
    """Nodes with certified ids over the real transport, packet by packet."""

    def __init__(self, secrets: list[bytes]) -> None:
        authority = Authority(bytes([7]) * 32)
        codec = Codec(OVERLAY_MESSAGES)
        self.world = World(
            seed=3,
            topology=star(0.02),
            codec=codec,
            messenger=lambda runtime, codec: open_messenger(
                runtime,
                codec,
                keyring=Keyring((Key(b"k" * 32, 0),)),
                identity=Identity.issue(secrets[runtime.index], authority),
            ),
        )
        self.put = Put()
        self.identities = [Identity.issue(secret, authority) for secret in secrets]
        self.hosts: list[SimHost] = []
        self.nodes: list[OverlayNode] = []

    def enter(self) -> OverlayNode:
        host, identity = self.world.add_host(), self.identities[len(self.hosts)]
        messenger = host.messenger
        assert isinstance(messenger, MessageHost)
        node = OverlayNode(
            host.runtime,
            messenger,
            from_wire(identity.node_id),
            OverlayConfig(roster=RosterConfig()),
            messenger.peer_id,
        )
        self.put.watch(node)
        self.hosts.append(host)
        self.nodes.append(node)
        if len(self.nodes) == 1:
            node.start()
        else:
            node.join([self.hosts[0].address])
        self.world.run_for(5.0)
        return node


def test_with_certified_ids_over_the_real_transport() -> None:
    secrets = [bytes([n]) * 32 for n in (1, 2, 3, 2)]
    ring = Sealed(secrets)
    for _ in secrets:
        ring.enter()
    assert ring.put.out == [(ring.hosts[3].address, ring.hosts[1].address)]


def test_a_member_cannot_put_another_out_by_its_word() -> None:
    ring = Sealed([bytes([n]) * 32 for n in (1, 2, 3)])
    for _ in range(3):
        ring.enter()
    ring.hosts[2].messenger.send(ring.hosts[1].address, Namesake(1))
    ring.world.run_for(10.0)
    assert ring.put.out == []
    assert roster_of(ring.nodes[1]).statistics().namesakes_unproven == 1
