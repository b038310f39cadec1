"""Whole queries on simulated clusters: answers, accounts, nothing left behind."""

from __future__ import annotations

import gc
from collections import Counter

import pytest

import ufl
from query.batch import from_pydict
from query.dataflow.budget import Limits
from query.dataflow.graph import Dataflow
from query.engine.run import Run
from query.plan import Plan
from tests.query.engine.cluster import Cluster, Collector

COUNT_BY_SOURCE = """
%opgraph(local) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(wanted) { type = selection sources[0] = log
        %predicate(p) { type = atomic leftexpression = $dpt op = "!=" rightexpression = "80"::long } }
    %operator(part) { type = groupby sources[0] = wanted keys[src] = $src aggregates[n] = count() mode = partial }
    %operator(send) { type = put implementation = DHT sources[0] = part ns = "meet.\\qi" keys[0] = $src }
}
%opgraph(owners) {
    %operator(arrived) { type = scan implementation = DHT ns = "meet.\\qi" }
    %operator(whole) { type = groupby sources[0] = arrived keys[src] = $src aggregates[n] = count() mode = final }
    %operator(answer) { type = result sources[0] = whole }
}
"""


def plan(text: str, number: int = 1) -> Plan:
    return ufl.expand(ufl.parse(text), query_id=f"q{number}", query_time_s=0)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_a_rehashed_group_by_counts_every_row_once(count: int) -> None:
    cluster = Cluster(count)
    rows = [(f"10.0.0.{n % 7}", 80 if n % 5 == 0 else 22) for n in range(1_000)]
    batches = [
        from_pydict("fw", {"src": [s for s, _ in part], "dpt": [p for _, p in part]})
        for part in (rows[at : at + 50] for at in range(0, 1_000, 50))
    ]
    cluster.load("fw", batches)
    answer = cluster.answer(plan(COUNT_BY_SOURCE))
    assert answer.tuples() == sorted(Counter(src for src, port in rows if port != 80).items())
    account = answer.account
    assert account is not None
    assert account.asked == account.answered + account.empty == count
    assert account.ended == "complete"
    assert account.rows == 7
    assert not account.errors
    assert not account.dropped
    cluster.world.run_for(1.0)
    assert cluster.leftovers() == []


def test_nothing_of_an_ended_query_stays_in_memory() -> None:
    """Spreads are remembered for a minute, and by them the call's bytes; not what was made of them."""
    cluster = Cluster(4)
    cluster.load("fw", [from_pydict("fw", {"src": [f"s{n}"], "dpt": [n]}) for n in range(40)])
    for number in range(3):
        assert len(cluster.answer(plan(COUNT_BY_SOURCE, number)).tuples()) == 40
    cluster.world.run_for(1.0)
    assert sum(node.overlay.spread.statistics().remembered for node in cluster.nodes) > 0
    gc.collect()
    assert [each for each in gc.get_objects() if isinstance(each, Run | Dataflow)] == []
    left = {namespace for node in cluster.nodes for namespace in node.overlay.dht.namespaces()}
    assert not [namespace for namespace in left if namespace.startswith("meet.")]


def test_a_missing_column_is_counted_and_the_rest_is_answered() -> None:
    cluster = Cluster(3)
    cluster.load(
        "fw", [from_pydict("fw", {"src": ["a"], "dpt": [1]}), from_pydict("fw", {"source": ["b", "c"]})]
    )
    answer = cluster.answer(plan(COUNT_BY_SOURCE))
    assert answer.tuples() == [("a", 1)]
    account = answer.account
    assert account is not None
    assert sum(account.dropped.values()) == 2
    assert "no column 'dpt'" in next(iter(account.dropped))


def test_a_limit_is_named_and_the_query_ends_everywhere() -> None:
    cluster = Cluster(4)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n}" for n in range(5_000)], "dpt": [1] * 5_000})] * 8)
    answer = cluster.answer(plan(COUNT_BY_SOURCE), Limits(memory_bytes=10_000))
    account = answer.account
    assert account is not None
    assert account.ended == "limit"
    assert account.failed == 4
    assert any("memory_bytes = 10000" in error for error in account.errors)
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []


def test_a_node_that_dies_is_reported_and_not_waited_for() -> None:
    cluster = Cluster(8)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n}"], "dpt": [1]}) for n in range(80)])
    sink = Collector()
    cluster.ask(plan(COUNT_BY_SOURCE), sink=sink)
    while not cluster.nodes[5].executor.runs:
        cluster.world.run_for(0.001)
    cluster.world.crash(cluster.hosts[5])
    cluster.world.run_for(60.0)
    account = sink.account
    assert account is not None
    assert account.failed + account.unreachable == 1
    assert account.asked == 8 == account.answered + account.empty + account.failed + account.unreachable
    assert account.ended == "partial"
    assert account.elapsed_s < 30.0
    assert {row[0] for row in sink.tuples()} <= {f"{n}" for n in range(80)}


