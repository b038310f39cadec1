"""EVERY, RANGE, FOR, TUMBLE and HOP at a node's door, on simulated clusters whose tables grow while a query runs."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

import ufl
from overlay.spread.branch import Branch
from pier_node.protocol.messages import Account, QueryEntry
from pier_node.service import Failure, QueryHandle, QueryRequest
from query.batch import Batch, from_pydict
from tests.query.engine.cluster import Cluster, MemoryTable
from tests.sql.test_node import Node, Sink
from ufl.sql import compile_sql, explain_sql

NODES = 5


class Epochs(Sink):
    """A client that keeps the answers of epochs apart."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: list[tuple[Any, ...]] = []
        self.answers: list[tuple[Account, list[tuple[Any, ...]]]] = []

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        assert epoch is not None, "rows of no epoch"
        self.coming += [tuple(row.values()) for row in batch.to_pylist()]
        return True

    def epoch_account(self, account: Account) -> None:
        assert account.rows == len(self.coming)
        self.answers.append((account, self.coming))
        self.coming = []

    def by_epoch(self) -> dict[int, list[tuple[Any, ...]]]:
        """The last answer of each epoch."""
        return {account.epoch: rows for account, rows in self.answers if account.epoch is not None}


class Live:
    """A cluster, a question to it, and rows that arrive meanwhile."""

    def __init__(self, nodes: int = NODES, seed: int = 4) -> None:
        self.cluster = Cluster(nodes, seed=seed)
        self.cluster.load("fw", [self.rows("old", "old"), self.rows("old")])
        self.node = Node(self.cluster, 1)
        self.sink = Epochs()
        self.handle: QueryHandle | None = None

    def wall(self, age_s: float = 0.0) -> datetime.datetime:
        now_s = self.cluster.hosts[0].runtime.wall() - age_s
        return datetime.datetime.fromtimestamp(now_s, datetime.UTC).replace(tzinfo=None)

    def rows(self, *sources: str, age_s: float = 0.0) -> Batch:
        count = len(sources)
        times = pa.array([self.wall(age_s)] * count, pa.timestamp("us"))
        data = {"src": pa.array(sources), "dpt": pa.array(range(count), pa.int64()), "ts": times}
        return Batch("fw", pa.record_batch(data))

    def ask(self, text: str, unknown_tables: bool = False) -> None:
        request = QueryRequest(text, "sql", unknown_tables=unknown_tables)
        self.handle = self.node.service.query(request, self.sink)

    def arrive(self, node: int, *sources: str, age_s: float = 0.0) -> None:
        table = self.cluster.tables[node].tables["fw"]
        batch = self.rows(*sources, age_s=age_s)
        table.batches.append(batch)
        for follower in list(table.followers.values()):
            follower(batch)

    def pass_s(self, seconds: float) -> None:
        self.cluster.world.run_for(seconds)

    def end(self) -> Account:
        """Runs until the query is over; nothing of it is left anywhere."""
        self.pass_s(20.0)
        account = self.sink.account
        assert account is not None, self.sink.failure
        assert self.cluster.leftovers() == []
        assert all(len(node.aggregations) == 0 for node in self.cluster.nodes)
        return account


@pytest.fixture
def live() -> Live:
    return Live()


def test_without_a_range_each_epoch_answers_as_if_asked_then(live: Live) -> None:
    live.ask(
        "SELECT src, count(*) AS n FROM fw GROUP BY src ORDER BY n DESC, src EVERY '2 seconds' FOR '6 seconds'"
    )
    live.pass_s(3.0)
    live.arrive(3, "a", "b", "a", "a")
    account = live.end()
    assert live.sink.by_epoch() == {
        0: [("old", 3)],
        1: [("old", 3)],
        2: [("a", 3), ("old", 3), ("b", 1)],
    }
    assert (account.asked, account.ended, account.rows) == (NODES, "complete", 5)
    for told, _ in live.sink.answers:
        assert (told.asked, told.answered, told.failed, told.revision) == (NODES, NODES, 0, 0)


