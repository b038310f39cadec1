"""When an object was first put goes with it wherever it goes, and what changes hands is not new."""

from __future__ import annotations

from overlay.dht.operations import PutObject
from overlay.dht.publisher import Publisher
from overlay.dht.watch import NewData
from overlay.dht.window import EDGE_S
from overlay.objects.name import Name, Prefix
from overlay.ring import WHOLE
from tests.overlay.rings import Node, Ring

OBJECTS = 60


def objects(value: bytes = b"v", copies: int = 0) -> list[PutObject]:
    return [PutObject(Name("t", f"k{n}", "s"), value, 600.0, copies=copies) for n in range(OBJECTS)]


def ages(ring: Ring) -> dict[str, float]:
    """The ages of all objects, each at its owner."""
    found: dict[str, float] = {}
    for node in ring.nodes:
        keeper = node.dht._keeper
        for stored in keeper.store.scan(Prefix("t")).next(10_000, node.runtime.now()):
            if keeper.owns(stored.id):
                assert stored.name.key not in found
                found[stored.name.key] = node.runtime.now() - stored.born_at
    return found


def publisher(node: Node) -> Publisher:
    return Publisher(node.runtime, node.dht)


def watched(ring: Ring) -> list[NewData]:
    """Everything that nodes are told of and take for new."""
    news: list[NewData] = []

    def heard(data: NewData) -> None:
        if data.first:
            news.append(data)

    for node in ring.nodes:
        node.dht.new_data(Prefix("t"), heard)
    return news


def test_births_go_with_objects_to_a_newcomer_and_to_the_heirs_of_one_that_leaves() -> None:
    ring = Ring(6)
    ring.call(lambda done: ring.nodes[0].dht.put_many(objects(), done))
    ring.world.run_for(50.0)
    newcomer = ring.make((ring.nodes[2].id + ring.nodes[3].id) // 2)
    ring.nodes.append(newcomer)
    news = watched(ring)
    newcomer.router.start()
    ring.world.run_for(10.0)
    leaver = ring.nodes.pop(4)
    ring.call(lambda done: leaver.dht.leave(lambda: done(0)))
    leaver.router.leave()
    ring.world.crash(leaver.host)
    ring.world.run_for(40.0)
    found = ages(ring)
    assert len(found) == OBJECTS
    assert all(100.0 <= age <= 102.0 for age in found.values()), "within the time that they travelled"
    assert news == []
    assert newcomer.dht.statistics().store.objects > 0


def test_what_a_publisher_puts_again_is_as_old_as_it_was() -> None:
    ring = Ring(6)
    keeps = publisher(ring.nodes[0])
    ring.call(lambda done: keeps.publish(objects(copies=1), done, period_s=20.0))
    ring.world.run_for(50.0)
    news = watched(ring)
    ring.kill(ring.nodes[3])
    ring.world.run_for(50.0)
    found = ages(ring)
    assert len(found) == OBJECTS
    assert all(100.0 - 1.0 <= age <= 102.0 for age in found.values())
    assert news == []


def test_the_same_content_again_is_no_younger_and_another_is() -> None:
    ring = Ring(4)
    keeps, other = publisher(ring.nodes[0]), publisher(ring.nodes[1])
    ring.call(lambda done: keeps.publish(objects(), done))
    ring.world.run_for(30.0)
    news = watched(ring)
    for each in (keeps, other):
        ring.call(lambda done, each=each: each.publish(objects(), done))
    assert news == []
    assert min(ages(ring).values()) >= 30.0
    ring.call(lambda done: keeps.publish(objects(b"other"), done))
    assert len(news) == OBJECTS
    assert max(ages(ring).values()) < 2.0


def test_a_window_shows_what_is_young_in_an_arc_and_once_if_wanted() -> None:
    ring = Ring(1)
    node = ring.nodes[0]
    put = PutObject(Name("t", "old", "s"), b"old", 600.0)
    ring.call(lambda done: node.dht.put(put, done))
    ring.world.run_for(8.0)
    window = node.dht.window("t", 10.0)
    ring.world.run_for(1.0)
    assert window.read(WHOLE, since_last=True).values == [b"old"], (
        "what was put before it began counts by its age"
    )
    young = PutObject(Name("t", "young", "s"), b"young", 600.0)
    ring.call(lambda done: node.dht.put(young, done))
    assert window.read(WHOLE, since_last=True).values == [b"young"]
    assert window.read(WHOLE, since_last=True).values == []
    assert window.read(WHOLE, since_last=False).values == [b"old", b"young"]
    ring.world.run_for(3.0)
    assert window.read(WHOLE, since_last=False).values == [b"young"]
    moved = PutObject(Name("t", "moved", "s"), b"moved", 600.0, age_s=10.0 + EDGE_S / 2)
    ring.call(lambda done: node.dht.put(moved, done))
    assert window.read(WHOLE, since_last=False).values == [b"young"], "put again, and too old"
    window.close()
    assert window.read(WHOLE, since_last=False).values == []