def test_rows_that_went_to_a_node_outside_the_ring_make_the_answer_partial() -> None:
    """While two parts of a ring become one, lookups may name a member of the other part, which takes the rows and is
    never asked."""
    cluster = Cluster(4)
    cluster.grow(after_s=10_000.0)
    cluster.nodes[4].overlay.start()
    stranger = cluster.hosts[4].address
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n}"], "dpt": [1]}) for n in range(80)])
    here = [host.address for host in cluster.hosts]
    cluster.nodes[0].proxy.owner_of = lambda key: here[key % 5]
    answer = cluster.answer(plan(COUNT_BY_SOURCE))
    account = answer.account
    assert account is not None
    assert account.asked == account.answered + account.empty == 4
    assert len(answer.tuples()) < 80
    assert account.ended == "partial"
    assert any("took no part" in error for error in account.errors)
    cluster.nodes[0].proxy.owner_of = lambda key: here[key % 4]
    assert stranger not in here[:4]
    answer = cluster.answer(plan(COUNT_BY_SOURCE, 2))
    assert answer.account is not None
    # The rows of the fifth of the tables are with the stranger, which is not asked.
    assert (len(answer.tuples()), answer.account.ended) == (64, "complete")


@pytest.mark.parametrize("after_s", [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1])
def test_cancel_reaches_every_node(after_s: float) -> None:
    """Whatever the query is at just then: before it is out, under way to nodes, between its stages."""
    cluster = Cluster(6)
    cluster.load("fw", [from_pydict("fw", {"src": ["a"], "dpt": [1]})] * 12)
    sink = Collector()
    query = cluster.ask(plan(COUNT_BY_SOURCE), sink=sink)
    cluster.world.run_for(after_s)
    query.cancel("enough")
    assert sink.account is not None
    assert sink.account.ended == "cancelled"
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []


def test_a_call_that_comes_after_its_end_is_refused() -> None:
    """Messages overtake each other: the word that a query is over may be the first that a node hears of it."""
    cluster = Cluster(3)
    cluster.load("fw", [from_pydict("fw", {"src": ["a"], "dpt": [1]})] * 3)
    sink = Collector()
    query = cluster.ask(plan(COUNT_BY_SOURCE), sink=sink)
    far = cluster.nodes[2].executor
    far._remember_ended(query.spec.id)
    assert far.knows(query.spec.id)
    cluster.world.run_for(5.0)
    assert sink.account is not None
    assert (sink.account.failed, sink.account.ended) == (1, "partial")
    cluster.nodes[0].proxy.end_everywhere("somebody's")
    cluster.world.run_for(1.0)
    assert all(node.executor.knows("somebody's") for node in cluster.nodes)
    assert cluster.leftovers() == []


CENTRAL = """
%opgraph(everywhere) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(part) { type = groupby sources[0] = log aggregates[n] = count() mode = partial }
    %operator(send) { type = put implementation = IP sources[0] = part channel = root }
}
%opgraph(root) {
    at = asker
    %operator(arrived) { type = scan implementation = IP channel = root }
    %operator(whole) { type = groupby sources[0] = arrived aggregates[n] = count() mode = final }
    %operator(answer) { type = result sources[0] = whole }
}
"""


def test_rows_sent_by_address_meet_at_the_asker() -> None:
    cluster = Cluster(8)
    cluster.load("fw", [from_pydict("fw", {"src": ["a", "b"]})] * 20)
    answer = cluster.answer(plan(CENTRAL), at=3)
    assert answer.tuples() == [(40,)]
    account = answer.account
    assert account is not None
    assert (account.asked, account.answered, account.empty, account.ended) == (8, 8, 0, "complete")


def test_rows_sent_through_the_overlay_are_counted_once() -> None:
    cluster = Cluster(8)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n}"], "dpt": [1]}) for n in range(40)])
    text = COUNT_BY_SOURCE.replace("implementation = DHT", "implementation = DHTMessage")
    assert cluster.answer(plan(text)).tuples() == sorted([(f"{n}", 1) for n in range(40)], key=repr)