def test_a_range_of_one_epoch_has_each_row_once(live: Live) -> None:
    live.ask("SELECT count(*), max(src) FROM fw EVERY '2 seconds' RANGE '2 seconds' FOR '8 seconds'")
    for second in range(8):
        live.pass_s(0.9)
        live.arrive(second % NODES, f"s{second}")
    live.end()
    by_epoch = live.sink.by_epoch()
    assert sorted(by_epoch) == [0, 1, 2, 3]
    assert sum(rows[0][0] for rows in by_epoch.values()) == 8
    assert [rows[0][1] for _, rows in sorted(by_epoch.items())] == ["s1", "s3", "s5", "s7"]


def test_a_longer_range_slides(live: Live) -> None:
    live.ask(
        "SELECT src, count(*) FROM fw GROUP BY 1 ORDER BY 1 EVERY '2 seconds' RANGE '5 seconds' FOR '10 seconds'"
    )
    live.pass_s(1.5)
    live.arrive(0, "a", "b")
    live.pass_s(2.0)
    live.arrive(1, "a")
    live.end()
    assert live.sink.by_epoch() == {
        0: [("a", 1), ("b", 1)],
        1: [("a", 2), ("b", 1)],
        2: [("a", 2), ("b", 1)],
        3: [("a", 1)],
        4: [],
    }


def test_rows_of_a_selection_come_in_the_epoch_in_which_they_arrive(live: Live) -> None:
    live.ask("SELECT src, dpt FROM fw WHERE dpt > 0 ORDER BY src, dpt EVERY '2 seconds' FOR '6 seconds'")
    live.pass_s(1.0)
    live.arrive(0, "x", "b")
    live.arrive(1, "x", "a", "c")
    live.pass_s(4.0)
    live.arrive(2, "x", "d")
    account = live.end()
    assert live.sink.by_epoch() == {0: [("a", 1), ("b", 1), ("c", 2)], 1: [], 2: [("d", 1)]}
    assert not account.dropped


def test_limit_and_distinct_are_those_of_an_epoch_and_send_no_more(live: Live) -> None:
    live.ask("SELECT DISTINCT src FROM fw ORDER BY src LIMIT 2 EVERY '2 seconds' FOR '4 seconds'")
    live.pass_s(1.0)
    for node in range(NODES):
        live.arrive(node, "c", "a", "b", "a")
    live.end()
    assert live.sink.by_epoch() == {0: [("a",), ("b",)], 1: []}


def test_a_star_over_a_table_nobody_describes(live: Live) -> None:
    live.ask("SELECT * FROM fresh EVERY '1 second' FOR '3 seconds'", unknown_tables=True)
    live.end()
    assert live.sink.by_epoch() == {0: [], 1: [], 2: []}


def test_having_is_asked_of_each_epoch_and_distinct_values_are_counted(live: Live) -> None:
    live.ask(
        "SELECT src, count(*) AS n, count(DISTINCT dpt) AS d FROM fw WHERE src <> 'old' GROUP BY src HAVING n > 1 "
        "EVERY '2 seconds' RANGE '2 seconds' FOR '4 seconds'"
    )
    live.pass_s(1.0)
    live.arrive(0, "a", "b", "a")
    live.arrive(1, "a")
    live.end()
    assert live.sink.by_epoch() == {0: [("a", 3, 2)], 1: []}


def test_any_algorithm_may_be_named(live: Live) -> None:
    live.ask("SELECT count(*) FROM fw EVERY '2 seconds' FOR '6 seconds' STRATEGY 'dht-hi-learned'")
    live.end()
    assert live.sink.by_epoch() == {0: [(3,)], 1: [(3,)], 2: [(3,)]}


