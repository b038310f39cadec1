"""Soft-state distribution trees: edges from registrations, broadcasts down them, repeats and misses counted."""

from __future__ import annotations

from overlay.spread.trees import TreesConfig, root_id
from tests.overlay.rings import Ring


def grown(count: int) -> tuple[Ring, list[tuple[int, bytes]]]:
    ring = Ring(count)
    heard: list[tuple[int, bytes]] = []
    for node in ring.nodes:
        node.trees.on_broadcast("news", lambda origin, payload, at=node.id: heard.append((at, payload)))
        node.trees.start()
    ring.world.run_for(2.0)
    return ring, heard


def test_every_node_but_the_root_is_the_child_of_one_node_in_each_tree() -> None:
    ring, _ = grown(50)
    for tree in range(2):
        children = [address for node in ring.nodes for address in node.trees.children(tree)]
        root = ring.owner(root_id(tree))
        assert sorted(children) == sorted(n.host.address for n in ring.nodes if n is not root)
    assert root_id(0) != root_id(1)


def test_a_broadcast_by_one_tree_reaches_everybody_once() -> None:
    ring, heard = grown(50)
    for n in range(4):
        ring.nodes[n * 7].trees.broadcast("news", b"%d" % n)
    ring.world.run_for(5.0)
    assert sorted(heard) == sorted((node.id, b"%d" % n) for node in ring.nodes for n in range(4))
    assert sum(node.trees.statistics().duplicates for node in ring.nodes) == 0


def test_two_trees_make_up_for_a_dead_inner_node() -> None:
    ring, heard = grown(60)
    tree = 1
    inner = max(
        (n for n in ring.nodes if n is not ring.owner(root_id(tree))),
        key=lambda n: len(n.trees.children(tree)),
    )
    behind = len(inner.trees.children(tree))
    assert behind > 1
    ring.kill(inner)
    ring.nodes[0].trees.broadcast("news", b"one tree")
    ring.world.run_for(5.0)
    assert len(heard) < 59
    heard.clear()
    ring.nodes[0].trees.broadcast("news", b"both", trees=2)
    ring.world.run_for(5.0)
    assert sorted(heard) == sorted((node.id, b"both") for node in ring.nodes)
    assert sum(node.trees.statistics().duplicates for node in ring.nodes) > 30
    assert sum(node.trees.statistics().missed for node in ring.nodes) == 0, (
        "the first broadcast is nobody's gap"
    )
    ring.world.run_for(3 * TreesConfig().refresh_s)
    heard.clear()
    ring.nodes[0].trees.broadcast("news", b"healed")
    ring.world.run_for(5.0)
    assert len(heard) == 59


def test_missed_broadcasts_are_noticed_by_the_gap() -> None:
    ring, _ = grown(30)
    me, other = ring.nodes[0], ring.nodes[20]
    me.trees.broadcast("news", b"1")
    ring.world.run_for(5.0)
    ring.world.crash(other.host)
    me.trees.broadcast("news", b"2")
    me.trees.broadcast("news", b"3")
    ring.world.run_for(5.0)
    other.host.alive = other.host.runtime.alive = other.host.runtime.awake = True
    me.trees.broadcast("news", b"4", trees=2)
    ring.world.run_for(5.0)
    assert other.trees.statistics().missed == 2


def test_nobody_registers_for_trees_that_nobody_listens_to() -> None:
    ring = Ring(30)
    for node in ring.nodes:
        node.trees.start()
    ring.world.run_for(2 * TreesConfig().refresh_s)
    assert sum(node.trees.statistics().registrations for node in ring.nodes) == 0


def test_one_listener_is_heard_of_by_way_of_nodes_that_do_not_listen() -> None:
    ring = Ring(30)
    heard: list[bytes] = []
    for node in ring.nodes:
        node.trees.start()
    ring.nodes[11].trees.on_broadcast("news", lambda origin, payload: heard.append(payload))
    ring.world.run_for(2.0)
    ring.nodes[3].trees.broadcast("news", b"1")
    ring.nodes[4].trees.broadcast("news", b"2")
    ring.world.run_for(5.0)
    assert sorted(heard) == [b"1", b"2"]
