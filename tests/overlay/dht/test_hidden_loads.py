"""Loads that nobody sees before all of them can be seen; and taking back more than may be under way at once."""

from __future__ import annotations

import pytest

from overlay.dht import publisher as publisher_module
from overlay.dht import requests as requests_module
from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, PutObject
from overlay.dht.publisher import Publisher, Withdrawn
from overlay.loads import Heard, LoadWords
from overlay.objects.name import Name, Prefix
from overlay.ring import SPACE
from tests.overlay.rings import Node, Ring

OBJECTS = 200


def names(count: int = OBJECTS) -> list[Name]:
    return [Name("t", f"k{number}", "s") for number in range(count)]


def words(ring: Ring) -> list[LoadWords]:
    return [LoadWords(node.dht, node.spread) for node in ring.nodes]


def seen(ring: Ring) -> set[str]:
    """What scans of all nodes show; each object once."""
    found: list[str] = []
    for node in ring.nodes:
        ring.call(
            lambda done, node=node: node.dht.local_scan(  # type: ignore[misc]
                Prefix("t"), lambda chunk: found.extend(each.name.key for each in chunk), lambda: done(0)
            )
        )
    assert len(found) == len(set(found))
    return set(found)


def publish(ring: Ring, publisher: Publisher, load: str = "", count: int = OBJECTS) -> None:
    puts = [PutObject(name, b"v", 60.0, load=load) for name in names(count)]
    assert set(ring.call(lambda done: publisher.publish(puts, done))) == {Code.OK}


def test_a_load_is_seen_all_at_once_and_by_nobody_before() -> None:
    ring = Ring(8)
    told = words(ring)
    node = ring.nodes[3]
    publisher = Publisher(node.runtime, node.dht)
    news: list[str] = []
    for each in ring.nodes:
        each.dht.new_data(Prefix("t"), lambda data: news.append(data.name.key))
    publish(ring, publisher, "L")
    assert seen(ring) == set() and news == []
    get = GetObject("t", "k1")
    assert ring.call(lambda done: ring.nodes[0].dht.get(get, done)).objects == ()
    began = [each.runtime.now() for each in ring.nodes]
    shown: Heard = ring.call(lambda done: told[3].show("t", "L", done))
    assert shown == Heard(OBJECTS, 8, True)
    publisher.show(names())
    assert seen(ring) == {name.key for name in names()}
    assert sorted(news) == sorted(name.key for name in names()), "told once, when they came into sight"
    assert ring.call(lambda done: ring.nodes[0].dht.get(get, done)).objects != ()
    holders = [n for n, each in enumerate(ring.nodes) if each.dht.statistics().store.objects]
    for number in holders:
        assert ring.nodes[number].dht.unsettled("t", began[number]), "for who began before it was shown"
        assert not ring.nodes[number].dht.unsettled("t", ring.nodes[number].runtime.now())


