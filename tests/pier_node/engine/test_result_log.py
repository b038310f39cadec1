"""Logs of results on a simulated ring: numbered, read again, released, leased, bounded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pier_node.engine import result_log
from pier_node.engine.result_log import ResultLog
from pier_node.service import Failure, LogState, QueryRequest
from query.batch import from_pydict
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node, Sink

FOLLOW = """
%opgraph(g) {
    %operator(s) { type = scan implementation = Local table = fw }
    %operator(f) { type = flowcontrol probe = stream sources[0] = s }
    %operator(r) { type = result sources[0] = f }
}
"""


@pytest.fixture
def node() -> Node:
    cluster = Cluster(2)
    cluster.load("fw", [from_pydict("fw", {"n": [0]})])
    return Node(cluster, 0)


def open_log(node: Node, text: str = FOLLOW, lease_s: float = 60.0) -> Any:
    states: list[Any] = []
    node.service.open_log("log", lease_s, QueryRequest(text, "ufl"), states.append)
    node.cluster.world.run_for(2.0)
    return states[0]


def call(node: Node, action: str = "look", offset: int = 0) -> Any:
    states: list[Any] = []
    node.service.log("log", action, offset, states.append)
    return states[0]


def read(node: Node, start: int, end: int) -> Sink:
    sink = Sink()
    node.service.read_log("log", start, end, sink)
    return sink


def append(node: Node, *values: int) -> None:
    """Events on every node, whole batches of them."""
    for tables in node.cluster.tables:
        for handler in list(tables.tables["fw"].followers.values()):
            handler(from_pydict("fw", {"n": list(values)}))
    node.cluster.world.run_for(2.0)


def test_rows_are_numbered_read_again_and_released(node: Node) -> None:
    assert open_log(node) == LogState(0, 0)
    append(node, 1, 2, 3)
    append(node, 4, 5)
    assert call(node) == LogState(0, 10)
    everything = [row["n"] for row in read(node, 0, 10).rows]
    assert sorted(everything) == sorted([1, 2, 3, 4, 5] * 2)
    for start, end in ((0, 4), (4, 10), (2, 3), (7, 7)):
        assert [row["n"] for row in read(node, start, end).rows] == everything[start:end]
    assert call(node, "release", 4) == LogState(4, 10)
    assert [row["n"] for row in read(node, 4, 10).rows] == everything[4:]
    refused = read(node, 2, 10).failure
    assert refused is not None and "holds 4 up to 10" in refused.message
    assert open_log(node) == LogState(4, 10), "the same log, found again"
    assert isinstance(open_log(node, "%opgraph(other) {}"), Failure)


def test_a_log_ends_when_nobody_asks_for_it(node: Node) -> None:
    open_log(node, lease_s=10.0)
    for _ in range(3):
        node.cluster.world.run_for(6.0)
        assert call(node).ended == ""
    node.cluster.world.run_for(11.0)
    assert isinstance(call(node), Failure)
    node.cluster.world.run_for(10.0)
    assert node.cluster.leftovers() == [] and node.service.logs.expired == 1


def test_closing_a_log_ends_its_query_everywhere(node: Node) -> None:
    open_log(node)
    assert call(node, "close").ended
    node.cluster.world.run_for(10.0)
    assert node.cluster.leftovers() == []


def test_a_query_that_is_none_ends_its_log_with_the_reason(node: Node) -> None:
    open_log(node, "%opgraph(")
    assert call(node).ended.startswith("failed: ")


def test_a_full_log_makes_its_query_wait_and_goes_on_when_rows_are_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(result_log, "LOG_BYTES_MAX", 100)
    monkeypatch.setattr(result_log, "LOG_BYTES_HARD_MAX", 200)
    log = ResultLog("log", QueryRequest("", "ufl"), 60.0)
    woken: list[int] = []
    log.on_ready(lambda: woken.append(1))
    batch = pa.record_batch({"n": list(range(8))})
    assert log.batch("t", batch) and not log.batch("t", batch)
    log.release(3)
    assert not woken and log.state == LogState(3, 16)
    log.release(8)
    assert woken == [1] and log.ready()
    log.batch("t", batch)
    log.batch("t", batch)
    assert log.batch("t", batch) is False and "LOG_BYTES_MAX" in log.state.ended
