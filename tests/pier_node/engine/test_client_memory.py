"""What queries and loads of one client hold on a node counts together, whoever else asks that node."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pier_node.access.rates import Hold, RateLimits, Share
from pier_node.protocol.messages import Stage
from pier_node.service import Failure, Publication, PublicationResult, QueryRequest, Settlement
from query.batch import from_pydict
from query.dataflow.budget import Budget, ClientBudgetExceeded, Limits, Pools
from tests.pier_node.engine.test_loads import Control
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node, Sink

ROWS = 300
#: Every row of each side meets every row of the other: it holds what nobody reads.
CROSS = "SELECT a.n, b.n AS m, c.n AS o FROM fw a CROSS JOIN fw b CROSS JOIN fw c"


class Unread(Sink):
    """A client that never reads."""

    def ready(self) -> bool:
        return False

    def batch(self, table: str, batch: object, epoch: int | None = None) -> bool:
        return False


def test_one_clients_queries_share_a_pool_and_others_do_not() -> None:
    pools = Pools(100)
    first, second, other = (Budget(Limits(), pools.join(client)) for client in ("a", "a", "b"))
    first.hold(60, "op")
    with pytest.raises(ClientBudgetExceeded, match=r"client\.memory_bytes_max = 100"):
        second.hold(41, "op")
    other.hold(100, "op")
    second.release()
    pools.leave("a")
    second.hold(-41, "op")
    first.hold(40, "op")
    first.release()
    pools.leave("a")
    assert len(pools) == 1
    assert pools.join("") is None and Pools().join("a") is None


MOST = 6 << 20


@pytest.mark.parametrize("most", [0, MOST])
def test_unread_cross_joins_of_one_client_leave_room_for_others(most: int) -> None:
    cluster = Cluster(4, seed=3)
    for each in cluster.nodes:
        each.executor.pools = Pools(most)
    cluster.load("fw", [from_pydict("fw", {"n": list(range(ROWS))})] * 4)
    cluster.world.run_for(10.0)
    node = Node(cluster, 0)
    for _ in range(5):
        node.service.query(QueryRequest(CROSS, "sql", share=Share(client="greedy")), Unread())
    held = 0
    for _ in range(100):
        cluster.world.run_for(0.1)
        for each in cluster.nodes:
            held = max(held, sum(run.budget.memory_bytes for run in each.executor.runs.values()))
    if most:
        assert held <= most + (1 << 20), "what one client may hold, and a batch"
    else:
        assert held > 2 * MOST, "what they hold when nobody minds"
    calm = node.asked(QueryRequest("SELECT count(*) AS n FROM fw", "sql", share=Share(client="calm")))
    assert calm.rows == [{"n": 4 * ROWS}]
    assert calm.account is not None and calm.account.ended == "complete"


def test_loads_that_wait_count_against_their_client() -> None:
    node = Node(Cluster(2), 0)
    limits = RateLimits(holds_max={Hold.STAGED_BYTES: 2_500})
    greedy, other = Share(limits), Share(limits)

    def staged(share: Share, task: str, load: str = "L") -> Failure | PublicationResult | None:
        control = Control()
        publication = Publication("t", ("src",), 600.0, stage=Stage(load, task, 60.0), share=share)
        feed = node.service.publish(publication, control)
        feed.batch(pa.record_batch({"src": ["a"], "n": [1]}), 1_000)
        feed.end()
        return control.result

    assert [isinstance(staged(greedy, f"{task}-a"), PublicationResult) for task in range(3)] == [
        True,
        True,
        False,
    ]
    refused = staged(greedy, "9-a")
    assert isinstance(refused, Failure) and "client.staged_bytes_per_client_max = 2500" in refused.message
    assert isinstance(staged(other, "0-a", "M"), PublicationResult)
    # A task that is staged again takes the place of its rows; a load that is given up, or lapses, gives all back.
    node.service.settle(Settlement("L", "t", "abort", ()), lambda result: None)
    assert greedy.idle and isinstance(staged(greedy, "0-a"), PublicationResult)
    node.cluster.world.run_for(61.0)
    assert greedy.idle and other.idle and node.service.staging.bytes == 0