def test_renewals_and_moves_keep_a_load_hidden_and_a_renewal_after_it_was_shown_repairs() -> None:
    ring = Ring(6)
    told = words(ring)
    publisher = Publisher(ring.nodes[0].runtime, ring.nodes[0].dht)
    publish(ring, publisher, "L")
    ring.world.run_for(100.0)
    assert publisher.statistics().renewals > OBJECTS and seen(ring) == set()
    fresh = ring.make(ring.nodes[2].id + SPACE // 40)
    ring.nodes.append(fresh)
    fresh.router.start()
    told.append(LoadWords(fresh.dht, fresh.spread))
    ring.world.run_for(10.0)
    assert fresh.dht.statistics().store.objects > 0 and seen(ring) == set()
    # Nobody says the word: the publisher's own renewals show what it holds to be shown.
    publisher.show(names())
    ring.world.run_for(60.0)
    assert seen(ring) == {name.key for name in names()}


def test_a_node_that_heard_one_word_only_says_so_to_its_readers() -> None:
    ring = Ring(4)
    publisher = Publisher(ring.nodes[0].runtime, ring.nodes[0].dht)
    publish(ring, publisher, "L")
    now = ring.nodes[0].runtime.now
    assert not any(node.dht.unsettled("t", now()) for node in ring.nodes)
    assert sum(node.dht.turn_load("t", "L") for node in ring.nodes) == OBJECTS
    assert all(node.dht.unsettled("t", now()) for node in ring.nodes if node.dht.keys_under("t"))
    assert sum(node.dht.show_load("t", "L") for node in ring.nodes) == OBJECTS
    assert not any(node.dht.unsettled("t", now()) for node in ring.nodes)


def test_what_is_seen_stays_seen_when_its_load_is_put_again() -> None:
    ring = Ring(4)
    told = words(ring)
    publisher = Publisher(ring.nodes[0].runtime, ring.nodes[0].dht)
    publish(ring, publisher)
    publish(ring, publisher, "again")
    assert len(seen(ring)) == OBJECTS
    assert ring.call(lambda done: told[1].show("t", "again", done)).objects == OBJECTS


def test_a_namespace_is_dropped_where_it_is_renewed_and_where_it_lies() -> None:
    ring = Ring(6)
    told = words(ring)
    publisher = Publisher(ring.nodes[0].runtime, ring.nodes[0].dht)

    def forget(namespace: str, keys: object) -> int:
        chosen = [each for each in publisher.names() if not keys or each.key in keys]  # type: ignore[operator]
        return publisher.forget(chosen)

    told[0].on_forget(forget)
    publish(ring, publisher)
    two: Heard = ring.call(lambda done: told[4].drop("t", ["k3", "k5"], done))
    assert two == Heard(2, 6, True)
    assert len(seen(ring)) == OBJECTS - 2
    rest: Heard = ring.call(lambda done: told[2].drop("t", [], done))
    assert rest == Heard(OBJECTS - 2, 6, True)
    ring.world.run_for(120.0)
    assert seen(ring) == set() and publisher.names() == []


def _bounded(monkeypatch: pytest.MonkeyPatch) -> tuple[Ring, Publisher]:
    monkeypatch.setattr(requests_module, "ENTRIES_MAX", 64)
    monkeypatch.setattr(publisher_module, "WITHDRAWN_OBJECTS", 50)
    monkeypatch.setattr(publisher_module, "BURST_OBJECTS", 50)
    ring = Ring(5)
    return ring, Publisher(ring.nodes[0].runtime, ring.nodes[0].dht)


def test_more_is_published_and_taken_back_than_may_be_under_way_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ring, publisher = _bounded(monkeypatch)
    publish(ring, publisher, count=500)
    assert len(seen(ring)) == 500
    gone: Withdrawn = ring.call(lambda done: publisher.withdraw(names(500), done))
    assert gone == Withdrawn(500, 0) and seen(ring) == set()


def test_what_could_not_be_taken_back_is_counted_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    ring, publisher = _bounded(monkeypatch)
    publish(ring, publisher, count=300)
    silent: Node = ring.nodes[2]
    held = silent.dht.statistics().store.objects
    ring.kill(silent, noticed=False)
    gone: Withdrawn = ring.call(lambda done: publisher.withdraw(names(300), done), within_s=300.0)
    assert gone == Withdrawn(300 - held, held) and held > 0
    assert publisher.statistics().withdrawals_failed == held


def test_a_load_that_is_given_up_leaves_what_others_show_under_the_same_names() -> None:
    """Two nodes publish the same rows; the second comes to nothing."""
    ring = Ring(4)
    first, second = (Publisher(ring.nodes[n].runtime, ring.nodes[n].dht) for n in (0, 1))
    publish(ring, first)
    publish(ring, second, "L")
    assert len(seen(ring)) == OBJECTS
    assert ring.call(lambda done: second.withdraw(names(), done)) == Withdrawn(OBJECTS, 0)
    assert len(seen(ring)) == OBJECTS
