"""Indexes of published tables: made, used for conditions, behind by moments, gone when dropped, back after deaths."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

from query.index.keys import ordered_keys
from query.index.service import ASK_S, LOOK_S
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node
from ufl import UflError
from ufl.sql import TableInfo, compile_sql

ROWS = 300


@pytest.fixture(scope="module")
def world() -> tuple[Cluster, Node, list[dict[str, object]]]:
    cluster = Cluster(6, seed=4)
    node = Node(cluster, 2)
    rng = random.Random(1)
    rows: list[dict[str, object]] = [
        {
            "k": n,
            "port": rng.choice([None, *range(60)]),
            "name": rng.choice(["a", "b", "über", "zz"]),
            "f": n / 4 - 20,
        }
        for n in range(ROWS)
    ]
    node.publish("t", {name: [row[name] for row in rows] for name in rows[0]}, "k")
    for text in (
        "CREATE INDEX by_port ON t (port) USING pht",
        "create index by_name on T(NAME) using hash;",
        "CREATE INDEX by_f ON t USING pht (f)",
    ):
        made = node.ask(text)
        assert made.failure is None, made.failure
        assert len(made.rows) == 1
    cluster.world.run_for(3 * LOOK_S)
    return cluster, node, rows


def explained(node: Node, text: str) -> str:
    return "\n".join(str(row["plan"]) for row in node.ask("EXPLAIN " + text).rows)


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("port = 7", "by_port"),
        ("7 = port", "by_port"),
        ("port BETWEEN 10 AND 20", "by_port"),
        ("port > 10 AND port <= 12", "by_port"),
        ("port >= 100 AND port < 200", "by_port"),
        ("name = 'über'", "by_name"),
        ("name = 'nobody'", "by_name"),
        ("f >= -3.5 AND f < 0.25", "by_f"),
        ("port = 7 AND name = 'a' AND k > 10", "by_name"),
        ("port > 50", ""),
        ("port + 1 = 8", ""),
        ("k = 12", ""),
    ],
)
def test_conditions_are_answered_through_indexes(
    world: tuple[Cluster, Node, list[dict[str, object]]], condition: str, index: str
) -> None:
    _, node, rows = world
    text = f"SELECT k FROM t WHERE {condition}"
    python = condition.replace(" = ", " == ").replace("AND", "and")
    if "BETWEEN" in python:
        python = "10 <= port <= 20"
    wanted = [
        row["k"]
        for row in rows
        if not (row["port"] is None and "port" in python) and eval(python, {}, dict(row))
    ]
    sink = node.ask(text)
    assert sink.failure is None, sink.failure
    assert sorted(row["k"] for row in sink.rows) == wanted
    assert sink.account is not None
    assert not sink.account.dropped
    plan = explained(node, text)
    assert (f"index {index} " in plan) if index else ("index " not in plan.split("stage 1")[0])


@pytest.mark.parametrize(
    ("condition", "order", "uses"),
    [
        ("port IS NOT NULL", "port DESC, k LIMIT 7", True),
        ("port IS NOT NULL", "port, k DESC LIMIT 40", True),
        ("port >= 20 AND port < 40", "port, k LIMIT 5 OFFSET 3", True),
        ("port <= 30", "port DESC, k LIMIT 9", True),
        ("port <= 2", "port, k LIMIT 200", True),
        ("f IS NOT NULL", "f DESC LIMIT 3", True),
        # Nothing says that there are rows enough with a value; a condition that the index knows nothing of.
        ("true", "port, k LIMIT 5", False),
        ("port IS NOT NULL AND k > 50", "port, k LIMIT 5", False),
        ("port > 20", "port, k LIMIT 5", False),
        ("port >= 5 AND port >= 20", "port, k LIMIT 5", False),
        ("port <= 50 AND port <= 20", "port DESC, k LIMIT 5", False),
        ("port BETWEEN 5 AND k", "port, k LIMIT 30", False),
    ],
)
def test_the_first_rows_by_an_indexed_column_are_read_from_the_end_of_the_index(
    world: tuple[Cluster, Node, list[dict[str, object]]], condition: str, order: str, uses: bool
) -> None:
    _, node, rows = world
    duck = duckdb.connect()
    duck.register("t", pa.Table.from_pylist(rows))
    text = f"SELECT k, port FROM t WHERE {condition} ORDER BY {order}"
    sink = node.ask(text)
    assert sink.failure is None, sink.failure
    assert [(row["k"], row["port"]) for row in sink.rows] == duck.execute(text).fetchall()
    assert sink.account is not None
    assert not sink.account.dropped
    assert sink.account.ended == "complete"
    assert ("(pht) finds the " in explained(node, text)) == uses
    if uses:
        # One node reads the index and fetches the rows: they are its part of the answer.
        assert sink.account.answered == int(bool(sink.rows))


def test_nodes_ask_rarely_for_indexes_that_they_were_not_told_of() -> None:
    cluster = Cluster(6, seed=4)
    Node(cluster, 2).publish("t", {"k": list(range(100))}, "k")
    cluster.world.run_for(3 * LOOK_S)
    gets = sum(node.overlay.dht.statistics().serve.gets for node in cluster.nodes)
    cluster.world.run_for(2 * ASK_S + LOOK_S)
    asked = sum(node.overlay.dht.statistics().serve.gets for node in cluster.nodes) - gets
    # Gets that are tried again count twice.
    assert 2 * len(cluster.nodes) <= asked <= 4 * len(cluster.nodes)


def test_new_rows_are_found_and_a_dropped_index_is_used_no_more(
    world: tuple[Cluster, Node, list[dict[str, object]]],
) -> None:
    cluster, node, _ = world
    node.publish(
        "t", {"k": [9_001, 9_002], "port": [1_000, 1_001], "name": ["new", "b"], "f": [1e6, 2e6]}, "k"
    )
    cluster.world.run_for(3 * LOOK_S)
    text = "SELECT k FROM t WHERE port BETWEEN 1000 AND 1001"
    assert "by_port" in explained(node, text)
    assert sorted(row["k"] for row in node.ask(text).rows) == [9_001, 9_002]
    assert [row["k"] for row in node.ask("SELECT k FROM t WHERE name = 'new'").rows] == [9_001]
    assert node.ask("DROP INDEX by_f").failure is None
    cluster.world.run_for(3 * LOOK_S)
    text = "SELECT k FROM t WHERE f >= 1e6 AND f <= 3e6"
    assert "by_f" not in explained(node, text)
    assert sorted(row["k"] for row in node.ask(text).rows) == [9_001, 9_002]
    failure = node.ask("DROP INDEX by_f").failure
    assert failure is not None
    assert "there is no index" in failure.message
    assert node.ask("DROP INDEX IF EXISTS by_f").failure is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("CREATE INDEX i ON t (k) USING btree", "no kind of index 'btree'"),
        ("CREATE INDEX i ON nobody (k)", "no node knows a table"),
        ("CREATE INDEX i ON s (k)", "not only, a published table"),
        ("CREATE INDEX i ON t (q)", "no column 'q'"),
        ("CREATE INDEX i ON t (l)", "cannot be indexed"),
        ("CREATE INDEX i", "no statement about an index"),
        ("DROP INDEX i", "there is no index 'i'"),
    ],
)
def test_mistakes_are_told(text: str, says: str) -> None:
    columns = {"k": pa.int64(), "l": pa.list_(pa.int64())}
    tables = {"t": TableInfo(columns, ("published",)), "s": TableInfo(columns, ("source",))}
    with pytest.raises(UflError, match=says):
        compile_sql(text, "q", 0, tables)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([-(1 << 63), -5, 0, 7, (1 << 63) - 1]),
        pa.array([float("-inf"), -1.5, -0.0, 1e-300, 2.0, float("inf"), float("nan")]),
        pa.array(["", "a", "ab", "b", "z", "é"]),
        pa.array([False, True]),
        pa.array([0, 1, 2_000_000_000_000], pa.timestamp("us")),
    ],
)
def test_keys_are_in_the_order_of_values(values: pa.Array) -> None:
    keys = ordered_keys(values)
    assert keys == sorted(keys)  # type: ignore[type-var]
    assert len(set(keys)) == len(values)