@pytest.mark.parametrize(
    "text", ["SELECT count(*) AS n FROM fw", "SELECT a.src FROM fw a JOIN fw b ON a.src = b.src"]
)
def test_a_query_is_cancelled_at_any_node_and_its_asker_says_so(live: Live, text: str) -> None:
    """Computed by epochs, and asked again as a whole in every epoch."""
    live.ask(f"{text} EVERY '2 seconds'")
    live.pass_s(4.2)
    runs = live.cluster.nodes[3].executor.runs
    while not runs:
        live.pass_s(0.01)
    said: list[object] = []
    other = Node(live.cluster, 3).service
    other.cancel(next(iter(runs)), said.append)
    assert said == [None]
    account = live.end()
    assert account.ended == "cancelled"
    assert "cancelled at another node" in account.notes
    other.cancel(account.query, said.append)
    assert isinstance(said[1], Failure)


def test_a_query_that_is_asked_again_is_one_query_in_lists_between_its_epochs_too(live: Live) -> None:
    live.ask("SELECT a.src FROM fw a JOIN fw b ON a.src = b.src EVERY '20 seconds'")
    live.pass_s(0.5)  # to plan it
    seen: list[QueryEntry] = []
    for _ in range(300):
        live.pass_s(0.1)
        found: list[tuple[QueryEntry, ...]] = []
        live.node.service.queries(found.append)
        seen += found[0]
    assert len(seen) == 300, "one at all times"
    assert len({(entry.id, entry.text) for entry in seen}) == 1
    assert {told.query for told, _ in live.sink.answers} == {seen[0].id}
    said: list[object] = []
    live.node.service.cancel(seen[0].id, said.append)
    account = live.end()
    assert (said, account.ended, account.query) == ([None], "cancelled", seen[0].id)
    assert "cancelled on request" in account.notes


def test_cancelling_ends_it_everywhere(live: Live) -> None:
    live.ask("SELECT count(*) FROM fw EVERY '20 seconds'")
    live.pass_s(400.0)
    assert live.sink.account is None, "it runs longer than the usual time of a query"
    assert live.handle is not None
    live.handle.cancel("enough")
    account = live.end()
    assert (account.ended, account.asked, account.answered) == ("cancelled", NODES, NODES)
    assert len(live.sink.answers) >= 19


def test_published_rows_are_new_data(live: Live) -> None:
    live.node.publish("t", {"k": [1, 2], "v": ["a", "b"]}, "k")
    live.ask("SELECT k, v FROM t ORDER BY k EVERY '3 seconds' FOR '9 seconds'")
    live.pass_s(1.0)
    live.node.publish("t", {"k": [3, 4], "v": ["c", "d"]}, "k")
    live.end()
    rows = live.sink.by_epoch()
    assert [row for epoch in sorted(rows) for row in rows[epoch]] == [(3, "c"), (4, "d")]


def test_a_node_that_dies_is_in_the_account_of_later_epochs(live: Live) -> None:
    live.ask("SELECT count(*) FROM fw EVERY '2 seconds' FOR '60 seconds'")
    live.pass_s(5.0)
    live.cluster.world.crash(live.cluster.hosts[4])
    live.pass_s(80.0)
    first, last = live.sink.answers[0][0], live.sink.answers[-1][0]
    assert (first.answered, first.ended) == (NODES, "complete")
    assert (last.asked, last.answered, last.failed, last.ended) == (NODES, NODES - 1, 1, "partial")
    assert f"1 of {NODES} nodes are missing from the epoch" in last.notes


