"""SQL at a node's door: tables known from the ring, the dictionary of published tables, queries about one key."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from overlay.ring import routing_id
from overlay.spread.account import Account as Coverage
from pier_node.engine.compilers import UNTOLD
from pier_node.engine.service import QueryService
from pier_node.protocol.messages import Account
from pier_node.protocol.messages import Limits as Wanted
from pier_node.service import Failure, Publication, PublicationResult, QueryRequest
from query.batch import from_pydict
from query.dataflow.budget import Limits
from query.engine.catalog import Catalog
from query.engine.facts import TableFacts
from query.engine.proxy import GRACE_S
from tests.query.engine.cluster import Cluster


class Sink:
    """A client that reads everything."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.account: Account | None = None
        self.failure: Failure | None = None

    def batch(self, table: str, batch: pa.RecordBatch, epoch: int | None = None) -> bool:
        self.rows += batch.to_pylist()
        return True

    def ready(self) -> bool:
        return True

    def on_ready(self, handler: Any) -> None: ...

    def progress(self, asked: int, answered: int, rows: int, elapsed_s: float) -> None: ...

    def epoch_account(self, account: Account) -> None: ...

    def tap(self, node: str, operator: str, text: str) -> None: ...

    def finish(self, account: Account) -> None:
        self.account = account

    def fail(self, failure: Failure) -> None:
        self.failure = failure


class Control:
    def __init__(self) -> None:
        self.result: PublicationResult | None = None

    def consumed(self, size_bytes: int) -> None: ...

    def progress(self, objects: int, confirmed: int, rows_confirmed: int, elapsed_s: float) -> None: ...

    def finish(self, result: PublicationResult) -> None:
        self.result = result

    def fail(self, failure: Failure) -> None:
        raise AssertionError(failure)


