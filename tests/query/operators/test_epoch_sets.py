"""Continuous queries on a simulated cluster as sets: every epoch sorted, limited and given out by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

import ufl
from query.batch import Batch, from_pydict
from query.causes import Cause
from query.dataflow.marks import Mark, mark_of
from query.engine.messages import PeerBatch
from query.plan import Plan
from runtime.sim.messages import MessageNetwork
from tests.query.engine.cluster import Cluster, Collector

EPOCHS = """
%opgraph(local) {{
    %operator(log) {{ type = scan implementation = Local table = fw }}
    %operator(window) {{ type = cache implementation = MemCache sources[0] = log fill = stream {window} }}
    %operator(part) {{ type = groupby sources[0] = window keys[src] = $src aggregates[n] = count() mode = partial }}
    %operator(send) {{ type = put implementation = Epochs sources[0] = part channel = c every = 2 first = 2
        {count} keys[src] = $src aggregates[n] = count() }}
}}
%opgraph(root) {{ at = asker
    %operator(results) {{ type = scan implementation = Epochs channel = c sets = true
        keys[src] = $src aggregates[n] = count() }}
    %operator(order) {{ type = sort implementation = TopK sources[0] = results keys[0] = $n order[0] = desc limit = 2 }}
    %operator(answer) {{ type = result implementation = Epochs sources[0] = order table = result }}
}}
"""
ROWS = """
%opgraph(local) {{
    %operator(log) {{ type = scan implementation = Local table = fw }}
    %operator(window) {{ type = cache implementation = MemCache sources[0] = log fill = stream {window} }}
    %operator(send) {{ type = put implementation = EpochRows sources[0] = window channel = c every = 2 first = 2
        {count} }}
}}
%opgraph(root) {{ at = asker
    %operator(results) {{ type = scan implementation = EpochRows channel = c }}
    %operator(order) {{ type = sort sources[0] = results keys[0] = $src }}
    %operator(answer) {{ type = result implementation = Epochs sources[0] = order table = result }}
}}
"""


def plan(text: str, window: str = "clear = true", count: str = "count = 3") -> Plan:
    return ufl.expand(ufl.parse(text.format(window=window, count=count)), query_id="q1", query_time_s=0)


def epochs(sink: Collector) -> Iterator[tuple[Mark, list[tuple[Any, ...]]]]:
    """Each answer with its mark, which says how many rows belong to it."""
    batches: list[Batch] = list(sink.batches)
    while batches:
        mark = mark_of(batches.pop(0))
        assert mark is not None, "rows without a mark"
        rows: list[tuple[Any, ...]] = []
        while len(rows) < mark.rows:
            rows += [tuple(row.values()) for row in batches.pop(0).to_rows()]
        assert len(rows) == mark.rows
        yield mark, rows


class Growing:
    """A cluster whose nodes get rows while a query runs."""

    def __init__(self, nodes: int = 4) -> None:
        self.cluster = Cluster(nodes)
        self.cluster.load("fw", [from_pydict("fw", {"src": ["old"]})])
        self.sink = Collector()

    def arrive(self, node: int, *sources: str) -> None:
        table = self.cluster.tables[node].tables["fw"]
        for follower in list(table.followers.values()):
            follower(from_pydict("fw", {"src": list(sources)}))

    def run(self, plan: Plan) -> list[tuple[Mark, list[tuple[Any, ...]]]]:
        """Rows arrive in the first and in the third window."""
        self.cluster.ask(plan, sink=self.sink)
        self.cluster.world.run_for(1.0)
        self.arrive(0, "a", "a", "b")
        self.arrive(1, "a", "c", "b")
        self.cluster.world.run_for(4.0)
        self.arrive(2, "d")
        self.cluster.world.run_for(20.0)
        assert self.sink.account is not None
        assert self.sink.account.ended == "complete", self.sink.account
        assert not self.sink.account.dropped
        assert self.cluster.leftovers() == []
        return list(epochs(self.sink))


def test_each_epoch_is_ordered_and_limited_by_itself_and_an_empty_one_is_told() -> None:
    answers = Growing().run(plan(EPOCHS))
    assert [(mark.epoch, mark.nodes, rows) for mark, rows in answers] == [
        (0, 4, [("a", 3), ("b", 2)]),
        (1, 4, []),
        (2, 4, [("d", 1)]),
    ]


def test_a_window_slides_over_epochs() -> None:
    answers = Growing().run(plan(EPOCHS, "age = 4.5", "count = 4"))
    assert [(mark.epoch, rows) for mark, rows in answers] == [
        (0, [("a", 3), ("b", 2)]),
        (1, [("a", 3), ("b", 2)]),
        (2, [("d", 1)]),
        (3, [("d", 1)]),
    ]


def test_rows_of_every_epoch_once_and_in_order() -> None:
    answers = Growing().run(plan(ROWS))
    assert [(mark.epoch, mark.nodes, [row[0] for row in rows]) for mark, rows in answers] == [
        (0, 4, ["a", "a", "a", "b", "b", "c"]),
        (1, 4, []),
        (2, 4, ["d"]),
    ]


def test_a_client_that_is_behind_misses_epochs_and_that_is_counted() -> None:
    growing = Growing()
    growing.sink.reading = False
    cluster = growing.cluster
    cluster.nodes[0].proxy.window_total_bytes = 1
    query = cluster.ask(plan(ROWS, count=""), sink=growing.sink)
    for _ in range(8):
        cluster.world.run_for(2.0)
        for node in range(4):
            growing.arrive(node, *[hashlib.sha1(b"%d" % number).hexdigest() for number in range(1_000)])
    cluster.world.run_for(4.0)
    growing.sink.reading = True
    query.ready()
    cluster.world.run_for(4.0)
    assert any(mark.skipped for mark, _ in epochs(growing.sink)), "what comes next says what was left out"
    assert len(list(epochs(growing.sink))) < 6
    run = next(iter(cluster.nodes[0].executor.runs.values()))
    assert any("too slow" in reason for reason in run.report().dropped)
    assert run.report().causes[Cause.READER_SLOW.number] >= 1
    query.cancel("enough")
    cluster.world.run_for(5.0)
    assert cluster.leftovers() == []


def test_an_epoch_without_some_of_its_rows_is_partial_until_they_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows of one node take longer than their number: the epoch says what it lacks, and is revised when they come."""
    growing = Growing()
    slow = growing.cluster.hosts[1].runtime.index
    plain = MessageNetwork.send

    def send(network: MessageNetwork, sender: Any, to: str, message: Any, notice: Any) -> None:
        if sender.index == slow and isinstance(message, PeerBatch):
            world = growing.cluster.world
            world.call_at(world.now + 0.1, notice, True)
            world.call_at(world.now + 4.0, lambda _: plain(network, sender, to, message, None), None)
        else:
            plain(network, sender, to, message, notice)

    monkeypatch.setattr(MessageNetwork, "send", send)
    answers = [
        (mark.revision, mark.causes, len(rows)) for mark, rows in growing.run(plan(ROWS)) if mark.epoch == 0
    ]
    assert answers == [(0, {Cause.NOT_DELIVERED.number: 3}, 3), (1, {}, 6)]


def test_marks_survive_only_as_marks() -> None:
    assert mark_of(Mark(7, 1, 8, 3).to_batch()) == Mark(7, 1, 8, 3)
    assert mark_of(from_pydict("pier.epoch", {"epoch": ["x"]})) is None
    assert mark_of(from_pydict("t", {"epoch": [1]})) is None