REACHABLE = """
%opgraph(closure) {
    %operator(links) { type = scan implementation = Local table = links }
    %operator(seed) { type = put implementation = DHT sources[0] = links
        ns = "pairs.\\qi" meet = "node.\\qi" keys[0] = $to }
}
%opgraph(edges) {
    %operator(links) { type = scan implementation = Local table = links }
    %operator(send) { type = put implementation = DHT sources[0] = links
        ns = "edges.\\qi" meet = "node.\\qi" keys[0] = $from }
}
%opgraph(step) {
    %operator(pairs) { type = scan implementation = DHT ns = "pairs.\\qi" }
    %operator(new) { type = dupelim sources[0] = pairs }
    %operator(found) { type = tee sources[0] = new }
    %operator(edge) { type = scan implementation = DHT ns = "edges.\\qi" }
    %operator(meet) { type = join implementation = SymmetricHash sources[0] = found sources[1] = edge
        leftkeys[0] = $to rightkeys[0] = $from }
    %operator(hop) { type = projection implementation = Generate sources[0] = meet
        columns[from] = $"left.from" columns[to] = $"right.to" }
    %operator(again) { type = put implementation = DHT sources[0] = hop
        ns = "pairs.\\qi" meet = "node.\\qi" keys[0] = $to }
    %operator(answer) { type = result sources[0] = found }
}
"""


def closure(links: list[tuple[str, str]]) -> set[tuple[str, str]]:
    found = set(links)
    while True:
        more = {(a, d) for a, b in found for c, d in links if b == c} - found
        if not more:
            return found
        found |= more


@pytest.mark.parametrize("count", [1, 8])
def test_recursion_across_nodes_reaches_its_fixpoint_and_ends(count: int) -> None:
    cluster = Cluster(count)
    links = [(f"n{a}", f"n{(a * 7 + 3) % 23}") for a in range(23)] + [("n1", "n2"), ("n2", "n1"), ("x", "n0")]
    cluster.load("links", [from_pydict("links", {"from": [a], "to": [b]}) for a, b in links])
    answer = cluster.answer(plan(REACHABLE))
    assert {(a, b) for a, b in answer.tuples()} == closure(links)
    assert len(answer.tuples()) == len(closure(links))
    assert answer.account is not None
    assert answer.account.ended == "complete"
    cluster.world.run_for(1.0)
    assert cluster.leftovers() == []


def test_a_node_that_joins_during_a_query_does_not_split_a_group() -> None:
    """Groups have their nodes from the start: whoever takes over part of the ring meanwhile takes over no group."""
    cluster = Cluster(4)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n % 50}"], "dpt": [1]}) for n in range(400)])
    sink = Collector()
    for _ in range(3):
        cluster.grow()
    cluster.world.run_for(0.2)
    cluster.ask(plan(COUNT_BY_SOURCE), sink=sink)
    cluster.world.run_for(30.0)
    assert sink.account is not None
    sources = [row[0] for row in sink.tuples()]
    assert len(sources) == len(set(sources)) == 50
    assert all(count == 8 for _, count in sink.tuples())


@pytest.mark.parametrize("ahead_s", [0.0, 0.2, 0.4])
def test_a_node_that_joins_during_a_query_does_not_split_a_key_unsaid(ahead_s: float) -> None:
    """Keys have their nodes from when the query began there; what the ring brings to others is in the account."""
    cluster = Cluster(4)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n % 50}"], "dpt": [1]}) for n in range(400)])
    sink = Collector()
    for _ in range(3):
        cluster.grow()
    cluster.world.run_for(ahead_s)
    by_key = COUNT_BY_SOURCE.replace("keys[0] = $src }", "keys[0] = $src placement = key }")
    cluster.ask(plan(by_key), sink=sink)
    cluster.world.run_for(30.0)
    account = sink.account
    assert account is not None
    sources = [row[0] for row in sink.tuples()]
    assert len(sources) == len(set(sources)), "no key at two nodes"
    whole = len(sources) == 50 and all(count == 8 for _, count in sink.tuples())
    assert whole == (account.ended == "complete" and not account.dropped)


BLOOM_JOIN = """
%opgraph(filter) {
    %operator(small) { type = scan implementation = Local table = rep }
    %operator(known) { type = put implementation = Bloom sources[0] = small name = known keys[0] = $ip }
}
%opgraph(wanted) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(some) { type = selection implementation = Bloom sources[0] = log name = known keys[0] = $src }
    %operator(answer) { type = result sources[0] = some }
}
"""


def test_a_bloom_filter_of_all_nodes_keeps_every_row_with_a_partner_and_few_others() -> None:
    cluster = Cluster(8)
    cluster.load("rep", [from_pydict("rep", {"ip": [f"10.0.0.{n}"]}) for n in range(20)])
    cluster.load("fw", [from_pydict("fw", {"src": [f"10.0.{n % 40}.{n % 250}"]}) for n in range(1_000)])
    answer = cluster.answer(plan(BLOOM_JOIN))
    sources = [src for (src,) in answer.tuples()]
    partners = {f"10.0.0.{n}" for n in range(20)}
    expected = [f"10.0.{n % 40}.{n % 250}" for n in range(1_000)]
    assert sum(src in partners for src in sources) == sum(src in partners for src in expected)
    assert len(sources) < sum(src in partners for src in expected) + 30
    assert answer.account is not None
    assert answer.account.ended == "complete"
