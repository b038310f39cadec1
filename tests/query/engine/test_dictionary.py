"""The data dictionary: nodes tell what they have, the ring can be asked for one table or for all."""

from __future__ import annotations

import pytest

from overlay.ring import routing_id
from query.batch import Batch, from_pydict
from query.engine.describing import LIFETIME_S, LOOK_S, REVIEW_S
from query.engine.facts import DICTIONARY, TableFacts, by_name, merge, read, write
from tests.query.engine.cluster import Cluster, MemoryTable

NODES = 6


def rows(count: int) -> Batch:
    return from_pydict("fw", {"src": ["10.0.0.1"] * count, "dpt": list(range(count))})


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(NODES, seed=3)
    cluster.load("fw", [rows(10 * number) for number in range(1, NODES + 1)])
    cluster.world.run_for(2 * LOOK_S)
    return cluster


def look_up(cluster: Cluster, name: str, at: int = 1) -> list[TableFacts]:
    found: list[list[TableFacts]] = []
    cluster.nodes[at].catalog.look_up(name, found.append)
    cluster.world.run_for(5.0)
    assert len(found) == 1
    return found[0]


def test_sources_are_found_in_any_case_with_rows_and_bytes_of_all_nodes(cluster: Cluster) -> None:
    for name in ("fw", "FW"):
        (facts,) = look_up(cluster, name)
        assert (facts.name, facts.kind, facts.nodes, facts.sized) == ("fw", "source", NODES, NODES)
        assert facts.rows == 10 * 21
        assert facts.bytes > 21 * 8
        assert facts.columns == ("src", "dpt")
    assert look_up(cluster, "nothing") == []


def test_one_node_is_asked_for_one_table(cluster: Cluster) -> None:
    arrived = [node.overlay.spread.statistics().arrived for node in cluster.nodes]
    look_up(cluster, "fw")
    asked = sum(node.overlay.spread.statistics().arrived for node in cluster.nodes) - sum(arrived)
    assert asked <= 2


def test_growth_that_matters_is_told_and_what_is_gone_is_forgotten(cluster: Cluster) -> None:
    cluster.tables[0].tables["fw"].batches.append(rows(1_000))
    cluster.world.run_for(REVIEW_S + LOOK_S)
    assert look_up(cluster, "fw")[0].rows == 10 * 21 + 1_000
    for tables in cluster.tables:
        del tables.tables["fw"]
    cluster.world.run_for(2 * LOOK_S)
    assert look_up(cluster, "fw") == []


def test_a_dead_node_is_forgotten_when_its_entries_end(cluster: Cluster) -> None:
    cluster.world.crash(cluster.hosts[5])
    cluster.world.run_for(LIFETIME_S + 10.0)
    (facts,) = look_up(cluster, "fw")
    assert (facts.nodes, facts.rows) == (NODES - 1, 10 * 15)


def test_the_entries_outlive_the_node_that_keeps_them(cluster: Cluster) -> None:
    key = routing_id(DICTIONARY, "fw")
    owner = next(n for n, node in enumerate(cluster.nodes) if node.overlay.router.owns(key))
    cluster.world.crash(cluster.hosts[owner])
    cluster.world.run_for(20.0)
    (facts,) = look_up(cluster, "fw", at=(owner + 1) % NODES)
    assert facts.nodes >= NODES - 1


def test_all_tables_are_asked_of_all_nodes_and_nobody_counts_twice(cluster: Cluster) -> None:
    cluster.tables[2].tables["hosts"] = MemoryTable([from_pydict("hosts", {"ip": ["a", "b"]})])
    found: list[TableFacts] = []
    cluster.nodes[0].catalog.ask(lambda facts, coverage: found.extend(facts))
    cluster.world.run_for(5.0)
    by = {each.name: each for each in found}
    assert (by["fw"].rows, by["fw"].nodes) == (10 * 21, NODES)
    assert (by["hosts"].rows, by["hosts"].nodes) == (2, 1)


def test_facts_merge_in_any_order_and_bad_bytes_are_none() -> None:
    a = TableFacts("t", "source", ("x", "y"), ("long", "string"), rows=5, bytes=50, sized=1)
    b = TableFacts("t", "published", ("y", "x"), ("string", "double"), 0, (("x",),))
    for one, other in ((a, b), (b, a)):
        (both,) = read(merge(write([one]), write([other])))
        assert dict(zip(both.columns, both.types, strict=True)) == {"x": "", "y": "string"}
        assert (both.kind, both.nodes, both.rows, both.key_columns) == ("published+source", 1, 5, (("x",),))
    assert by_name([a, a], one_node=True)[0].nodes == 1
    assert read(b"\xc1") == read(write([a])[:-1]) == []
