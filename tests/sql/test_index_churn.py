"""Indexes while they are made and while the ring changes: an answer through one is whole, or says that it may not."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from pier_node.service import Publication, QueryRequest
from query.engine.facts import DICTIONARY
from query.index.defining import INDEX_SUFFIX
from query.index.service import LOOK_S
from tests.query.engine.cluster import Cluster
from tests.sql.test_indexes import explained
from tests.sql.test_node import Control, Node, Sink

ROWS = 400
VALUES = 20
#: Rows come back within 0.4 of it when their owner died.
LIFETIME_S = 60.0


class Indexed:
    """A ring with a published table, asked at a node that stays, where its rows are published, too."""

    def __init__(self, seed: int, nodes: int = 8) -> None:
        self.cluster = Cluster(nodes, seed=seed)
        self.rng = random.Random(seed)
        self.node = Node(self.cluster, 1)
        control = Control()
        feed = self.node.service.publish(Publication("t", ("k",), LIFETIME_S), control)
        feed.batch(pa.record_batch({"k": range(ROWS), "v": [n % VALUES for n in range(ROWS)]}), 1)
        feed.end()
        self.cluster.world.run_for(5.0)
        assert control.result is not None and control.result.refused == 0

    def create(self, using: str) -> None:
        made = self.node.ask(f"CREATE INDEX by_v ON t (v) USING {using}")
        assert made.failure is None
        assert made.account is not None and made.account.ended == "complete", made.account

    def wrong(self, text: str, wanted: list[int]) -> str | None:
        """Asks; what is wrong with the answer if it calls itself complete."""
        sink = self.node.ask(text, wait_s=0.1)
        for _ in range(600):
            if sink.account is not None or sink.failure is not None:
                break
            self.cluster.world.run_for(0.1)
        assert sink.failure is None, sink.failure
        assert sink.account is not None
        keys = sorted(row["k"] for row in sink.rows)
        self.last = sink.account
        if sink.account.ended != "complete":
            assert set(keys) <= set(wanted)
            assert len(keys) == len(set(keys))
            return None
        return None if keys == wanted else f"{text}: {len(keys)} of {len(wanted)}, {sink.account}"

    def leave(self, number: int) -> None:
        host, node = self.cluster.hosts[number], self.cluster.nodes[number]
        node.overlay.leave(lambda: self.cluster.world.crash(host))

    def question(self) -> tuple[str, list[int]]:
        low = self.rng.randrange(VALUES)
        high = low + self.rng.choice([0, 0, 3])
        keys = [n for n in range(ROWS) if low <= n % VALUES <= high]
        if low == high:
            return f"SELECT k FROM t WHERE v = {low}", keys
        return f"SELECT k FROM t WHERE v BETWEEN {low} AND {high}", keys


@pytest.mark.parametrize("using", ["pht", "hash"])
def test_an_index_that_was_just_made_is_whole_or_not_used(using: str) -> None:
    ring = Indexed(3)
    sink = Sink()
    ring.node.service.query(QueryRequest(f"CREATE INDEX by_v ON t (v) USING {using}", "sql"), sink)
    others = [Node(ring.cluster, number) for number in (0, 4)]
    for _ in range(40):
        ring.node.service._dictionary._known.clear()
        for node in (ring.node, *others):
            found = node.ask("SELECT k FROM t WHERE v = 3", wait_s=0.2)
            if found.account is not None and found.account.ended == "complete":
                assert sorted(row["k"] for row in found.rows) == [n for n in range(ROWS) if n % VALUES == 3]
    assert sink.account is not None and sink.account.ended == "complete"
    assert "index by_v" in explained(ring.node, "SELECT k FROM t WHERE v = 3")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("using", ["pht", "hash"])
def test_no_complete_answer_through_an_index_is_short_while_nodes_die_and_come_back_empty(
    using: str, seed: int
) -> None:
    # In small rings much of the index lies with whoever feeds it, and is lost with him.
    nodes = 4 + 2 * (seed % 3)
    ring = Indexed(seed, nodes)
    ring.create(using)
    ring.cluster.world.run_for(LOOK_S)
    wrong = []
    for step in range(150):
        # Most questions come while parts of the ring are lost.
        if step in (5, 50, 100):
            victim = ring.rng.randrange(2, nodes)
            change = ring.rng.choice([ring.cluster.wipe, ring.cluster.wipe, lambda _: ring.cluster.grow()])
            change(victim)
        text, wanted = ring.question()
        said = ring.wrong(text, wanted)
        if said is not None:
            wrong.append((step, said))
        ring.cluster.world.run_for(2.0 if step % 50 > 35 else 0.0)
    assert wrong == []
    ring.cluster.world.run_for(120.0)
    assert ring.wrong(*ring.question()) is None
    assert ring.last.ended == "complete", ring.last
    assert "index by_v" in explained(ring.node, "SELECT k FROM t WHERE v = 3"), "it is used again"


@pytest.mark.parametrize("change", ["join", "leave"])
@pytest.mark.parametrize("using", ["pht", "hash"])
def test_an_index_stays_whole_when_nodes_join_and_leave(using: str, change: str) -> None:
    ring = Indexed(5)
    ring.create(using)
    ring.cluster.world.run_for(LOOK_S)
    text, wanted = "SELECT k FROM t WHERE v = 3", [n for n in range(ROWS) if n % VALUES == 3]
    complete = 0
    for step in range(40):
        if step == 5 and change == "join":
            ring.cluster.grow()
        elif step == 5:
            ring.leave(4)
        assert ring.wrong(text, wanted) is None
        complete += ring.last.ended == "complete"
        ring.cluster.world.run_for(0.5)
    assert complete >= 30
    assert "index by_v" in explained(ring.node, text)


def test_of_two_indexes_of_one_name_made_at_once_one_is_made() -> None:
    for seed in range(5):
        ring = Indexed(seed, nodes=5)
        ring.node.publish("other", {"k": [1, 2], "w": [3, 4]}, "k")
        sinks = []
        for number, text in ((0, "ON t (v)"), (3, "ON t (k)"), (4, "ON other (w)")):
            sinks.append(Sink())
            Node(ring.cluster, number).service.query(
                QueryRequest(f"CREATE INDEX twice {text}", "sql"), sinks[-1]
            )
            ring.cluster.world.run_for(ring.rng.choice([0.0, 0.001, 0.02, 0.1]))
        ring.cluster.world.run_for(20.0)
        made = [sink for sink in sinks if sink.account is not None and sink.account.ended == "complete"]
        assert [len(sink.rows) for sink in made] == [1], seed
        for sink in sinks:
            # Whoever hears of the other while it plans is refused, and whoever loses the name at the ring fails.
            notes = sink.account.notes if sink.account is not None else ()
            says = notes if sink.failure is None else (sink.failure.message,)
            assert sink in made or any("there is an index 'twice' already" in each for each in says)
            assert sink in made or sink.rows == []
        known = [index for facts in ring.node.tables().values() for index in facts.indexes]
        assert [(index.name, index.whole) for index in known] == [("twice", True)]
        assert ring.node.ask("DROP INDEX twice").failure is None
        again = ring.node.ask("CREATE INDEX twice ON t (v)")
        assert again.account is not None and again.account.ended == "complete", "the name is free again"


def test_a_dropped_index_serves_those_who_have_not_heard_of_it() -> None:
    ring = Indexed(2)
    ring.create("hash")
    elsewhere = Node(ring.cluster, 5)
    text, wanted = "SELECT k FROM t WHERE v = 3", [n for n in range(ROWS) if n % VALUES == 3]
    assert sorted(row["k"] for row in elsewhere.ask(text, wait_s=0.5).rows) == wanted
    sink = Sink()
    ring.node.service.query(QueryRequest("DROP INDEX by_v", "sql"), sink)
    for _ in range(80):
        found = elsewhere.ask(text, wait_s=0.25)
        assert found.account is not None and found.account.ended == "complete"
        assert sorted(row["k"] for row in found.rows) == wanted
    assert sink.failure is None
    assert "index by_v" not in explained(elsewhere, text)


@pytest.mark.parametrize("indexed", [False, True])
def test_heirs_have_indexes_settled_only_where_there_are_some(indexed: bool) -> None:
    """One node loses everything. Its heirs ask all of the ring for rows; for entries only if anybody knows of an index,
    and then until all have fed it."""
    ring = Indexed(4)
    if indexed:
        ring.create("hash")
    nodes = ring.cluster.nodes
    before = sum(node.overlay.recall.sent for node in nodes)
    ring.cluster.world.run_for(60.0)
    settled = sum(node.indexes.settling.asked for node in nodes)
    for victim in (3, 5):
        ring.cluster.wipe(victim)
        ring.cluster.world.run_for(60.0)
    asked = sum(node.indexes.settling.asked for node in nodes) - settled
    assert sum(node.overlay.recall.sent for node in nodes) > before, "rows were lost"
    assert (asked > 0) is indexed
    assert not any(node.overlay.dht.doubts or node.overlay.dht.doubts.unsettled() for node in nodes)


@pytest.mark.parametrize("using", ["pht", "hash"])
def test_whoever_holds_a_word_of_an_index_knows_of_it(using: str) -> None:
    ring = Indexed(4)
    assert not any(node.overlay.dht.doubts.knows_of_made() for node in ring.cluster.nodes)
    ring.create(using)
    assert all(
        node.overlay.dht.doubts.knows_of_made()
        for node in ring.cluster.nodes
        if node.overlay.dht.holds(DICTIONARY, INDEX_SUFFIX, 100) or "t" in node.overlay.dht.namespaces()
    )
