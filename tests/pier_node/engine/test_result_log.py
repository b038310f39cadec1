"""Logs of results on a simulated ring: numbered, read again, released, leased, bounded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pier_node.access.clients import Client
from pier_node.access.rates import Hold, RateLimits, Share
from pier_node.engine.result_log import LogLimits, ResultLog, Room
from pier_node.service import Failure, LogName, LogState, QueryRequest
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

LOG = LogName("", "log")


@pytest.fixture
def node() -> Node:
    cluster = Cluster(2)
    cluster.load("fw", [from_pydict("fw", {"n": [0]})])
    return Node(cluster, 0)


def open_log(node: Node, text: str = FOLLOW, lease_s: float = 60.0) -> Any:
    states: list[Any] = []
    node.service.open_log(LOG, lease_s, QueryRequest(text, "ufl"), states.append)
    node.cluster.world.run_for(2.0)
    return states[0]


def call(node: Node, action: str = "look", offset: int = 0) -> Any:
    states: list[Any] = []
    node.service.log(LOG, action, offset, states.append)
    return states[0]


def read(node: Node, start: int, end: int) -> Sink:
    sink = Sink()
    node.service.read_log(LOG, start, end, sink)
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


def test_a_full_log_makes_its_query_wait_and_goes_on_when_rows_are_released() -> None:
    share = Share()
    assert share.take(Hold.LOGS) is None and share.take(Hold.QUERIES) is None
    request = QueryRequest("", "ufl", share=share)
    log = ResultLog(LOG, request, 60.0, Room(LogLimits(log_bytes_max=100)))
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
    assert log.batch("t", batch) is False and "client.log_bytes_max" in log.state.ended
    log.forget()
    assert share.idle


def held(node: Node, client: str, share: Share, count: int, lease_s: float = 86_400.0) -> list[Any]:
    """As many logs as one client can open."""
    states: list[Any] = []
    for number in range(count):
        request = QueryRequest(FOLLOW, "ufl", share=share)
        node.service.open_log(LogName(client, f"log{number}"), lease_s, request, states.append)
    node.cluster.world.run_for(2.0)
    return states


def test_one_client_cannot_take_all_logs_there_are(node: Node) -> None:
    limits = RateLimits(holds_max={Hold.LOGS: 8, Hold.QUERIES: 64})
    greedy, other = Share(limits), Share(limits)
    refused = [state for state in held(node, "greedy", greedy, 64) if isinstance(state, Failure)]
    assert len(refused) == 56 and all("client.logs_max = 8" in each.message for each in refused)
    assert not any(isinstance(state, Failure) for state in held(node, "other", other, 8))
    assert greedy.figures().held["queries"] == 8
    for number in range(8):
        node.service.log(LogName("greedy", f"log{number}"), "close", 0, lambda state: None)
    assert greedy.idle and not other.idle


def test_the_rows_of_logs_count_against_their_client_and_all_together_against_the_node() -> None:
    batch = pa.record_batch({"n": list(range(8))})
    room = Room(LogLimits(log_bytes_max=1_000, logs_total_bytes_max=330))
    limits = RateLimits(holds_max={Hold.LOG_BYTES: 128})
    shares = [Share(limits), Share(limits), Share()]
    logs = []
    for share in shares:
        assert share.take(Hold.LOGS) is None and share.take(Hold.QUERIES) is None
        logs.append(ResultLog(LOG, QueryRequest("", "ufl", share=share), 60.0, room))
    for log in logs[:2]:
        assert log.batch("t", batch) and log.batch("t", batch)
    assert not logs[0].batch("t", batch) and "client.logs_bytes_max = 128" in logs[0].state.ended
    assert logs[2].batch("t", batch)
    assert not logs[2].batch("t", batch) and "client.logs_total_bytes_max = 330" in logs[2].state.ended
    logs[1].release(8)
    assert shares[1].figures().held["log_bytes"] == 64 and room.refused == 2
    for log in logs:
        log.close("over")
        log.forget()
    assert room.bytes == 0 and all(share.idle for share in shares)


def test_logs_of_two_clients_never_meet(node: Node) -> None:
    """Whatever their tokens and logs are called."""
    states: list[Any] = []
    for name in (LogName("a", "b/c"), LogName("a/b", "c"), LogName("", "a/b/c")):
        node.service.open_log(name, 60.0, QueryRequest(FOLLOW, "ufl"), states.append)
    assert len(node.service.logs) == 3


def test_a_log_of_what_a_token_does_not_allow_is_counted(node: Node) -> None:
    share, asker = Share(), Client("asker", frozenset({"ask"}))
    text = FOLLOW.replace("type = result", "type = put NS = stolen keys[0] = $n")
    node.service.open_log(LOG, 60.0, QueryRequest(text, "ufl", who=asker, share=share), lambda state: None)
    node.cluster.world.run_for(2.0)
    assert "does not allow to publish into 'stolen'" in call(node).ended
    assert share.rights_refused == 1
