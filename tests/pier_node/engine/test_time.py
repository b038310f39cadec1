"""No request outlives its time, whatever happens inside: a watch at the door ends it with an account that says so."""

from __future__ import annotations

from typing import Any

import pytest

from pier_node.engine.asking import WATCH_GRACE_S
from pier_node.engine.dictionary import Dictionary
from pier_node.protocol.messages import Limits as Wanted
from pier_node.service import QueryRequest
from query.batch import from_pydict
from query.dataflow.budget import Limits
from query.engine.proxy import ProxyQuery
from tests.query.engine.cluster import Cluster
from tests.sql.test_continuous import Epochs
from tests.sql.test_node import Node, Sink


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(6, seed=4)
    made.load("fw", [from_pydict("fw", {"src": ["a"]})] * 6)
    made.load("h", [from_pydict("h", {"src": ["a"]})] * 6)
    made.world.run_for(10.0)
    return made


def broken(self: ProxyQuery, *_: Any) -> None:
    """What may happen inside: nothing, for ever."""


@pytest.mark.parametrize("what", ["the query", "its deadline and its planning"])
def test_no_query_outlives_its_time_whatever_happens_inside(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    node, sink = Node(cluster, 1), Sink()
    if what == "the query":
        monkeypatch.setattr(ProxyQuery, "_overdue", broken)
        monkeypatch.setattr(ProxyQuery, "_call", broken)
    else:
        monkeypatch.setattr(Dictionary, "ask", broken)
    node.service.query(QueryRequest("SELECT count(*) AS n FROM fw", "sql", Wanted(time_s=12.0)), sink)
    cluster.world.run_for(12.0 + WATCH_GRACE_S - 0.5)
    assert sink.account is None
    cluster.world.run_for(1.0)
    assert sink.account is not None and sink.account.ended == "limit"
    assert "given up" in sink.account.notes[0] and "time_s = 12" in sink.account.notes[0]
    parts = (sink.account.answered, sink.account.empty, sink.account.failed, sink.account.unreachable)
    assert sink.account.asked == sum(parts)
    monkeypatch.undo()
    cluster.world.run_for(30.0)
    assert not cluster.nodes[1].proxy.queries
    assert sum(node.service.statistics().ended.values()) == 1


def test_no_repeated_query_outlives_its_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "SELECT count(*) AS n FROM fw JOIN h ON fw.src = h.src EVERY '2 seconds'"
    for is_broken in (False, True):
        node, sink = Node(cluster, 1), Epochs()
        node.service.query(QueryRequest(text, "sql", Wanted(time_s=7.0)), sink)
        cluster.world.run_for(5.0)
        if is_broken:
            monkeypatch.setattr(ProxyQuery, "_overdue", broken)
            monkeypatch.setattr(ProxyQuery, "_call", broken)
        cluster.world.run_for(7.0 + WATCH_GRACE_S)
        assert sink.answers, "some epochs were answered"
        assert sink.account is not None and sink.account.ended == "limit"
        assert any("time_s = 7" in note for note in sink.account.notes)


def test_an_epoch_that_never_ends_ends_its_query(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a query that nobody gave a time: it would wait for that epoch for a month."""
    text = "SELECT count(*) AS n FROM fw JOIN h ON fw.src = h.src EVERY '2 seconds'"
    node, sink = Node(cluster, 1), Epochs()
    node.service.query(QueryRequest(text, "sql"), sink)
    cluster.world.run_for(5.0)
    monkeypatch.setattr(ProxyQuery, "_overdue", broken)
    monkeypatch.setattr(ProxyQuery, "_call", broken)
    cluster.world.run_for(Limits().time_s + WATCH_GRACE_S + 3.0)
    assert sink.answers and sink.account is not None and sink.account.ended == "limit"
    assert any("it had not ended: given up" in note for note in sink.account.notes)
