"""Continuous queries over published tables while nodes join, leave, die and are cut off: every row counts by its own
age, at one node, and an answer that cannot know that says so."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pier_node.service import Publication, QueryRequest
from tests.query.engine.cluster import Cluster
from tests.sql.test_continuous import Epochs
from tests.sql.test_node import Control, Node

ROWS = 300
NODES = 6


class Published:
    """A table in the ring, and a question about it."""

    def __init__(self, seed: int = 4) -> None:
        self.cluster = Cluster(NODES, seed=seed)
        self.node = Node(self.cluster, 1)
        self.sink = Epochs()
        #: Between which times each row came into sight.
        self.born: dict[int, tuple[float, float]] = {}

    def publish(self, *keys: int) -> None:
        """Takes five seconds, or as long as it takes."""
        control, began_s = Control(), self.cluster.world.now
        feed = self.node.service.publish(Publication("t", ("k",)), control)
        feed.batch(pa.record_batch({"k": list(keys)}), 1)
        feed.end()
        while control.result is None:
            self.pass_s(0.1)
        assert control.result.refused == 0
        self.born.update(dict.fromkeys(keys, (began_s, self.cluster.world.now)))
        self.pass_s(max(0.0, began_s + 5.0 - self.cluster.world.now))

    def ask(self, text: str) -> None:
        self.node.service.query(QueryRequest(text, "sql"), self.sink)
        self.pass_s(0.5)

    def pass_s(self, seconds: float) -> None:
        self.cluster.world.run_for(seconds)

    def join(self) -> None:
        self.cluster.grow()

    def leave(self) -> None:
        host, node = self.cluster.hosts[4], self.cluster.nodes[4]
        node.overlay.leave(lambda: self.cluster.world.crash(host))

    def crash(self) -> None:
        self.cluster.world.crash(self.cluster.hosts[4])

    def cut_off(self) -> None:
        """For longer than its neighbours' patience."""
        world, host = self.cluster.world, self.cluster.hosts[4]
        others = [each.index for each in self.cluster.hosts if each is not host]
        cut = world.faults.partitions.cut([host.index], others)
        world.call_at(world.now + 8.0, world.faults.partitions.heal, cut)

    def complete(self) -> list[tuple[int, list[tuple[int, ...]]]]:
        """The answers that call themselves complete, with their epochs."""
        return [(told.epoch or 0, rows) for told, rows in self.sink.answers if told.ended == "complete"]


CHANGES: dict[str, Callable[[Published], None]] = {
    "join": Published.join,
    "leave": Published.leave,
    "crash": Published.crash,
    "cut off": Published.cut_off,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("young", [False, True], ids=["old rows", "young rows"])
def test_an_idle_table_counts_the_same_whatever_the_ring_does(change: str, young: bool) -> None:
    live = Published()
    live.publish(*range(ROWS))
    live.pass_s(1.0 if young else 100.0)
    live.ask(f"SELECT count(*) AS n FROM t EVERY '2 seconds' RANGE '{1000 if young else 60} seconds'")
    live.pass_s(10.0)
    CHANGES[change](live)
    live.pass_s(120.0)
    answers = live.complete()
    wanted = ROWS if young else 0
    assert [rows for _, rows in answers if rows != [(wanted,)]] == []
    assert len(answers) >= 4, "before the change"
    if change in ("join", "leave"):
        assert answers[-1][0] >= 50, "the ring is at rest again, and so is the answer"
        assert len(answers) >= 20


@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_an_idle_table_are_not_given_again(change: str) -> None:
    live = Published()
    live.publish(*range(ROWS))
    live.pass_s(20.0)
    live.ask("SELECT k FROM t EVERY '2 seconds'")
    live.pass_s(10.0)
    CHANGES[change](live)
    live.pass_s(120.0)
    assert [rows for _, rows in live.sink.answers if rows] == []


@pytest.mark.parametrize("change", CHANGES)
def test_rows_of_a_growing_table_are_given_once(change: str) -> None:
    live = Published()
    live.publish(*range(ROWS))
    live.pass_s(20.0)
    live.ask("SELECT k FROM t EVERY '2 seconds'")
    for step in range(16):
        # Each takes five seconds.
        live.publish(*range(1000 + 10 * step, 1010 + 10 * step))
        if step == 3:
            CHANGES[change](live)
    live.pass_s(60.0)
    given = [k for rows in live.sink.by_epoch().values() for (k,) in rows]
    assert len(given) == len(set(given)), "twice"
    grown = set(range(1000, 1160))
    assert set(given) <= grown
    partial = [told for told, _ in live.sink.answers if told.ended == "partial"]
    assert set(given) == grown or partial
    assert set(range(1000, 1030)) <= set(given), "before the change"
    assert set(range(1150, 1160)) <= set(given), "when the ring is at rest again"


@pytest.mark.parametrize("change", CHANGES)
def test_a_window_over_a_growing_table_slides_by_true_ages(change: str) -> None:
    live = Published()
    live.publish(5_000)
    live.ask(
        "SELECT count(*) AS n, min(k) AS low, max(k) AS high FROM t EVERY '2 seconds' RANGE '20 seconds'"
    )
    began_s = live.cluster.world.now - 0.5
    for step in range(20):
        live.publish(*range(100 * step, 100 * step + 50))
        if step == 5:
            CHANGES[change](live)
    wrong = []
    for epoch, rows in live.complete():
        at_s = began_s + 2.0 * (epoch + 1)
        # Within a second of the edges it may be either.
        surely = [k for k, (low, high) in live.born.items() if at_s - 19.0 < low and high < at_s - 1.0]
        perhaps = [k for k, (low, high) in live.born.items() if at_s - 21.0 < high and low < at_s + 1.0]
        ((count, low, high),) = rows or [(0, None, None)]
        if not len(surely) <= count <= len(perhaps) or (low is not None and not {low, high} <= set(perhaps)):
            wrong.append((epoch, count, len(surely), len(perhaps)))
    assert wrong == []
    assert len(live.complete()) >= 10


def test_publishing_the_same_rows_again_gives_none_of_them_again() -> None:
    live = Published()
    live.publish(*range(ROWS))
    live.ask("SELECT k FROM t EVERY '2 seconds'")
    live.publish(*range(ROWS))
    live.publish(ROWS)
    live.pass_s(10.0)
    assert [rows for _, rows in live.sink.answers if rows] == [[(ROWS,)]]


def test_a_node_that_was_cut_off_comes_back_into_the_query_and_its_answers_go_on() -> None:
    """It ended the query for itself, since nobody above it showed itself; it may be where states come together."""
    live = Published()
    live.publish(*range(ROWS))
    live.ask("SELECT count(*) AS n FROM t EVERY '2 seconds' RANGE '1000 seconds'")
    live.pass_s(10.0)
    live.cut_off()
    live.pass_s(200.0)
    told, rows = live.sink.answers[-1]
    assert (told.answered, told.ended, rows) == (NODES, "complete", [(ROWS,)])
    assert told.epoch is not None and told.epoch >= 95
