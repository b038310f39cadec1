"""Tables of thousands of columns: as many as may travel work, more are told of, and no node is held up."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import ufl
from query.batch import from_arrow
from query.wire.limits import COLUMNS_MAX
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node

#: For the whole ring of three nodes, which are simulated one after the other.
PATIENCE_S = 5.0


def cluster_with(columns: int) -> Cluster:
    cluster = Cluster(3, seed=4)
    data = pa.record_batch({f"c{number}": pa.array([number, number + 1]) for number in range(columns)})
    cluster.load("w", [from_arrow("w", data)] * 3)
    return cluster


def test_as_many_columns_as_may_travel_are_read_in_moments() -> None:
    node = Node(cluster_with(COLUMNS_MAX), 1)
    began_s = time.process_time()
    sink = node.ask("SELECT * FROM w")
    assert time.process_time() - began_s < PATIENCE_S
    assert [len(row) for row in sink.rows] == [COLUMNS_MAX] * 6
    assert sink.account is not None and sink.account.ended == "complete"


def test_of_more_columns_some_can_be_asked_for_and_a_star_is_refused() -> None:
    node = Node(cluster_with(5_000), 1)
    sink = node.ask("SELECT c4999, c0 FROM w WHERE c4998 > 4998")
    assert sink.rows == [{"c4999": 5_000, "c0": 1}] * 3
    assert sink.account is not None and sink.account.ended == "complete"
    refused = node.ask("SELECT * FROM w").failure
    assert refused is not None and "w has 5000 columns, more than a result may have (4096)" in refused.message
    shown = node.ask("SHOW TABLES").rows
    assert [(row["name"], row["columns"]) for row in shown] == [("w", 5_000)]


def test_columns_that_nodes_have_together_are_counted_too() -> None:
    cluster = Cluster(2, seed=4)
    cluster.load("w", [])
    for number, tables in enumerate(cluster.tables):
        data = pa.record_batch({f"n{number}_{at}": pa.array([at]) for at in range(3_000)})
        tables.tables["w"].batches.append(from_arrow("w", data))
    refused = Node(cluster, 1).ask("SELECT * FROM w").failure
    assert refused is not None and "w has 6000 columns" in refused.message


@pytest.mark.parametrize("columns", [COLUMNS_MAX + 1, 5_000])
def test_in_ufl_rows_that_may_not_travel_are_counted_and_told(columns: int) -> None:
    cluster = cluster_with(columns)
    plan = ufl.parse(
        "%opgraph(g) { %operator(s) { type = scan implementation = Local table = w }\n"
        "%operator(r) { type = result implementation = NetSend sources[0] = s } }"
    )
    account = cluster.answer(plan).account
    assert account is not None and account.ended != "complete", account
    assert any("columns" in text for text in (*account.errors, *account.dropped)), account
