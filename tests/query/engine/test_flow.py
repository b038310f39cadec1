"""Slow readers, taps, complaints, many queries at once, late starters, lost and repeated messages."""

from __future__ import annotations

from collections.abc import Iterator

from query.batch import Batch, from_pydict
from query.dataflow.budget import Limits
from query.engine.messages import ResultBatch
from query.engine.proxy import WINDOW_LEAST_BYTES
from tests.query.engine.cluster import JOIN_S, Cluster, Collector, MemoryTable
from tests.query.engine.test_queries import COUNT_BY_SOURCE, plan

#: Small, so that a reader who does not read is felt at once.
WINDOW_BYTES = 4 * WINDOW_LEAST_BYTES

ROWS = """
%opgraph(rows) {
    %operator(log) { type = scan implementation = Local table = fw }
    %operator(wanted) { type = selection sources[0] = log where = greater_equal($dpt, "0"::long) }
    %operator(answer) { type = result sources[0] = wanted }
}
"""


def big(cluster: Cluster, batches: int, rows: int = 2_000) -> int:
    """Loads rows that hardly compress; returns their number."""
    made = [
        from_pydict(
            "fw",
            {"src": [f"{(b * rows + n) * 2654435761 % 2**32:x}" * 3 for n in range(rows)], "dpt": [b] * rows},
        )
        for b in range(batches)
    ]
    cluster.load("fw", made)
    return batches * rows


def test_a_slow_reader_pauses_its_own_query_and_nothing_is_lost() -> None:
    cluster = Cluster(4)
    total = big(cluster, 300)
    cluster.nodes[0].proxy.window_total_bytes = WINDOW_BYTES
    slow = Collector()
    slow.reading = False
    query = cluster.ask(plan(ROWS), sink=slow)
    cluster.world.run_for(20.0)
    taken = sum(batch.num_rows for batch in slow.batches)
    assert slow.account is None
    assert taken < total
    assert query.results.rows < total
    # A window is a matter of bytes, and whole batches go: no node sends more than the batch that fills it.
    for node in cluster.nodes:
        assert node.executor.runs[query.spec.id].results.rows <= 65_536 + 2_000
    other = cluster.answer(plan(COUNT_BY_SOURCE, 2), at=2)
    assert other.account is not None
    assert other.account.ended == "complete"
    slow.reading = True
    query.ready()
    cluster.world.run_for(60.0)
    assert slow.account is not None
    assert slow.account.ended == "complete"
    assert sum(batch.num_rows for batch in slow.batches) == total


def test_taps_show_what_flows_and_can_be_switched_while_a_query_runs() -> None:
    cluster = Cluster(3)
    big(cluster, 300)
    cluster.nodes[0].proxy.window_total_bytes = WINDOW_BYTES
    sink = Collector()
    sink.reading = False
    query = cluster.ask(plan(ROWS), sink=sink)
    cluster.world.run_for(5.0)
    assert sink.remarks == []
    query.taps(True, ("wanted",))
    cluster.world.run_for(1.0)
    sink.reading = True
    query.ready()
    cluster.world.run_for(60.0)
    assert sink.account is not None
    assert {remark.operator for remark in sink.remarks} == {"wanted"}
    assert {remark.kind for remark in sink.remarks} == {"in", "out"}
    assert "fw(src string, dpt int64)" in sink.remarks[0].text


def test_remarks_of_one_node_are_limited() -> None:
    cluster = Cluster(1)
    cluster.load("fw", [from_pydict("fw", {f"c{n}": [n]}) for n in range(500)])
    sink = Collector()
    cluster.nodes[0].proxy.submit(plan(ROWS), Limits(), sink, complain=True)
    cluster.world.run_for(5.0)
    assert sink.account is not None
    assert sum(sink.account.dropped.values()) == 500
    assert 0 < len(sink.remarks) <= 25
    assert len(sink.remarks) + cluster.nodes[0].executor.remarks_suppressed == 500


def test_many_queries_at_once_all_get_their_answers() -> None:
    cluster = Cluster(8)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n % 3}"], "dpt": [1]}) for n in range(48)])
    sinks = [Collector() for _ in range(40)]
    for number, sink in enumerate(sinks):
        cluster.ask(plan(COUNT_BY_SOURCE, number), at=number % 8, sink=sink)
    cluster.world.run_for(30.0)
    for sink in sinks:
        assert sink.tuples() == [("0", 16), ("1", 16), ("2", 16)]
    assert cluster.leftovers() == []


