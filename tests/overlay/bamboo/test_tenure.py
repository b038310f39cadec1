"""Who answers for an arc: never two at a time, whatever stood still, for however long, and whoever noticed."""

from __future__ import annotations

import pytest

from overlay.bamboo import BambooRouter
from overlay.dht.arcs import common
from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, PutObject
from overlay.objects.name import Name
from overlay.ring import SPACE, Arc
from overlay.spread.branch import Branch
from overlay.stack import OverlayNode
from runtime.sim import jump, pause
from tests.overlay.test_stack import Ring


def certain(ring: Ring) -> list[Arc]:
    """What nodes that can act now would answer for without asking anybody."""
    arcs = [
        node.router.certain() for node, host in zip(ring.nodes, ring.hosts, strict=True) if host.runtime.awake
    ]
    return [arc for arc in arcs if arc is not None]


def confirm_all(ring: Ring) -> list[Arc | None]:
    found: list[Arc | None] = []
    for node in ring.nodes:
        node.router.confirm(found.append, 3.0)
    ring.world.run_for(4.0)
    return found


@pytest.mark.parametrize("pause_s", [1.0, 4.0, 6.5, 7.5, 9.0, 25.0])
def test_at_no_instant_two_answer_for_one_key(pause_s: float) -> None:
    ring = Ring(8)
    pause(ring.hosts[3], pause_s)
    covered: list[float] = []
    for step in range(int((pause_s + 10.0) / 0.05)):
        if step % 8 == 0:
            for node, host in zip(ring.nodes, ring.hosts, strict=True):
                if host.runtime.awake:
                    node.router.confirm(lambda arc: None, 0.3)
        arcs = certain(ring)
        for at, arc in enumerate(arcs):
            assert not any(common(arc, other) for other in arcs[at + 1 :]), f"{step * 0.05} s after it began"
        covered.append(sum(arc.width() for arc in arcs) / SPACE)
        ring.world.run_for(0.05)
    assert max(covered[-40:]) == 1.0, "and then all of the ring is answered for"


def test_a_node_that_stood_still_is_not_sure_of_itself_before_it_has_asked() -> None:
    ring = Ring(6)
    node, host = ring.nodes[2], ring.hosts[2]
    assert confirm_all(ring)[2] == node.router.arc()
    ring.world.run_for(0.5)
    pause(host, 20.0)
    seen: list[Arc | None] = []

    def arrived(branch: Branch) -> None:
        seen.append(node.router.certain())
        branch.reply()

    # What lay in its socket is read before its timers come.
    node.spread.on_arrival("topic", arrived)
    ring.world.call_at(ring.world.now + 1.0, lambda _: _start(ring), None)
    ring.world.run_for(19.9)
    assert not seen
    ring.world.run_for(0.2)
    assert seen == [None]
    ring.world.run_for(5.0)
    arcs = [arc for arc in confirm_all(ring) if arc is not None]
    assert sum(arc.width() for arc in arcs) == SPACE


def read(ring: Ring, node: OverlayNode, gets: list[GetObject]) -> list[Got]:
    found: list[Got] = []
    node.dht.get_many(gets, found.extend)
    ring.world.run_for(10.0)
    return found


def _start(ring: Ring) -> None:
    ring.nodes[0].spread.start("topic", b"", lambda reply, account: None)


def test_a_wall_clock_that_jumped_makes_a_node_ask() -> None:
    ring = Ring(5)
    confirm_all(ring)
    router = ring.nodes[1].router
    assert isinstance(router, BambooRouter)
    router.confirm(lambda arc: None, 1.0)
    ring.world.run_for(1.0)
    assert router.certain() is not None
    jump(ring.hosts[1], 0.0, 3_600.0)
    assert router.certain() is None and router.statistics()["clock_jumps"] == 1
    assert confirm_all(ring)[1] is not None


def test_lost_objects_come_back_long_before_their_renewal() -> None:
    ring = Ring(8)
    puts = [PutObject(Name("t", str(n), "0"), b"v", 600.0) for n in range(60)]
    codes: list[Code] = []
    ring.nodes[0].publisher.publish(puts, codes.extend)
    ring.world.run_for(5.0)
    assert codes == [Code.OK] * 60
    victim = max(range(1, 8), key=lambda at: len(ring.nodes[at].dht.namespaces()))
    held = [put for put in puts if ring.nodes[victim].dht.peek(put.name) is not None]
    assert held
    ring.kill(victim)
    doubted = 0
    for _ in range(60):
        ring.world.run_for(0.5)
        doubted += any(node.dht.doubts for node in ring.nodes)
    assert doubted > 0 and not any(node.dht.doubts for node in ring.nodes)
    gets = [GetObject("t", put.name.key) for put in held]
    got = read(ring, ring.nodes[1], gets)
    assert all(each.objects and each.sure for each in got), got


def test_a_get_in_doubt_says_so() -> None:
    ring = Ring(5)
    name = Name("t", "k", "0")
    codes: list[Code] = []
    ring.nodes[0].dht.put(PutObject(name, b"v", 600.0), codes.append)
    ring.world.run_for(5.0)
    assert codes == [Code.OK]
    owner = next(node for node in ring.nodes if node.dht.peek(name) is not None)
    asker = next(node for node in ring.nodes if node is not owner)
    (sure,) = read(ring, asker, [GetObject("t", "k")])
    assert sure.sure and len(sure.objects) == 1
    owner.dht.doubts.add(owner.router.arc())
    (unsure,) = read(ring, asker, [GetObject("t", "k")])
    assert not unsure.sure and len(unsure.objects) == 1


@pytest.mark.parametrize("in_doubt", [False, True])
def test_a_goodbye_hands_over_what_was_not_in_doubt(in_doubt: bool) -> None:
    ring = Ring(6)
    leaver = ring.nodes[3]
    if in_doubt:
        leaver.dht.doubts.add(leaver.router.arc())
    doubted: list[Arc] = []
    for node in ring.nodes:
        node.dht.doubts.arose.append(lambda node=node: doubted.extend(node.dht.doubts.pieces().values()))  # type: ignore[misc]
    leaver.leave(lambda: None)
    ring.world.run_for(0.3)
    assert not leaver.router.joined
    assert bool(doubted) == in_doubt
