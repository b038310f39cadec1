"""Which node and host a row was read at: `_node`, `_host` and `node()`, over sources and published tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import ufl
from overlay.dht.operations import GotObject
from overlay.objects.name import Prefix
from pier_node.service import QueryRequest
from query.batch import from_pydict
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node, Sink
from ufl.sql import TableInfo, compile_sql

NODES = 6


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(NODES, seed=4)


@pytest.fixture
def node(cluster: Cluster) -> Node:
    cluster.load("t", [from_pydict("t", {"k": [number, number + 10]}) for number in range(NODES)])
    return Node(cluster, 2)


def ids(cluster: Cluster) -> list[str]:
    return [each.overlay.router.me.id.hex() for each in cluster.nodes]


def hosts(cluster: Cluster) -> list[str]:
    return [each.overlay.router.me.address.rpartition(":")[0] for each in cluster.nodes]


def pairs(rows: list[dict[str, Any]], *names: str) -> set[tuple[Any, ...]]:
    return {tuple(row[name] for name in names) for row in rows}


def test_rows_of_sources_say_where_they_were_read(cluster: Cluster, node: Node) -> None:
    sink = node.ask("SELECT k, _node, _host FROM t WHERE k < 10")
    assert pairs(sink.rows, "k", "_node", "_host") == set(
        zip(range(NODES), ids(cluster), hosts(cluster), strict=True)
    )
    counted = node.ask("SELECT node() AS n, count(*) AS c FROM t GROUP BY node()")
    assert pairs(counted.rows, "n", "c") == {(each, 2) for each in ids(cluster)}
    some = node.ask(f"SELECT k FROM t WHERE _host = '{hosts(cluster)[3]}' OR _NODE = '{ids(cluster)[4]}'")
    assert pairs(some.rows, "k") == {(3,), (13,), (4,), (14,)}


def test_a_star_does_not_stand_for_them(node: Node) -> None:
    assert list(node.ask("SELECT * FROM t LIMIT 1").rows[0]) == ["k"]
    assert list(node.ask("SELECT *, _host FROM t LIMIT 1").rows[0]) == ["k", "_host"]


def test_rows_of_published_tables_say_who_holds_them(cluster: Cluster, node: Node) -> None:
    node.publish("p", {"k": list(range(60)), "v": list(range(60))}, "k")
    rows = node.ask("SELECT k, _node FROM p").rows
    assert len(rows) == 60
    truth = holders(cluster)
    assert len(truth) == 60 and len(set(truth.values())) > 2
    assert {str(row["k"]): row["_node"] for row in rows} == truth
    one = node.ask("SELECT k, _node FROM p WHERE k = 7").rows
    assert pairs(one, "k", "_node") == {(7, truth["7"])}


def holders(cluster: Cluster) -> dict[str, str]:
    """By key, which node shows the object, as its own store says."""
    found: dict[str, str] = {}
    for each in cluster.nodes:

        def here(objects: list[GotObject], of: str = each.overlay.router.me.id.hex()) -> None:
            found.update({got.name.key: of for got in objects})

        each.overlay.dht.local_scan(Prefix("p"), here, lambda: None)
    cluster.world.run_for(5.0)
    return found


def test_joined_rows_say_both(cluster: Cluster, node: Node) -> None:
    node.publish("p", {"k": [0, 1, 2], "v": [5, 6, 7]}, "k")
    rows = node.ask("SELECT t.k, t._node AS read, p._node AS held FROM t JOIN p ON t.k = p.k").rows
    assert pairs(rows, "k", "read") == set(zip(range(3), ids(cluster), strict=False))
    assert {row["held"] for row in rows} <= set(ids(cluster))


def test_rows_that_are_fetched_would_not_say_it() -> None:
    tables = {
        "t": TableInfo({"k": pa.int64()}, ("source",)),
        "p": TableInfo({"k": pa.int64(), "v": pa.int64()}, ("published",), ("k",)),
    }
    text = "SELECT /*+ JOIN(fetch) */ p.{} FROM t JOIN p ON t.k = p.k"
    assert compile_sql(text.format("v"), "q", 0, tables).plan
    with pytest.raises(ufl.UflError, match="cannot be made by fetch"):
        compile_sql(text.format("_node"), "q", 0, tables)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT node() FROM t a, t b", "may be of a or of b"),
        ("SELECT node()", "no table here"),
        ("SELECT q._node FROM (SELECT k FROM t) q", "no column '_node' in q"),
    ],
)
def test_where_it_is_not_known_it_is_refused(text: str, says: str) -> None:
    with pytest.raises(ufl.UflError, match=says):
        compile_sql(text, "q", 0, {})


def test_a_table_that_has_such_a_column_keeps_it(cluster: Cluster, node: Node) -> None:
    cluster.load("own", [from_pydict("own", {"_node": ["mine"], "x": [1]})])
    assert node.ask("SELECT * FROM own").rows == [{"_node": "mine", "x": 1}]
    assert node.ask("SELECT _node FROM own").rows == [{"_node": "mine"}]


@pytest.mark.parametrize("how", ["", " RANGE '5 seconds'"])
def test_a_continuous_query_says_it_too(cluster: Cluster, node: Node, how: str) -> None:
    sink = Epochs()
    text = f"SELECT _host, count(*) AS n FROM t GROUP BY _host EVERY '1 second'{how} FOR '3 seconds'"
    node.service.query(QueryRequest(text, "sql"), sink)
    cluster.world.run_for(1.5)
    for number, tables in enumerate(cluster.tables):
        batch = from_pydict("t", {"k": [number]})
        tables.tables["t"].batches.append(batch)
        for follower in list(tables.tables["t"].followers.values()):
            follower(batch)
    cluster.world.run_for(20.0)
    assert {row["_host"] for row in sink.rows} == set(hosts(cluster))


class Epochs(Sink):
    """A client that keeps the rows of all epochs."""