@pytest.mark.parametrize("what", ["count(*) AS n", "src, dpt"])
def test_a_node_that_comes_later_has_its_part_and_one_that_died_is_forgotten(live: Live, what: str) -> None:
    """Aggregates by trees, and rows as they arrive."""
    counts = what.startswith("count")
    live.ask(f"SELECT {what} FROM fw EVERY '2 seconds'")
    live.pass_s(6.0)
    live.cluster.grow()
    live.cluster.tables[5].tables["fw"] = MemoryTable([])
    live.pass_s(40.0)
    live.arrive(5, "late")
    live.pass_s(4.0)
    told, rows = live.sink.answers[-1]
    assert (told.asked, told.answered, told.ended) == (NODES + 1, NODES + 1, "complete")
    epochs = [told.epoch for told, _ in live.sink.answers if told.epoch is not None]
    assert epochs == sorted(epochs), "it says nothing of epochs that were over when it came"
    assert len(epochs) <= epochs[-1] + 2, "one epoch is revised: nobody waited for it in its first"
    assert rows == [(4,)] if counts else ("late", 0) in [row for _, rows in live.sink.answers for row in rows]
    live.cluster.world.crash(live.cluster.hosts[5])
    live.pass_s(30.0)
    told, _ = live.sink.answers[-1]
    assert (told.asked, told.answered, told.failed, told.ended) == (NODES + 1, NODES, 1, "partial")
    live.pass_s(90.0)
    told, rows = live.sink.answers[-1]
    assert (told.asked, told.answered, told.ended) == (NODES, NODES, "complete")
    assert live.handle is not None
    live.handle.cancel("enough")
    live.cluster.nodes.pop()
    live.end()


def test_a_node_that_could_not_read_its_rows_in_time_is_not_counted_in_that_epoch(live: Live) -> None:
    """As on a host that stood still for longer than an epoch."""
    live.cluster.load("fw", [live.rows("old")] * NODES)
    live.ask("SELECT count(*) AS n FROM fw EVERY '2 seconds' FOR '10 seconds'")
    live.pass_s(3.0)
    (run,) = live.cluster.nodes[3].executor.runs.values()
    (put,) = (each for flow in run._flows.values() for each in flow.operators.values() if each.TYPE == "put")
    put._began_s -= 5.0  # type: ignore[attr-defined]
    account = live.end()
    told = [(told.answered, told.failed, rows) for told, rows in live.sink.answers]
    assert (NODES - 1, 1, [(NODES - 1,)]) in told
    causes = [told.causes for told, _ in live.sink.answers if told.ended == "partial"]
    assert causes
    assert all(each == {"not_read": 1} for each in causes), causes
    assert account.causes["not_read"] >= 1
    assert account.ended == "partial", "a node's rows are not in some epochs"
    assert all(rows == [(answered,)] for answered, _, rows in told)
    assert any("without this node" in reason for reason in account.dropped)


def test_a_node_that_comes_after_the_last_epoch_holds_nothing_up(live: Live) -> None:
    """The query is still out, since it waits for one that fell silent, and goes to the newcomer as well."""
    live.ask("SELECT count(*) FROM fw EVERY '2 seconds' FOR '10 seconds'")
    live.pass_s(9.0)
    live.cluster.grow()
    live.cluster.world.crash(live.cluster.hosts[4])
    live.pass_s(5.0)
    asker, newcomer = live.cluster.nodes[1], live.cluster.nodes[5]
    assert newcomer.overlay.router.joined
    (query,) = asker.proxy.queries.values()
    for root in query._roots:
        asker.overlay.spread.renew(root)
    live.pass_s(1.0)
    assert newcomer.executor.knows(query.spec.id)
    assert query.spec.id not in newcomer.executor.runs
    live.pass_s(20.0)
    account = live.sink.account
    assert account is not None
    assert (account.asked, account.answered + account.empty, account.ended) == (NODES + 1, NODES, "partial")
    assert account.elapsed_s < 30.0


def test_many_continuous_queries_are_counted_together_and_none_costs_nothing(live: Live) -> None:
    def started() -> int:
        return live.cluster.nodes[1].overlay.spread.statistics().started

    quiet = started()
    live.pass_s(60.0)
    assert started() == quiet
    handles = [
        live.node.service.query(QueryRequest("SELECT count(*) FROM fw EVERY '5 seconds'", "sql"), Epochs())
        for _ in range(20)
    ]
    live.pass_s(20.0)
    before = started()
    live.pass_s(60.0)
    assert started() - before == 4, "one census in fifteen seconds for all"
    for handle in handles:
        handle.cancel("enough")
    live.pass_s(10.0)
    quiet = started()
    live.pass_s(60.0)
    assert started() == quiet
    assert live.cluster.leftovers() == []


