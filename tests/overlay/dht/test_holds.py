"""Rows of a query come to the node that held their arc when it began, once, whatever the ring believes since."""

from __future__ import annotations

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject, Target
from overlay.objects.name import Name, Prefix
from overlay.ring import routing_id
from tests.overlay.rings import Node, Ring

COUNT = 200


class Readers:
    """Nodes that read a namespace, and which of them saw each object."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.seen: dict[str, list[int]] = {}
        self.codes: list[Code] = []

    def begin(self, node: Node) -> None:
        node.dht.hold("q")
        node.dht.new_data(Prefix("q"), lambda data: self.seen.setdefault(data.name.key, []).append(node.id))

    def put(self, node: Node) -> None:
        rows = [PutObject(Name("q", f"k{n}", ""), b"row", 600.0, temporary=True) for n in range(COUNT)]
        node.dht.put_many(rows, self.codes.extend)


def owners(ring: Ring) -> dict[str, list[int]]:
    return {f"k{n}": [ring.owner(routing_id("q", f"k{n}")).id] for n in range(COUNT)}


def test_rows_find_a_node_that_everybody_takes_for_dead() -> None:
    ring = Ring(8)
    readers = Readers(ring)
    before = owners(ring)
    for node in ring.nodes:
        readers.begin(node)
    ring.members.remove(ring.nodes[3].router, suspect=True)
    assert owners(ring) != before
    for node in (ring.nodes[0], ring.nodes[4]):
        readers.put(node)
        ring.world.run_for(10.0)
    assert readers.codes == [Code.OK] * 2 * COUNT
    assert readers.seen == before, "each at the node that had its arc, once"


def test_the_arc_of_a_node_that_was_silent_from_the_start_is_taken_over_when_it_is_given_up() -> None:
    ring = Ring(8)
    readers = Readers(ring)
    dead = ring.nodes[3]
    ring.kill(dead)
    for node in ring.nodes:
        readers.begin(node)
    readers.put(ring.nodes[0])
    ring.world.run_for(4.0)
    assert 0 < len(readers.seen) < COUNT, "its rows wait: it may live"
    for node in ring.nodes:
        node.router.gives_up(dead.router.me)
    ring.world.run_for(30.0)
    assert readers.codes == [Code.OK] * COUNT
    assert readers.seen == owners(ring)


def test_what_a_query_reads_here_does_not_follow_its_arc_to_a_newcomer() -> None:
    ring = Ring(8)
    readers = Readers(ring)
    before = owners(ring)
    for node in ring.nodes:
        readers.begin(node)
    readers.put(ring.nodes[0])
    ring.world.run_for(5.0)
    newcomer = ring.make((ring.nodes[2].id + ring.nodes[3].id) // 2)
    ring.nodes.append(newcomer)
    newcomer.dht.new_data(Prefix("q"), lambda data: readers.seen[data.name.key].append(newcomer.id))
    newcomer.router.start()
    ring.world.run_for(20.0)
    assert owners(ring) != before
    assert readers.seen == before
    assert newcomer.dht.statistics().store.objects == 0


def test_when_the_query_has_ended_the_ring_decides_again() -> None:
    ring = Ring(4)
    held = [node.dht.hold("q") for node in ring.nodes]
    ring.members.remove(ring.nodes[1].router)
    for each in held:
        each.cancel()
    readers = Readers(ring)
    readers.put(ring.nodes[0])
    ring.world.run_for(5.0)
    assert readers.codes == [Code.OK] * COUNT
    assert ring.nodes[1].dht.statistics().store.objects == 0


def test_rows_that_were_put_at_a_node_go_with_the_last_reader() -> None:
    ring = Ring(4)
    reader, other = ring.nodes[1], ring.nodes[2]
    here = Target(address=reader.host.address)
    rows = [PutObject(Name("q", f"{n}", ""), b"row", 600.0, here, temporary=True) for n in range(COUNT)]
    placed = PutObject(Name("q", "found by its key", ""), b"row", 600.0, here, temporary=False)
    held = [reader.dht.hold("q"), reader.dht.hold("q")]
    other.dht.put_many([*rows, placed], lambda codes: None)
    ring.world.run_for(5.0)
    assert reader.dht.keys_under("q") == COUNT + 1
    held[0].cancel()
    held[0].cancel()
    ring.world.run_for(1.0)
    assert reader.dht.keys_under("q") == COUNT + 1
    held[1].cancel()
    ring.world.run_for(1.0)
    assert reader.dht.keys_under("q") == 1