class Node:
    """The door of one node of a simulated cluster."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.service = QueryService(cluster.hosts[number].runtime, cluster.nodes[number], Limits())

    def ask(self, text: str, wait_s: float = 10.0, **params: Any) -> Sink:
        return self.asked(QueryRequest(text, "sql", params=params), wait_s)

    def asked(self, request: QueryRequest, wait_s: float = 10.0) -> Sink:
        sink = Sink()
        self.service.query(request, sink)
        self.cluster.world.run_for(wait_s)
        return sink

    def publish(self, table: str, columns: dict[str, list[Any]], *keys: str) -> None:
        control = Control()
        feed = self.service.publish(Publication(table, keys), control)
        feed.batch(pa.record_batch(columns), 1)
        feed.end()
        self.cluster.world.run_for(5.0)
        for _ in range(60):
            # A load is shown when every node has it, which takes longer while one comes or goes.
            if control.result is None:
                self.cluster.world.run_for(1.0)
        assert control.result is not None
        assert control.result.refused == 0

    def tables(self) -> dict[str, TableFacts]:
        found: list[TableFacts] = []
        self.cluster.nodes[self.number].catalog.ask(lambda facts, coverage: found.extend(facts))
        self.cluster.world.run_for(5.0)
        return {facts.name: facts for facts in found}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(6, seed=4)


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return Node(cluster, 2)


def test_published_and_local_rows_of_one_table_are_one_table(cluster: Cluster, node: Node) -> None:
    cluster.load("t", [from_pydict("t", {"k": [1, 2], "v": ["a", "b"]})])
    node.publish("t", {"k": [3, 4], "v": ["c", "d"]}, "k")
    sink = node.ask("SELECT count(*) AS n, max(V) AS v FROM T")
    assert sink.rows == [{"n": 4, "v": "d"}]
    assert sink.account is not None
    assert sink.account.asked == 6


def test_the_dictionary_knows_keys_columns_and_types(node: Node) -> None:
    node.publish("t", {"k": [3, 4], "v": ["c", "d"]}, "k", "v")
    facts = node.tables()["t"]
    assert facts.key_columns == (("k", "v"),)
    assert dict(zip(facts.columns, facts.types, strict=True)) == {"k": "long", "v": "string"}
    assert facts.kind == "published"


def test_a_query_about_one_key_asks_one_node(cluster: Cluster, node: Node) -> None:
    node.publish("t", {"k": list(range(50)), "v": [f"{n}" for n in range(50)]}, "k")
    for key in (7, 31):
        sink = node.ask(f"SELECT v FROM t WHERE k = {key}")
        assert sink.rows == [{"v": f"{key}"}]
        assert sink.account is not None
        assert sink.account.asked == 1
    everywhere = node.ask("SELECT count(*) AS n FROM t")
    assert everywhere.rows == [{"n": 50}]
    assert everywhere.account is not None
    assert everywhere.account.asked == 6


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT k, v FROM t WHERE k IN (3, 7, 11, 3) ORDER BY k", [(3, "3"), (7, "7"), (11, "11")]),
        ("SELECT v FROM t WHERE k IN (3) AND v = '3'", [("3",)]),
        ("SELECT count(*), max(v) FROM t WHERE k IN (3, 7, 1000)", [(2, "7")]),
        ("SELECT v, count(*) FROM t WHERE k IN (3, 7) GROUP BY v ORDER BY v", [("3", 1), ("7", 1)]),
        ("SELECT DISTINCT k % 2 FROM t WHERE k IN (3, 5, 7)", [(1,)]),
        ("SELECT count(DISTINCT v) FROM t WHERE k IN (3, 5, 7)", [(3,)]),
        ("SELECT v FROM t WHERE k IN (3, 5, 7) ORDER BY k DESC LIMIT 1", [("7",)]),
    ],
)
def test_a_query_about_a_few_keys_asks_their_owners(node: Node, text: str, rows: list[Any]) -> None:
    node.publish("t", {"k": list(range(50)), "v": [f"{n}" for n in range(50)]}, "k")
    sink = node.ask(text)
    assert [tuple(row.values()) for row in sink.rows] == rows
    account = sink.account
    assert account is not None
    assert account.ended == "complete"
    assert 1 <= account.asked <= 4
    assert account.asked == account.answered + account.empty
    lines = [row["plan"] for row in node.ask(f"EXPLAIN {text}").rows]
    assert "the owner" in lines[0]
    assert not any("on every node" in line for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) AS n FROM t WHERE k IN (3, 7) OR k = 9",
        "SELECT count(*) AS n FROM t WHERE k IN (3, 7, v::int)",
        "SELECT count(*) AS n FROM t a JOIN t b ON a.v = b.v WHERE a.k IN (3, 7)",
        "SELECT count(*) AS n FROM t WHERE k IN (SELECT 3)",
    ],
)
def test_everything_else_goes_where_it_must(node: Node, text: str) -> None:
    node.publish("t", {"k": list(range(50)), "v": [f"{n}" for n in range(50)]}, "k")
    sink = node.ask(text)
    assert sink.account is not None, sink.failure
    assert sink.account.asked == 6
    assert sink.rows[0]["n"] in (1, 2, 3, 50)


def test_a_table_published_by_two_keys_is_asked_of_everybody(cluster: Cluster, node: Node) -> None:
    node.publish("t", {"k": [1, 2], "v": ["a", "b"]}, "k")
    Node(cluster, 4).publish("t", {"k": [1, 3], "v": ["c", "d"]}, "v")
    sink = node.ask("SELECT v FROM t WHERE k = 1")
    assert sorted(row["v"] for row in sink.rows) == ["a", "c"]


def test_a_mistake_is_a_failure_with_its_place(node: Node) -> None:
    node.publish("t", {"k": [1], "v": ["a"]}, "k")
    failure = node.ask("SELECT w FROM t").failure
    assert failure is not None
    assert failure.kind == "syntax"
    assert failure.position is not None
    assert (failure.position.line, failure.position.column) == (1, 8)


def test_a_table_that_just_came_is_known(node: Node) -> None:
    node.publish("t", {"k": [1]}, "k")
    assert node.ask("SELECT k FROM t").rows == [{"k": 1}]
    node.publish("t2", {"K": [5]}, "K")
    assert node.ask("SELECT t2.k FROM t2 JOIN t ON TRUE").rows == [{"k": 5}]


SCAN = "%opgraph(g) { %operator(s) { type = scan implementation = %s } %operator(r) { type = result sources[0] = s } }"


def test_a_table_that_nobody_knows_is_an_error_unless_the_query_says_otherwise(node: Node) -> None:
    node.publish("hosts", {"k": [1]}, "k")
    failure = node.ask("SELECT count(*) AS n FROM host").failure
    assert failure is not None
    assert (failure.kind, failure.message) == ("unknown_table", "unknown table 'host'")
    assert failure.hint == "did you mean 'hosts'?"
    sink = node.asked(QueryRequest("SELECT count(*) AS n FROM host", "sql", unknown_tables=True))
    assert sink.rows == [{"n": 0}]
    assert sink.account is not None
    assert (sink.account.ended, sink.account.causes) == ("complete", {})
    assert sink.account.notes == ("no node knows a table 'host'; did you mean 'hosts'?",)


@pytest.mark.parametrize("scan", ["Local table = {}", "DHT ns = {}", "dht NS = {}"])
def test_the_same_in_ufl(cluster: Cluster, node: Node, scan: str) -> None:
    cluster.load("hosts", [from_pydict("hosts", {"k": [1]})])
    text = SCAN.replace("%s", scan)
    failure = node.asked(QueryRequest(text.replace("{}", "host"), "ufl")).failure
    assert failure is not None and failure.kind == "unknown_table"
    sink = node.asked(QueryRequest(text.replace("{}", "host"), "ufl", unknown_tables=True))
    assert sink.account is not None and "no node knows a table 'host'" in sink.account.notes
    assert node.asked(QueryRequest(text.replace("{}", "hosts"), "ufl")).account is not None


def test_a_table_that_came_a_moment_after_it_was_unknown_is_known(node: Node) -> None:
    for text, language in (("SELECT k FROM late", "sql"), (SCAN.replace("%s", "DHT ns = late2"), "ufl")):
        table = "late" if language == "sql" else "late2"
        asked = QueryRequest(text, language)  # type: ignore[arg-type]
        sink = Sink()
        node.service.query(asked, sink)
        node.cluster.world.run_for(0.5)
        assert sink.failure is not None and sink.failure.kind == "unknown_table"
        control = Control()
        feed = node.service.publish(Publication(table, ("k",)), control)
        feed.batch(pa.record_batch({"k": [1]}), 1)
        feed.end()
        node.cluster.world.run_for(1.0)
        assert node.asked(asked).rows == [{"k": 1}]


def test_nobody_concludes_that_a_table_is_unknown_from_nodes_that_did_not_say(cluster: Cluster) -> None:
    cluster.load("fw", [from_pydict("fw", {"src": ["a"]})] * 6)
    cluster.world.run_for(10.0)
    cut_off(cluster, 4)
    node, sink = Node(cluster, 1), Sink()
    node.service.query(QueryRequest("SELECT count(*) AS n FROM elsewhere", "sql", Wanted(time_s=20.0)), sink)
    cluster.world.run_for(30.0)
    assert sink.account is not None and UNTOLD in sink.account.notes
    assert sink.account.ended == "partial"


def test_a_table_that_a_silent_node_may_have_is_asked_for_and_the_answer_says_so(
    cluster: Cluster, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(catalog: Catalog, done: Any, within_s: float | None = None) -> None:
        done([], Coverage(received=6, answered=5, failed=1))

    monkeypatch.setattr(Catalog, "ask", ask)
    sink = node.ask("SELECT count(*) AS n FROM gone")
    assert sink.account is not None
    assert sink.account.ended == "partial"
    assert sink.account.causes["unknown_table"] == 1
    assert "unknown table 'gone' among the nodes that were heard" in sink.account.notes


def test_show_tables_and_describe(node: Node) -> None:
    node.publish("t", {"k": [1], "v": ["a"]}, "k")
    assert [row["name"] for row in node.ask("SHOW TABLES").rows] == ["t"]
    assert node.ask("DESCRIBE t").rows == [
        {"column_name": "k", "column_type": "long", "key": "key"},
        {"column_name": "v", "column_type": "string", "key": ""},
    ]


def test_explain_is_a_query_too(node: Node) -> None:
    node.publish("t", {"k": [1], "v": ["a"]}, "k")
    lines = [row["plan"] for row in node.ask("EXPLAIN SELECT v FROM t WHERE k = 1").rows]
    assert lines[0] == "-- asked: one node, the owner of key '1' of t"
    failure = node.ask("EXPLAIN SELECT nosuch FROM t").failure
    assert failure is not None
    assert failure.position is not None
    assert failure.position.column == 16


def test_explain_says_which_nodes_own_the_keys(cluster: Cluster, node: Node) -> None:
    node.publish("t", {"k": list(range(50)), "v": ["a"] * 50}, "k")
    texts: list[Any] = []
    node.service.explain(QueryRequest("SELECT v FROM t WHERE k IN (3, 7, 9)", "sql"), texts.append)
    cluster.world.run_for(5.0)
    first, *lines = texts[0].splitlines()[:4]
    assert first == "-- asked: few nodes, the owners of keys '3', '7', '9' of t"
    for key, line in zip((3, 7, 9), lines, strict=True):
        point = routing_id("t", str(key))
        owner = next(each for each in cluster.nodes if each.overlay.router.owns(point)).overlay.router.me
        assert line == f"-- key '{key}' of t: node {owner.id.hex()[:12]} at {owner.address}"


def test_parameters(node: Node) -> None:
    node.publish("t", {"k": [1, 2], "v": ["a", "it's"]}, "k")
    assert node.ask("SELECT k FROM t WHERE v = $v AND k > $k", v="it's", k=0).rows == [{"k": 2}]


def test_columns_that_nodes_do_not_share_are_all_known(cluster: Cluster, node: Node) -> None:
    cluster.load(
        "t", [from_pydict("t", {"a": [1]}), from_pydict("t", {"b": ["x"]}), from_pydict("t", {"a": [2.5]})]
    )
    facts = node.tables()["t"]
    assert dict(zip(facts.columns, facts.types, strict=True)) == {"a": "", "b": "string"}


def cut_off(cluster: Cluster, number: int) -> None:
    """Nothing comes from this node any more, nor to it."""
    others = [host.index for host in cluster.hosts if host.index != cluster.hosts[number].index]
    cluster.world.faults.partitions.cut({cluster.hosts[number].index}, others, one_way=False)


def test_a_ring_that_does_not_say_what_tables_there_are_is_not_waited_for() -> None:
    """The time of a query runs while it is planned, and its account says why it knew so little."""
    cluster = Cluster(6)
    cluster.load("fw", [from_pydict("fw", {"src": ["a"]})] * 6)
    node, sink = Node(cluster, 1), Sink()
    cluster.world.run_for(10.0)
    cut_off(cluster, 1)
    node.service.query(QueryRequest("SELECT count(*) AS n FROM other", "sql", Wanted(time_s=8.0)), sink)
    failed = Sink()
    node.service.query(QueryRequest("DESCRIBE other", "sql"), failed)
    cluster.world.run_for(8.0 + GRACE_S + 0.5)
    assert failed.failure is not None
    assert failed.failure.hint == UNTOLD
    assert sink.account is not None
    assert UNTOLD in sink.account.notes
    assert not any("no node knows" in note for note in sink.account.notes)
    assert any("when it was planned" in note for note in sink.account.notes)
    assert sink.account.ended in ("partial", "limit")


def test_a_query_is_cancelled_while_it_is_planned() -> None:
    cluster = Cluster(6)
    node, sink = Node(cluster, 1), Sink()
    cut_off(cluster, 1)
    handle = node.service.query(QueryRequest("SELECT count(*) AS n FROM fw", "sql"), sink)
    cluster.world.run_for(1.0)
    assert sink.account is None
    handle.cancel("enough")
    account = sink.account
    assert account is not None
    assert (account.ended, account.asked, account.notes) == ("cancelled", 0, ("enough",))
    cluster.world.run_for(60.0)
    assert sink.account is account
    assert node.service.statistics().asked == 0
    assert not cluster.nodes[1].proxy.queries