def test_a_repeated_result_message_counts_once() -> None:
    cluster = Cluster(2)
    cluster.load("fw", [from_pydict("fw", {"src": ["a"], "dpt": [1]})] * 4)
    proxy = cluster.nodes[0].proxy
    take = proxy._result
    cluster.hosts[0].messenger.on(
        ResultBatch, lambda sender, message: [take(sender, message) for _ in range(3)] and None
    )
    assert len(cluster.answer(plan(ROWS)).tuples()) == 4


def test_a_query_for_the_owner_of_one_key_asks_that_node_alone() -> None:
    cluster = Cluster(8)
    cluster.load("fw", [from_pydict("fw", {"src": ["a"], "dpt": [1]})] * 8)
    text = ROWS.replace("%opgraph(rows) {", "%opgraph(rows) { ns = fw rid = somewhere")
    account = cluster.answer(plan(text)).account
    assert account is not None
    assert (account.asked, account.answered) == (1, 1)


def test_data_that_came_before_the_opgraph_is_caught_up_with() -> None:
    """The consumer's opgraph is made to arrive late by a slow link to one node."""
    cluster = Cluster(8, latency_s=0.2)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n}"], "dpt": [1]}) for n in range(160)])
    answer = cluster.answer(plan(COUNT_BY_SOURCE))
    assert len(answer.tuples()) == 160


class Watched(MemoryTable):
    """Counts how often it is read."""

    scans = 0

    def scan(self, keys: Batch | None) -> Iterator[Batch]:
        self.scans += 1
        return super().scan(keys)


def test_a_node_that_comes_between_two_stages_adds_no_rows_of_its_own() -> None:
    """The account counts those whom the first stage reached: the answer has their rows and nobody else's."""
    cluster = Cluster(4)
    cluster.load("fw", [from_pydict("fw", {"src": [f"{n}"], "dpt": [1]}) for n in range(40)])
    sink = Collector()
    query = cluster.ask(plan(COUNT_BY_SOURCE), sink=sink)
    advance, held = query._advance, []
    query._advance = lambda number, report: held.append((number, report))  # type: ignore[method-assign]
    cluster.world.run_for(5.0)
    assert len(held) == 1
    cluster.grow()
    fresh = Watched([from_pydict("fw", {"src": [f"{n}"], "dpt": [2]}) for n in range(40, 80)])
    cluster.tables[-1].tables["fw"] = fresh
    cluster.world.run_for(JOIN_S)
    query._advance = advance  # type: ignore[method-assign]
    advance(*held[0])
    cluster.world.run_for(10.0)
    assert len(sink.tuples()) == 40
    assert fresh.scans == 0, "whether such rows are in time for the answer is a matter of luck"
    assert sink.account is not None
    assert (sink.account.asked, sink.account.ended) == (4, "complete")
    assert cluster.leftovers() == []


def test_a_stream_runs_for_its_duration_and_then_ends_complete() -> None:
    cluster = Cluster(3)
    cluster.load("fw", [from_pydict("fw", {"src": ["old"], "dpt": [1]})] * 3)
    text = ROWS.replace("%opgraph(rows) {", "%opgraph(rows) { duration = 5").replace(
        "%operator(wanted) { type = selection sources[0] = log",
        "%operator(live) { type = flowcontrol sources[0] = log probe = stream }"
        "%operator(wanted) { type = selection sources[0] = live",
    )
    sink = Collector()
    cluster.ask(plan(text), sink=sink)
    cluster.world.run_for(1.0)
    for tables in cluster.tables:
        for follower in tables.tables["fw"].followers.values():
            follower(from_pydict("fw", {"src": ["new"], "dpt": [2]}))
    cluster.world.run_for(1.0)
    assert sink.tuples() == [("new", 2)] * 3
    assert sink.account is None
    cluster.world.run_for(4.0)
    assert sink.account is not None
    assert sink.account.ended == "complete"
    assert sink.account.answered == 3
    assert cluster.leftovers() == []
    assert all(not tables.tables["fw"].followers for tables in cluster.tables)
