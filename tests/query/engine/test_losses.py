"""Rows that are lost between nodes: whatever way they take, the answer is partial and says why."""

from __future__ import annotations

from typing import Any

import pytest

import ufl
from overlay.dht.messages import Code
from query.batch import from_pydict
from query.causes import Cause
from query.dataflow.context import REASONS_MAX, Counters
from query.engine import peers
from query.engine.account import Account
from query.engine.messages import PeerBatch
from query.engine.spec import DROPS_MAX, OTHER, Report
from query.operators.put.dht import PutDht
from query.plan import Plan
from runtime.sim.messages import MessageNetwork
from tests.query.engine.cluster import Cluster
from tests.query.engine.test_hostile_numbers import CENTRAL, PLAIN, RECURSION, REHASH

NODES = 4


def plan(text: str) -> Plan:
    return ufl.expand(ufl.parse(text), query_id="q1", query_time_s=0)


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster(NODES)
    cluster.load("fw", [from_pydict("fw", {"src": [f"s{n}"], "n": [n]}) for n in range(40)])
    return cluster


def partial(cluster: Cluster, text: str) -> Account:
    account = cluster.answer(plan(text), at=0).account
    assert account is not None
    assert account.ended == "partial", account
    assert (account.failed, account.unreachable) == (0, 0), "every node did its part"
    assert account.errors, "it says why"
    return account


def test_without_losses_they_are_complete(cluster: Cluster) -> None:
    for text in (PLAIN, REHASH, CENTRAL, RECURSION):
        account = cluster.answer(plan(text)).account
        assert account is not None
        assert (account.ended, account.causes, account.errors) == ("complete", {}, ()), text


def test_rows_for_an_address_that_nobody_has(cluster: Cluster) -> None:
    account = partial(
        cluster,
        CENTRAL.replace("channel = rows }\n}\n%op", 'channel = rows address = "10.9.9.9:1" }\n}\n%op'),
    )
    assert account.causes == {Cause.NOT_DELIVERED: 40}


def test_messages_that_a_node_had_no_room_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their senders have heard that they came."""
    monkeypatch.setattr(peers, "WAITING_BYTES_MAX", 0)
    monkeypatch.setattr(peers.PeerChannels, "listen", lambda self, query, channel, handler: lambda: None)
    account = partial(cluster, CENTRAL)
    assert set(account.causes) == {Cause.NOT_TAKEN}
    assert cluster.nodes[0].dropped()["batches_of_no_query"] == account.causes[Cause.NOT_TAKEN]


def test_one_batch_of_those_that_were_put_is_not_taken(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = 0

    def submit(put: PutDht, objects: list[Any], done: Any) -> None:
        """One object vanishes on the way, and its sender hears that it was stored."""
        nonlocal lost
        if not lost:
            lost = 1
            put.dht.put_many(objects[1:], lambda codes: done([Code.OK, *codes]))
        else:
            put.dht.put_many(objects, done)

    monkeypatch.setattr(PutDht, "submit", submit)
    for text in (REHASH, RECURSION):
        lost = 0
        assert partial(cluster, text).causes == {Cause.NOT_TAKEN: 1}


def test_rows_that_no_owner_stored(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(put: PutDht, objects: list[Any], done: Any) -> None:
        put.context.clock.call_later(0.0, done, [Code.UNREACHED for _ in objects])

    monkeypatch.setattr(PutDht, "submit", submit)
    assert partial(cluster, REHASH).causes == {Cause.NOT_STORED: 40}


def test_results_that_the_asker_cannot_read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("query.engine.results._read", lambda payload, schemas: None)
    account = partial(cluster, PLAIN)
    assert account.causes[Cause.UNREADABLE] >= NODES - 1


def test_messages_that_cannot_be_read(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = MessageNetwork.send

    def send(network: MessageNetwork, sender: Any, to: str, message: Any, notice: Any) -> None:
        if isinstance(message, PeerBatch):
            message = PeerBatch(message.query, message.channel, b"nonsense")
        plain(network, sender, to, message, notice)

    monkeypatch.setattr(MessageNetwork, "send", send)
    assert Cause.UNREADABLE in partial(cluster, CENTRAL).causes


def test_bounds_fold_words_and_never_causes() -> None:
    """The words for a loss that comes after many others are cut; that rows were lost is not."""
    counters = Counters()
    for number in range(REASONS_MAX + 10):
        counters.drop(1, f"reason {number}", Cause.UNFIT)
    counters.drop(5, "not stored", Cause.NOT_STORED)
    assert (counters.drops["other"], counters.causes) == (
        15,
        {Cause.UNFIT: REASONS_MAX + 10, Cause.NOT_STORED: 5},
    )
    whole = Report()
    for number in range(DROPS_MAX + 10):
        whole = whole.plus(Report(dropped={f"op: {number}": 1}, causes={Cause.UNFIT.number: 1}))
    whole = whole.plus(Report(dropped={"op: not stored": 5}, causes={Cause.NOT_STORED.number: 5}))
    assert whole.dropped[OTHER] == 15
    assert whole.causes == {Cause.UNFIT.number: DROPS_MAX + 10, Cause.NOT_STORED.number: 5}


def test_there_is_no_drop_of_nothing() -> None:
    counters = Counters()
    counters.drop(0, "part of an index could not be read", Cause.NOT_FETCHED)
    assert (counters.dropped_rows, counters.causes) == (1, {Cause.NOT_FETCHED: 1})
