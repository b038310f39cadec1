"""Epochs of a continuous query when a member is lost for good: it is missing, then absent, and never forgotten."""

from __future__ import annotations

from pier_node.engine.service import QueryService
from pier_node.protocol.messages import Account
from pier_node.service import QueryRequest
from query.dataflow.budget import Limits
from query.engine.absentees import NOBODY
from tests.query.engine.test_absentees import Members
from tests.sql.test_node import Sink

#: Longer than who died counts among those asked.
LONG_S = 150.0


class Epochs(Sink):
    def __init__(self) -> None:
        super().__init__()
        self.accounts: list[Account] = []

    def epoch_account(self, account: Account) -> None:
        self.accounts.append(account)


def test_an_epoch_lacks_a_lost_member_for_as_long_as_it_is_expected() -> None:
    cluster = Members(6)
    node = cluster.nodes[0]
    service = QueryService(cluster.hosts[0].runtime, node, Limits(time_s=3_600.0))
    sink = Epochs()
    service.query(QueryRequest("SELECT count(*) AS n FROM fw EVERY '2 seconds'", "sql"), sink)
    cluster.world.run_for(30.0)
    assert [account.ended for account in sink.accounts[2:]] == ["complete"] * len(sink.accounts[2:])
    cluster.world.crash(cluster.hosts[2])
    cluster.world.run_for(10.0)
    sink.accounts.clear()
    cluster.world.run_for(LONG_S)
    assert len(sink.accounts) > 50
    assert {account.ended for account in sink.accounts} == {"partial"}
    last = sink.accounts[-1]
    assert (last.asked, last.answered, last.absent, last.causes) == (5, 5, 1, {"absent": 1})
    assert "host-2" in last.absent_hosts[0] and any("host-2" in note for note in last.notes)
    assert node.overlay.roster is not None
    node.overlay.roster.retire(cluster.nodes[2].overlay.router.me.id, lambda told: None)
    cluster.world.run_for(30.0)
    assert (sink.accounts[-1].ended, sink.accounts[-1].absent) == ("complete", 0)


def test_no_epoch_is_whole_before_anybody_was_counted() -> None:
    """A member dies just before the query: its first epochs come while the count still waits for it."""
    cluster = Members(6)
    service = QueryService(cluster.hosts[0].runtime, cluster.nodes[0], Limits(time_s=3_600.0))
    sink = Epochs()
    cluster.world.crash(cluster.hosts[2])
    service.query(QueryRequest("SELECT count(*) AS n FROM fw EVERY '0.5 seconds'", "sql"), sink)
    cluster.world.run_for(20.0)
    assert sink.accounts and {account.ended for account in sink.accounts} == {"partial"}
    assert "uncounted" in sink.accounts[0].causes


def test_a_member_that_comes_back_is_missed_until_it_is_in_the_epochs() -> None:
    """Between two counts it is the roster that knows of it."""
    cluster = Members(6)
    service = QueryService(cluster.hosts[0].runtime, cluster.nodes[0], Limits(time_s=3_600.0))
    sink = Epochs()
    cluster.world.crash(cluster.hosts[2])
    cluster.world.run_for(60.0)
    query = "SELECT count(*) AS n FROM fw EVERY '0.5 seconds'"
    service.query(QueryRequest(query, "sql"), sink)
    cluster.world.run_for(3.0)
    (asked,) = cluster.nodes[0].proxy.queries.values()
    assert asked.expected == 5
    asked.absent = NOBODY
    assert asked.expected == 6
