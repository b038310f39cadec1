"""Owners that change, die and come: the cache is corrected, gets find what there is, publishers bring back the rest."""

from __future__ import annotations

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, PutObject, RenewObject
from overlay.dht.publisher import Publisher
from overlay.objects.name import Name, Prefix
from overlay.ring import routing_id
from runtime.sim.faults.pause import pause
from tests.overlay.rings import Node, Ring


def objects(count: int, lifetime_s: float = 600.0, copies: int = 0) -> list[PutObject]:
    return [PutObject(Name("t", f"k{n}", "s"), b"%d" % n, lifetime_s, copies=copies) for n in range(count)]


def read(ring: Ring, node: Node, count: int) -> list[int]:
    """Which of the objects a node can get."""
    gets = [GetObject("t", f"k{n}") for n in range(count)]
    results = ring.call(lambda done: node.dht.get_many(gets, done))
    assert all(got.code is Code.OK for got in results)
    return [n for n, got in enumerate(results) if [each.value for each in got.objects] == [b"%d" % n]]


def held(ring: Ring, node: Node) -> list[str]:
    """The keys that one node shows."""
    keys: list[str] = []
    ring.call(
        lambda done: node.dht.local_scan(
            Prefix("t"), lambda chunk: keys.extend(each.name.key for each in chunk), lambda: done(0)
        )
    )
    return keys


def scanned(ring: Ring) -> list[str]:
    return sorted(key for node in ring.nodes for key in held(ring, node))


