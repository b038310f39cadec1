"""Hosts that cannot reach each other although everybody else reaches both: answers stay whole, and about as fast."""

from __future__ import annotations

from collections import Counter

import pytest

from overlay.ring import owned_arc
from pier_node.scenario.transport import sealed_transport
from query.batch import from_pydict
from runtime.sim.faults.partition import PairCut
from tests.query.engine.cluster import Cluster
from tests.query.engine.test_queries import COUNT_BY_SOURCE, plan

NODES = 8
ROWS = 20
#: Each node's rows, counted by source.
RIGHT = sorted(Counter({f"s{n}": NODES * ROWS // 5 for n in range(5)}).items())


def cluster_of(level: str, seed: int) -> Cluster:
    cluster = Cluster(NODES, seed, 0.05, sealed_transport(seed) if level == "packets" else None)
    rows: dict[str, list[object]] = {"src": [f"s{n % 5}" for n in range(ROWS)], "dpt": [22] * ROWS}
    cluster.load("fw", [from_pydict("fw", rows) for _ in range(NODES)])
    return cluster


def ask(cluster: Cluster, at: int, number: int) -> float:
    """How long a whole and right answer took."""
    began = cluster.world.now
    answer = cluster.answer(plan(COUNT_BY_SOURCE, number), at=at, for_s=120.0)
    assert answer.account is not None
    assert answer.account.ended == "complete", answer.account
    assert answer.account.asked == answer.account.answered + answer.account.empty == NODES
    assert answer.tuples() == RIGHT
    return cluster.world.now - began


def cut(cluster: Cluster, one_way: bool, pair: tuple[int, int]) -> PairCut:
    partitions = cluster.world.faults.partitions
    return partitions.cut_one_way([pair]) if one_way else partitions.cut_pairs([pair])


def assert_one_ring(cluster: Cluster) -> None:
    """Everybody agrees on who owns what, as if nothing were cut."""
    routers = sorted((node.overlay.router for node in cluster.nodes), key=lambda router: router.me.id)
    ids = [int.from_bytes(router.me.id, "big") for router in routers]
    for at, router in enumerate(routers):
        assert router.arc() == owned_arc(ids[at - 1], ids[at], ids[(at + 1) % NODES]), at


@pytest.mark.parametrize("level", ["messages", "packets"])
@pytest.mark.parametrize("one_way", [False, True], ids=["both ways", "one way"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_broken_pair_costs_no_rows_and_hardly_any_time(level: str, one_way: bool, seed: int) -> None:
    cluster = cluster_of(level, seed)
    before_s = max(ask(cluster, at, at) for at in range(NODES))
    pair = (2, 5) if seed == 1 else (0, 1)
    broken = cut(cluster, one_way, pair)
    # Finding the way takes a second or two, once; whoever asks at that moment waits for it.
    assert max(ask(cluster, at, 100 + at) for at in pair) < 8.0
    cluster.world.run_for(10.0)
    for number in range(2):
        took_s = [ask(cluster, at, 200 + 10 * number + at) for at in range(NODES)]
        assert max(took_s) < 3.0 * before_s
        cluster.world.run_for(60.0)
        assert_one_ring(cluster)
    cut_off = [cluster.nodes[at].overlay.messenger.statistics() for at in pair]
    assert all(each.paths >= 1 and each.sent > 0 for each in cut_off)
    assert sum(node.overlay.messenger.statistics().carried for node in cluster.nodes) > 0
    cluster.world.faults.partitions.heal(broken)
    for number in range(4):
        cluster.world.run_for(60.0)
        ask(cluster, pair[0], 300 + number)
        ask(cluster, pair[1], 310 + number)
    cut_off = [cluster.nodes[at].overlay.messenger.statistics() for at in pair]
    assert [each.paths for each in cut_off] == [0, 0], "the straight path is taken again"
    assert all(each.straightened >= 1 for each in cut_off)


def test_the_relay_dies_and_another_takes_its_place() -> None:
    cluster = cluster_of("messages", 1)
    cut(cluster, False, (2, 5))
    for number in range(3):
        ask(cluster, 2, number)
        cluster.world.run_for(5.0)
    busiest = max(
        (at for at in range(NODES) if at not in (2, 5)),
        key=lambda at: cluster.nodes[at].overlay.messenger.statistics().carried,
    )
    assert cluster.nodes[busiest].overlay.messenger.statistics().carried > 0
    cluster.world.crash(cluster.hosts[busiest])
    cluster.world.run_for(40.0)
    for number in range(3):
        answer = cluster.answer(plan(COUNT_BY_SOURCE, 100 + number), at=2, for_s=60.0)
        assert answer.account is not None
        assert (answer.account.ended, answer.account.asked) == ("complete", NODES - 1)


def test_a_node_joins_that_cannot_reach_its_neighbour() -> None:
    cluster = cluster_of("messages", 3)
    new = len(cluster.nodes)
    ids = {at: int.from_bytes(node.overlay.router.me.id, "big") for at, node in enumerate(cluster.nodes)}
    cluster.grow()
    mine = int.from_bytes(cluster.nodes[new].overlay.router.me.id, "big")
    nearest = sorted(ids, key=lambda at: min((ids[at] - mine) % (1 << 160), (mine - ids[at]) % (1 << 160)))
    # Not its gateway: a joining node knows nobody else whom it could ask.
    beside = next(at for at in nearest if at != 0)
    cut(cluster, False, (new, beside))
    cluster.world.run_for(60.0)
    routers = [node.overlay.router for node in cluster.nodes]
    assert all(router.joined for router in routers)
    ring = sorted(int.from_bytes(router.me.id, "big") for router in routers)
    for router in routers:
        at = ring.index(int.from_bytes(router.me.id, "big"))
        assert router.arc() == owned_arc(ring[at - 1], ring[at], ring[(at + 1) % len(ring)])
