"""The verbs over the perfect router: addressed by name, by id, by address; single and batched; local ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from overlay.dht.messages import Cause, Code
from overlay.dht.operations import GetObject, Got, PutObject, RenewObject, Target
from overlay.dht.resolve import LOOKUPS_MAX
from overlay.dht.sends import MultiSent
from overlay.dht.verbs import DhtConfig
from overlay.dht.watch import NewData, Passing
from overlay.objects.name import Name, Prefix
from overlay.objects.store import StoreLimits
from overlay.ring import routing_id
from overlay.router import Verdict
from tests.overlay.rings import Node, Ring


def put_object(key: str, suffix: str = "s", value: bytes = b"value", **more: object) -> PutObject:
    return replace(PutObject(Name("table", key, suffix), value, 60.0), **more)  # type: ignore[arg-type]


def values(got: Got) -> list[bytes]:
    assert got.code is Code.OK
    return sorted(each.value for each in got.objects)


@pytest.fixture
def ring() -> Ring:
    return Ring(12)


def get(ring: Ring, node: Node, key: str, **more: object) -> Got:
    return ring.call(lambda done: node.dht.get(GetObject("table", key, **more), done))  # type: ignore[arg-type]


def test_put_and_get_by_name_from_anywhere(ring: Ring) -> None:
    for n in range(40):
        put = partial(ring.nodes[n % 12].dht.put, put_object(f"k{n}"))
        assert ring.call(put) is Code.OK
    for n in range(40):
        assert values(get(ring, ring.nodes[(n * 5) % 12], f"k{n}")) == [b"value"]
    stores = [node.dht.statistics().store.objects for node in ring.nodes]
    assert sum(stores) == 40
    owner = ring.owner(routing_id("table", "k3"))
    assert owner.dht.statistics().store.objects == stores[ring.nodes.index(owner)] > 0


def test_the_routing_id_may_be_the_callers(ring: Ring) -> None:
    target = Target(id=ring.nodes[7].id + 5)
    assert ring.call(lambda done: ring.nodes[0].dht.put(put_object("k", target=target), done)) is Code.OK
    assert ring.nodes[7].dht.statistics().store.objects == 1
    assert values(get(ring, ring.nodes[3], "k", target=target)) == [b"value"]
    renewal = RenewObject(Name("table", "k", "s"), 60.0, target)
    assert ring.call(lambda done: ring.nodes[1].dht.renew(renewal, done)) is Code.OK


def test_an_address_takes_the_place_of_ownership(ring: Ring) -> None:
    there = ring.nodes[4]
    target = Target(address=there.host.address)
    put = put_object("k", target=target)
    assert ring.call(lambda done: ring.nodes[0].dht.put(put, done)) is Code.OK
    assert there.dht.statistics().store.objects == 1
    assert values(get(ring, ring.nodes[3], "k", target=target)) == [b"value"]
    if ring.owner(routing_id("table", "k")) is not there:
        assert values(get(ring, ring.nodes[3], "k")) == []
    seen: list[bytes] = []
    ring.call(
        lambda done: there.dht.local_scan(
            Prefix(), lambda c: seen.extend(o.value for o in c), lambda: done(0)
        )
    )
    assert seen == [b"value"]


def test_batches_cost_a_message_per_owner(ring: Ring) -> None:
    me = ring.nodes[0]
    puts = [put_object(f"k{n}", value=b"%d" % n) for n in range(300)]
    codes = ring.call(lambda done: me.dht.put_many(puts, done))
    assert codes == [Code.OK] * 300
    assert me.dht.statistics().requests.messages <= 2 * 12
    assert me.dht.statistics().lookups <= LOOKUPS_MAX + 2 * 12
    before = me.dht.statistics()
    gets = [GetObject("table", f"k{n}") for n in range(300)]
    results = ring.call(lambda done: me.dht.get_many(gets, done))
    assert [values(got) for got in results] == [[b"%d" % n] for n in range(300)]
    renewals = [RenewObject(put.name, 60.0) for put in puts] + [RenewObject(Name("table", "no", "no"), 60.0)]
    renewed = ring.call(lambda done: me.dht.renew_many(renewals, done))
    assert renewed == [Code.OK] * 300 + [Code.UNKNOWN]
    after = me.dht.statistics()
    assert after.requests.messages - before.requests.messages <= 2 * 12
    assert after.lookups == before.lookups
    assert ring.call(lambda done: me.dht.put_many([], done)) == []


def test_messages_are_bounded_in_bytes_and_gets_come_in_pages() -> None:
    ring = Ring(5, config=DhtConfig(message_bytes_max=2000))
    me = ring.nodes[0]
    puts = [put_object("k", f"{n:03}", b"%900d" % n) for n in range(50)] + [put_object("l")]
    assert ring.call(lambda done: me.dht.put_many(puts, done)) == [Code.OK] * 51
    assert me.dht.statistics().requests.messages >= 25
    both = [GetObject("table", "k"), GetObject("table", "l")]
    whole, other = ring.call(lambda done: ring.nodes[2].dht.get_many(both, done))
    assert values(whole) == [b"%900d" % n for n in range(50)]
    assert values(other) == [b"value"]
    assert values(get(ring, me, "k", suffix="007")) == [b"%900d" % 7]


def test_objects_end_and_refusals_are_told() -> None:
    ring = Ring(3, config=DhtConfig(limits=StoreLimits(objects_max=4, value_bytes_max=100)))
    me = ring.nodes[0]
    codes = ring.call(lambda done: me.dht.put_many([put_object(f"k{n}") for n in range(40)], done))
    assert codes.count(Code.OK) == 12 and codes.count(Code.FULL) == 28
    assert ring.call(lambda done: me.dht.put(put_object("k0", value=b"x" * 101), done)) is Code.TOO_LARGE
    ring.world.run_for(61.0)
    assert all(node.dht.statistics().store.objects == 0 for node in ring.nodes)


def test_an_ended_renewal_removes(ring: Ring) -> None:
    me = ring.nodes[0]
    ring.call(lambda done: me.dht.put(put_object("k"), done))
    assert ring.call(lambda done: me.dht.renew(RenewObject(Name("table", "k", "s"), 0.0), done)) is Code.OK
    assert values(get(ring, me, "k")) == []


def test_temporary_objects_are_not_renewed_and_not_copied(ring: Ring) -> None:
    me = ring.nodes[0]
    assert ring.call(lambda done: me.dht.put_temp(put_object("k", copies=3), done)) is Code.OK
    assert sum(node.dht.statistics().store.objects for node in ring.nodes) == 1
    renewed = ring.call(lambda done: me.dht.renew(RenewObject(Name("table", "k", "s"), 60.0), done))
    assert renewed is Code.UNKNOWN


def test_new_data_and_local_scan_see_each_object_once_at_one_node(ring: Ring) -> None:
    news: list[tuple[int, NewData]] = []
    for number, node in enumerate(ring.nodes):
        node.dht.new_data(Prefix("table"), lambda new, at=number: news.append((at, new)))
        node.dht.new_data(Prefix("other"), lambda new: news.append((-1, new)))
    puts = [put_object(f"k{n}", copies=2) for n in range(30)]
    ring.call(lambda done: ring.nodes[0].dht.put_many(puts, done))
    ring.call(lambda done: ring.nodes[5].dht.put_many(puts, done))
    assert sorted(new.name.key for _, new in news) == sorted(f"k{n}" for n in range(30))
    assert all(ring.owner(routing_id("table", new.name.key)) is ring.nodes[at] for at, new in news)
    assert sum(node.dht.statistics().store.objects for node in ring.nodes) == 90
    scanned: list[str] = []
    for node in ring.nodes:
        ring.call(
            lambda done, of=node: of.dht.local_scan(
                Prefix("table"),
                lambda chunk: scanned.extend(each.name.key for each in chunk),
                lambda: done(0),
            )
        )
    assert sorted(scanned) == sorted(f"k{n}" for n in range(30))


def test_send_is_seen_on_the_way_and_may_be_changed_or_stopped(ring: Ring) -> None:
    seen: list[tuple[int, bytes, bool, bool]] = []
    news: list[NewData] = []

    def passing(at: int, what: Passing) -> Verdict | bytes:
        seen.append((at, what.value, what.passage.at_owner, what.passage.locally_sent))
        if what.value == b"stop me" and not what.passage.locally_sent:
            return Verdict.STOP
        return what.value + b"." if what.value.startswith(b"mark") else Verdict.FORWARD

    for number, node in enumerate(ring.nodes):
        node.dht.upcall(Prefix("table"), lambda what, at=number: passing(at, what))
        node.dht.new_data(Prefix("table"), news.append)
    key = ring.nodes[5].id
    me = ring.nodes[0]
    sent = put_object("k", value=b"mark", target=Target(id=key))
    assert ring.call(lambda done: me.dht.send(sent, done)) is True
    assert len(seen) >= 2 and seen[0][3] and seen[-1][2] and seen[-1][0] == 5
    assert [new.value for new in news] == [b"mark" + b"." * len(seen)]
    assert news[0].cause is Cause.SENT
    assert ring.nodes[5].dht.statistics().store.objects == 1
    seen.clear()
    assert ring.call(lambda done: me.dht.send(replace(sent, value=b"stop me"), done)) is True
    assert len(seen) == 2 and len(news) == 1
    both = [
        replace(sent, value=b"plain", lifetime_s=0.0),
        replace(sent, name=Name("table", "k", "2"), value=b"stop me"),
    ]
    assert ring.call(lambda done: me.dht.send_many(both, done)) is True
    assert [new.value for new in news[1:]] == [b"plain"]
    assert ring.nodes[5].dht.statistics().store.objects == 1
    direct = replace(sent, target=Target(address=ring.nodes[9].host.address), lifetime_s=0.0)
    assert ring.call(lambda done: me.dht.send(direct, done)) is True
    ring.world.run_for(1.0)
    assert len(news) == 3


def test_multi_send_reaches_every_owner_in_fewer_messages_than_ids() -> None:
    ring = Ring(40)
    got: list[tuple[int, str]] = []
    for node in ring.nodes:
        node.dht.new_data(Prefix("table"), lambda new, at=node: got.append((at.id, new.name.key)))
    puts = [put_object(f"k{n}", lifetime_s=0.0) for n in range(400)]
    sent = ring.call(lambda done: ring.nodes[3].dht.multi_send(puts, done))
    assert sent == MultiSent(delivered=400, failed=0, unknown=0)
    assert sorted(key for _, key in got) == sorted(f"k{n}" for n in range(400))
    assert all(ring.members.owner(routing_id("table", key)) == at for at, key in got)
    statistics = [node.dht.statistics().sends for node in ring.nodes]
    messages = sum(each.multi_messages + each.multi_routed_singly for each in statistics)
    assert messages < 150, "400 ids at 40 owners"
    # With the owners known, one message each and nothing else.
    ring.call(lambda done: ring.nodes[3].dht.put_many([put_object(f"k{n}") for n in range(400)], done))
    before = sum(node.dht.statistics().sends.multi_messages for node in ring.nodes)
    puts = [put_object(f"k{n}", value=b"2", lifetime_s=0.0) for n in range(400)]
    assert ring.call(lambda done: ring.nodes[3].dht.multi_send(puts, done)).delivered == 400
    assert sum(node.dht.statistics().sends.multi_messages for node in ring.nodes) - before <= 40