def test_queries_that_begin_one_after_the_other_wait_for_the_census_that_is_out(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is cut short by the next: each has its nodes counted whole."""
    seen: list[int] = []
    cut_short: list[Branch] = []
    monkeypatch.setattr(Branch, "conclude", cut_short.append)

    class Watching(Epochs):
        def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None:
            seen.append(asked)

    text = "SELECT count(*) FROM fw EVERY '5 seconds'"
    handles = []
    for _ in range(30):
        handles.append(live.node.service.query(QueryRequest(text, "sql"), Watching()))
        live.pass_s(0.005)
    live.pass_s(1.0)
    assert len(seen) >= 30
    assert set(seen) == {NODES}
    assert cut_short == []
    for handle in handles:
        handle.cancel("enough")


def test_only_so_many_queries_are_repeated(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pier_node.engine.service.REPEATED_MAX", 1)
    text = "SELECT a.src FROM fw a JOIN fw b ON a.src = b.src EVERY '5 seconds'"
    live.ask(text)
    live.pass_s(2.0)
    second = Epochs()
    live.node.service.query(QueryRequest(text, "sql"), second)
    live.pass_s(2.0)
    assert second.failure is not None
    assert second.failure.kind == "limit"
    assert live.sink.account is None


# -- windows of event time


def windows(live: Live) -> dict[int, list[tuple[int, int]]]:
    """By revision: in which order windows came, by what they count."""
    found: dict[int, list[tuple[int, int]]] = {}
    for account, rows in live.sink.answers:
        found.setdefault(account.revision, []).extend(rows)
    return found


def test_a_window_is_given_when_it_is_over_and_again_when_rows_are_late(live: Live) -> None:
    live.pass_s(10.0 - live.wall().timestamp() % 10.0 + 1.0)
    live.ask(
        "SELECT window_end, count(*) AS n FROM TUMBLE(TABLE fw, DESCRIPTOR(ts), INTERVAL '10' SECOND) "
        "GROUP BY window_end EVERY '2 seconds' RANGE '30 seconds' FOR '60 seconds'"
    )
    live.pass_s(1.0)
    live.arrive(0, "a", "b")
    live.arrive(1, "a")
    live.pass_s(5.0)
    assert all(rows == [] for _, rows in live.sink.answers), "the window is not over"
    live.pass_s(6.0)
    first = [row for _, rows in live.sink.answers for row in rows]
    assert [n for _, n in first] == [3]
    live.arrive(2, "late", age_s=10.0)
    live.arrive(3, "much too late", "much too late", age_s=100.0)
    live.pass_s(4.0)
    live.pass_s(60.0)
    found = windows(live)
    assert found[0] == first
    assert found[1] == [(first[0][0], 4)]
    final = live.sink.account
    assert final is not None
    assert [rows for reason, rows in final.dropped.items() if "late by more than 30 s" in reason] == [2]


def test_a_row_is_in_as_many_windows_as_overlap(live: Live) -> None:
    live.pass_s(10.0 - live.wall().timestamp() % 10.0 + 0.5)
    live.ask(
        "SELECT window_start, window_end, src, count(*) AS n FROM HOP(fw, ts, '5 seconds', '10 seconds') "
        "GROUP BY ALL EVERY '1 second' FOR '30 seconds'"
    )
    live.pass_s(1.0)
    live.arrive(2, "a")
    live.pass_s(50.0)
    rows = [row for _, answer in live.sink.answers for row in answer]
    assert [row[2:] for row in rows] == [("a", 1), ("a", 1)]
    assert (rows[1][0] - rows[0][0]).total_seconds() == 5.0
    assert all((row[1] - row[0]).total_seconds() == 10.0 for row in rows)


# -- queries that are asked again as a whole


def test_a_join_is_asked_again_in_every_epoch(live: Live) -> None:
    live.cluster.load("names", [from_pydict("names", {"ip": ["old", "a"], "name": ["o", "n"]})])
    live.ask(
        "SELECT n.name, count(*) AS c FROM fw JOIN names n ON fw.src = n.ip GROUP BY 1 ORDER BY 1 "
        "EVERY '2 seconds' FOR '6 seconds'"
    )
    live.pass_s(3.0)
    live.arrive(0, "a")
    account = live.end()
    assert live.sink.by_epoch() == {0: [("o", 3)], 1: [("o", 3)], 2: [("n", 1), ("o", 3)]}
    assert (account.ended, account.asked) == ("complete", NODES)
    assert [told.epoch for told, _ in live.sink.answers] == [0, 1, 2]


def test_asking_again_is_cancelled_between_and_within_epochs(live: Live) -> None:
    live.ask("SELECT count(*) FROM fw a, fw b EVERY '2 seconds'")
    live.pass_s(4.9)
    assert live.handle is not None
    live.handle.cancel("enough")
    assert live.end().ended == "cancelled"
    assert len(live.sink.answers) == 3


def test_now_is_the_time_of_the_epoch(live: Live) -> None:
    live.ask("SELECT max(now()) FROM fw EVERY '2 seconds' FOR '6 seconds'")
    live.end()
    times = [rows[0][0] for rows in live.sink.by_epoch().values()]
    assert len(set(times)) == 3


# -- what is refused


@pytest.mark.parametrize(
    ("text", "message", "column"),
    [
        ("SELECT 1 FROM fw RANGE '5 s'", "need EVERY", 24),
        ("SELECT 1 FROM fw EVERY 'soon'", "EVERY: 'soon' is no length", 24),
        ("SELECT 1 FROM fw EVERY", "EVERY takes a length", 18),
        ("SELECT 1 FROM fw EVERY 5", "EVERY takes a length", 18),
        ("SELECT 1 FROM fw EVERY '5 s' STRATEGY 'IP-1L-Optimal'", "the number of nodes", 39),
        ("SELECT 1 FROM fw EVERY '1 month'", "EVERY takes a length", 24),
        ("SELECT 1 FROM fw EVERY '0 s'", "longer than nothing", 24),
        ("SELECT 1 FROM fw EVERY '5 s' FOR '1 s'", "shorter than EVERY", 34),
        ("SELECT 1 FROM fw EVERY '5 s' EVERY '5 s'", "given twice", 30),
        ("SELECT 1 FROM fw EVERY '5 s' STRATEGY 'x'", "no algorithm", 39),
        ("SELECT count(*) FROM fw a, fw b EVERY '5 s' RANGE '5 s'", "RANGE needs a query over one table", 51),
        ("SELECT count(*) FROM TUMBLE(fw, ts, '5 s') EVERY '5 s'", "a row for each window", 8),
        ("SELECT 1 FROM HOP(fw, ts, '3 s', '10 s')", "a multiple of its step", 34),
        ("SELECT 1 FROM TUMBLE(fw, ts)", "TUMBLE takes a table", 22),
        ("SELECT (SELECT 1 EVERY '5 s')", "not understood", 18),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(text: str, message: str, column: int) -> None:
    with pytest.raises(ufl.UflError, match=message) as caught:
        compile_sql(text, "q", 0)
    assert caught.value.column == column, caught.value


def test_explain_says_how_epochs_come_together() -> None:
    text = explain_sql("SELECT count(*) FROM fw EVERY '5 seconds' RANGE '1 minute' FOR '1 hour'", "q", 0)
    assert "EVERY 5 s, 720 times: nodes' parts come together by Tree-Hi-S-Topology" in text
    assert "each answer is over what arrived within 60 s" in text


def test_the_words_of_continuous_queries_are_names_elsewhere() -> None:
    compile_sql("SELECT every, strategy FROM range WHERE every > 1", "q", 0)
    compile_sql("SELECT every.x FROM fw AS every", "q", 0)