def test_objects_follow_a_newcomer_and_nobody_ever_reads_nothing() -> None:
    ring = Ring(8)
    me = ring.nodes[0]
    ring.call(lambda done: me.dht.put_many(objects(500), done))
    for place in range(6):
        newcomer = ring.make((ring.nodes[place].id + ring.nodes[place + 1].id) // 2)
        ring.nodes.append(newcomer)
        newcomer.router.start()
        # At once, with the handover under way, and through caches that are out of date.
        assert read(ring, me, 500) == list(range(500))
        assert read(ring, newcomer, 500) == list(range(500))
    ring.world.run_for(5.0)
    assert scanned(ring) == sorted(f"k{n}" for n in range(500))
    assert read(ring, me, 500) == list(range(500))
    moved = sum(node.dht.statistics().store.objects for node in ring.nodes[8:])
    assert moved > 100
    assert me.dht.statistics().requests.not_mine > 0


def test_what_is_put_at_the_old_owner_meanwhile_is_pushed() -> None:
    ring = Ring(4)
    old = ring.nodes[1]
    newcomer = ring.make(old.id + 1000)
    for n in range(50):
        put = PutObject(Name("t", f"k{n}", "s"), b"%d" % n, 600.0)
        ring.call(lambda done, put=put: old.dht.put(put, done))
    ring.nodes.append(newcomer)
    newcomer.router.start()
    ring.world.run_for(5.0)
    assert scanned(ring) == sorted(f"k{n}" for n in range(50))
    assert len(read(ring, newcomer, 50)) == 50


def test_a_leaving_node_gives_everything_away() -> None:
    ring = Ring(8)
    ring.call(lambda done: ring.nodes[0].dht.put_many(objects(300), done))
    for _ in range(3):
        leaver = ring.nodes.pop(3)
        ring.call(lambda done, of=leaver: of.dht.leave(lambda: done(0)))
        leaver.router.leave()
        ring.world.crash(leaver.host)
    ring.world.run_for(2.0)
    assert read(ring, ring.nodes[0], 300) == list(range(300))
    assert scanned(ring) == sorted(f"k{n}" for n in range(300))


def test_a_dead_owner_is_replaced_while_operations_run() -> None:
    ring = Ring(8)
    me = ring.nodes[0]
    ring.call(lambda done: me.dht.put_many(objects(200, copies=2), done))
    read(ring, me, 200)
    dead = ring.nodes[4]
    ring.kill(dead, noticed=False)
    finished: list[float] = []
    found: list[int] = []
    began = ring.world.now
    for n in range(200):
        me.dht.get(
            GetObject("t", f"k{n}"),
            lambda got: (finished.append(ring.world.now), found.append(len(got.objects))),
        )
    ring.world.run_for(0.3)
    assert len(finished) < 200, "some were for the dead owner"
    ring.notice(dead)
    ring.world.run_for(30.0)
    assert found == [1] * 200, "copies at the neighbours count as objects"
    assert max(finished) - began < 1.0


def test_a_put_that_was_held_up_does_not_replace_a_later_one() -> None:
    ring = Ring(8)
    me = ring.nodes[0]
    dead = ring.nodes[4]
    key = next(f"k{n}" for n in range(200) if ring.owner(routing_id("t", f"k{n}")) is dead)
    name = Name("t", key, "s")
    ring.kill(dead, noticed=False)
    codes: list[Code] = []
    me.dht.put(PutObject(name, b"first", 600.0), codes.append)
    ring.world.run_for(2.0)
    ring.notice(dead)
    other = ring.nodes[2]
    assert ring.call(lambda done: other.dht.put(PutObject(name, b"second", 600.0), done)) is Code.OK
    ring.world.run_for(20.0)
    assert codes == [Code.OK]
    got = ring.call(lambda done: me.dht.get(GetObject("t", key), done))
    assert [each.value for each in got.objects] == [b"second"]


def test_no_answer_ends_as_unreached() -> None:
    ring = Ring(4)
    me = ring.nodes[0]
    ring.kill(ring.nodes[2], noticed=False)
    dead_id = next(node for node in ring.members.routers if node not in {n.id for n in ring.nodes})
    key = next(f"k{n}" for n in range(100) if ring.members.owner(routing_id("t", f"k{n}")) == dead_id)
    got = ring.call(lambda done: me.dht.get(GetObject("t", key), done))
    assert (got.code, got.objects) == (Code.UNREACHED, ())
    code = ring.call(lambda done: me.dht.put(PutObject(Name("t", key, "s"), b"", 60.0), done))
    assert code is Code.UNREACHED
    assert me.dht.statistics().requests.under_way == 0


def test_copies_are_renewed_and_repaired() -> None:
    ring = Ring(8)
    me = ring.nodes[0]
    ring.call(lambda done: me.dht.put_many(objects(100, lifetime_s=60.0, copies=2), done))
    assert sum(node.dht.statistics().store.objects for node in ring.nodes) == 300
    ring.kill(ring.nodes[4])
    ring.world.run_for(30.0)
    renewals = [RenewObject(put.name, 60.0) for put in objects(100)]
    assert ring.call(lambda done: me.dht.renew_many(renewals, done)) == [Code.OK] * 100
    ring.world.run_for(45.0)
    # The first lifetime is over: what lives now was renewed, at the owner and at both its neighbours.
    assert sum(node.dht.statistics().store.objects for node in ring.nodes) == 300


def test_publishers_bring_back_what_failures_took() -> None:
    ring = Ring(10)
    me = ring.nodes[0]
    publisher = Publisher(me.runtime, me.dht)
    codes = ring.call(lambda done: publisher.publish(objects(300, lifetime_s=50.0), done))
    assert codes == [Code.OK] * 300
    for _ in range(3):
        ring.kill(ring.nodes[5])
        assert len(read(ring, me, 300)) < 300
        ring.world.run_for(20.0 + 1.0)
        assert read(ring, me, 300) == list(range(300))
    assert publisher.statistics().republished > 50
    ring.world.run_for(300.0)
    assert read(ring, me, 300) == list(range(300))
    new = PutObject(Name("t", "k7", "s"), b"changed", 50.0)
    ring.call(lambda done: publisher.publish([new], done))
    ring.world.run_for(60.0)
    got = ring.call(lambda done: me.dht.get(GetObject("t", "k7"), done))
    assert [each.value for each in got.objects] == [b"changed"]
    publisher.withdraw(publisher.names())
    ring.world.run_for(2.0)
    assert read(ring, me, 300) == []


def test_a_publisher_keeps_trying_when_stores_are_full_and_has_a_bound_itself() -> None:
    ring = Ring(3)
    publisher = Publisher(ring.nodes[0].runtime, ring.nodes[0].dht, published_max=5)
    assert ring.call(lambda done: publisher.publish(objects(6), done)) == [Code.LIMIT] * 6
    assert ring.call(lambda done: publisher.publish(objects(5), done)) == [Code.OK] * 5
    assert publisher.statistics().over_limit == 6


def test_renewals_for_an_owner_that_is_silent_do_not_keep_the_others_waiting() -> None:
    """The perfect router never gives the silent owner up, so every renewal for it takes all of its attempts."""
    ring = Ring(4)
    me, silent = ring.nodes[0], ring.nodes[2]
    publisher = Publisher(me.host.runtime, me.dht)
    lifetime_s = 20.0
    ring.call(lambda done: publisher.publish(objects(200, lifetime_s), done))
    others = [n for n in range(200) if not silent.router.owns(routing_id("t", f"k{n}"))]
    assert 0 < len(others) < 200
    pause(silent.host, 60.0)
    for _ in range(50):
        ring.world.run_for(1.0)
        there = {key for node in ring.nodes if node is not silent for key in held(ring, node)}
        assert there >= {f"k{n}" for n in others}
