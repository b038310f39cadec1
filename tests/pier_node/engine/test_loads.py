"""Loads that wait until they are settled, on a simulated ring: all or nothing, once, bounded."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from pier_node.engine import staging as staging_module
from pier_node.engine.cutting import OBJECT_ROWS, objects_of
from pier_node.engine.published import PublishedLoads
from pier_node.engine.staging import Staging, load_mark
from pier_node.protocol.messages import Slice, Stage
from pier_node.service import Failure, Publication, PublicationResult, QueryRequest, Settlement
from query.batch import from_pydict
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node, Sink

ROWS = {"src": ["a", "b", "a", "c"] * 25, "n": list(range(100))}
ALL = sorted(zip(ROWS["src"], ROWS["n"], strict=True))


class Control:
    def __init__(self) -> None:
        self.result: PublicationResult | Failure | None = None
        self.consumed_bytes = 0

    def consumed(self, size_bytes: int) -> None:
        self.consumed_bytes += size_bytes

    def progress(self, objects: int, confirmed: int, rows_confirmed: int, elapsed_s: float) -> None: ...

    def finish(self, result: PublicationResult) -> None:
        self.result = result

    def fail(self, failure: Failure) -> None:
        self.result = failure


@pytest.fixture
def node() -> Node:
    return Node(Cluster(3), 0)


def stage(node: Node, task: str, rows: dict[str, list[Any]], load: str = "L", **more: Any) -> Control:
    control = Control()
    wanted = Stage(load, task, 60.0, **more)
    feed = node.service.publish(Publication("t", ("src",), 600.0, stage=wanted), control)
    feed.batch(pa.record_batch(rows), 1_000)
    feed.end()
    return control


def settle(node: Node, verdict: Any, *tasks: str, load: str = "L") -> Any:
    results: list[Any] = []
    node.service.settle(Settlement(load, "t", verdict, tasks), results.append)
    node.cluster.world.run_for(5.0)
    return results[0]


def seen(node: Node) -> list[tuple[str, int]]:
    return sorted((row["src"], row["n"]) for row in node.ask("SELECT src, n FROM t").rows)


def test_rows_are_seen_when_their_load_is_committed_and_only_those_of_tasks_that_count(node: Node) -> None:
    half = {name: values[:50] for name, values in ROWS.items()}
    rest = {name: values[50:] for name, values in ROWS.items()}
    for task, rows in (("0-a", half), ("1-a", rest), ("1-b", rest)):
        assert stage(node, task, rows).result == PublicationResult(50, 0)
    assert seen(node) == []
    assert settle(node, "check", "0-a", "1-b") == PublicationResult(100, 0)
    assert settle(node, "check", "0-a", "2-a").dropped == {"tasks missing": 1}
    committed = settle(node, "commit", "0-a", "1-b")
    assert (committed.rows, committed.refused) == (100, 0)
    assert seen(node) == ALL
    assert node.service.staging.bytes == 0
    assert settle(node, "commit", "0-a", "1-b") == committed, "asked again after a lost connection"
    assert "not staged" in settle(node, "commit", "0-a").message


def test_an_aborted_load_leaves_nothing_and_a_withdrawn_one_is_taken_back(node: Node) -> None:
    stage(node, "0", ROWS)
    settle(node, "abort")
    assert isinstance(settle(node, "commit", "0"), Failure)
    assert seen(node) == [] and node.service.staging.bytes == 0
    stage(node, "0", ROWS)
    settle(node, "commit", "0")
    assert settle(node, "withdraw").objects == 3
    assert seen(node) == []


def test_a_run_that_is_given_up_leaves_nothing_behind_however_late_its_tasks_are(node: Node) -> None:
    """A job fails while others of its tasks still send, and a second job feeds the same load."""
    publication = Publication("t", ("src",), 600.0, stage=Stage("L", "first.1", 60.0))
    stage(node, "first.0", ROWS)
    stage(node, "second.0", ROWS)
    sending, refused = Control(), Control()
    open_task = node.service.publish(publication, sending)
    open_task.batch(pa.record_batch(ROWS), 1_000)
    settle(node, "abort", "first")
    assert isinstance(sending.result, Failure) and "given up" in sending.result.message
    open_task.batch(pa.record_batch(ROWS), 1_000)
    open_task.end()
    late = node.service.publish(publication, refused)
    late.batch(pa.record_batch(ROWS), 1_000)
    late.end()
    assert isinstance(refused.result, Failure)
    assert node.service.staging.bytes == 1_000, "the second job's rows, and no others"
    assert settle(node, "commit", "second.0").rows == 100
    assert node.service.staging.bytes == 0 and seen(node) == ALL


def test_runs_that_were_given_up_are_forgotten_in_time(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging_module, "GIVEN_UP_MAX", 1)
    for run in ("first", "second"):
        settle(node, "abort", run)
    assert isinstance(stage(node, "second.0", ROWS).result, Failure)
    assert stage(node, "first.0", ROWS).result == PublicationResult(100, 0)


def test_a_task_that_is_staged_twice_counts_once(node: Node) -> None:
    for _ in range(2):
        stage(node, "0", ROWS)
    assert node.service.staging.bytes == 1_000
    assert settle(node, "commit", "0").rows == 100
    assert node.service.staging.bytes == 0


def test_clearing_takes_back_all_other_loads_of_the_table(node: Node) -> None:
    for load, text in (("old", "x"), ("new", "y")):
        stage(node, "0", {"src": [text], "n": [1]}, load)
        settle(node, "commit", "0", load=load)
    settle(node, "clear", load="new")
    assert seen(node) == [("y", 1)]


def test_a_repeated_load_replaces_itself_also_when_it_has_become_smaller(node: Node) -> None:
    for count in (100, 100, 30, 0):
        stage(node, "0", {name: values[:count][::-1] for name, values in ROWS.items()})
        settle(node, "commit", "0")
        assert seen(node) == sorted(zip(ROWS["src"][:count], ROWS["n"][:count], strict=True))


def test_parts_of_one_load_at_two_nodes_do_not_meet(node: Node) -> None:
    """A node that does not answer is stood in for by another, so rows of one key may be staged at two."""
    other = Node(node.cluster, 1)
    for each, first in ((node, 0), (other, 50)):
        stage(each, str(first), {name: values[first : first + 50] for name, values in ROWS.items()})
        settle(each, "commit", str(first))
    assert seen(node) == ALL


def test_many_rows_of_one_key_become_several_objects() -> None:
    rows = from_pydict("t", {"src": ["k"] * 3_000, "n": list(range(3_000))})
    made = list(objects_of(rows, ("src",)))
    assert [number for _, number, _, _ in made] == ["0", "1", "2"] and made[0][2] == OBJECT_ROWS
    noise = random.Random(1)
    wide = from_pydict("t", {"src": ["k"] * 8, "text": [noise.randbytes(50_000).hex() for _ in range(8)]})
    assert [number for _, number, _, _ in objects_of(wide, ("src",))] == ["0aa", "0ab", "0ba", "0bb"]


def test_a_load_is_settled_by_its_own_table_only(node: Node) -> None:
    stage(node, "0", ROWS)
    results: list[Any] = []
    node.service.settle(Settlement("L", "other", "commit", ("0",)), results.append)
    assert isinstance(results[0], Failure)
    settle(node, "commit", "0")
    node.service.settle(Settlement("L", "other", "withdraw"), results.append)
    node.cluster.world.run_for(1.0)
    assert results[1].objects == 0 and seen(node) == ALL


def test_what_nobody_settles_is_let_go(node: Node) -> None:
    stage(node, "0", ROWS)
    node.cluster.world.run_for(61.0)
    figures = node.service.staging.statistics()
    assert (figures.loads, figures.bytes, figures.expired) == (0, 0, 1)


def test_staged_bytes_are_bounded_and_a_task_that_is_given_up_frees_its_rows() -> None:
    cluster = Cluster(1)
    runtime, overlay = cluster.hosts[0].runtime, cluster.nodes[0].overlay
    loads = PublishedLoads(runtime, overlay.publisher, overlay.loads, None)
    staging = Staging(runtime, loads, b"n" * 20, bytes_max=1_500)
    control = Control()
    wanted = Stage("L", "0", 60.0)
    feed = staging.feed(Publication("t", ("src",)), wanted, control)
    feed.batch(pa.record_batch(ROWS), 1_000)
    feed.batch(pa.record_batch(ROWS), 1_000)
    assert isinstance(control.result, Failure) and "staged_bytes_max" in control.result.message
    assert staging.bytes == 0
    gone = staging.feed(Publication("t", ("src",)), wanted, Control())
    gone.batch(pa.record_batch(ROWS), 1_000)
    gone.cancel("the client hung up")
    assert staging.bytes == 0 and staging.statistics().loads == 0


def test_bad_rows_are_refused_where_they_come_in(node: Node) -> None:
    assert "no key column" in stage(node, "0", {"dst": ["a"]}).result.message  # type: ignore[union-attr]


def test_parts_of_the_ring_asked_one_by_one_give_the_answer(node: Node) -> None:
    stage(node, "0", ROWS)
    settle(node, "commit", "0")
    ids = sorted(each.overlay.router.me.id.hex() for each in node.cluster.nodes)
    rows: list[tuple[str, int]] = []
    for start, end in zip(ids, [*ids[1:], ids[0]], strict=True):
        sink = Sink()
        node.service.query(QueryRequest("SELECT src, n FROM t", "sql", part=Slice(start, end)), sink)
        node.cluster.world.run_for(5.0)
        assert sink.account is not None
        rows += [(row["src"], row["n"]) for row in sink.rows]
    assert sorted(rows) == ALL
    for part, text in ((Slice(ids[0], ids[1]), "count(*)"), (Slice("ab", "cd"), "src")):
        sink = Sink()
        node.service.query(QueryRequest(f"SELECT {text} FROM t", "sql", part=part), sink)
        node.cluster.world.run_for(5.0)
        assert sink.failure is not None and sink.failure.kind == "refused"


def test_a_description_tells_columns_and_whether_parts_can_be_asked(node: Node) -> None:
    stage(node, "0", ROWS)
    settle(node, "commit", "0")

    def described(text: str) -> Any:
        results: list[Any] = []
        node.service.describe(QueryRequest(text, "sql"), results.append)
        node.cluster.world.run_for(5.0)
        return results[0]

    plain = described("SELECT * FROM t")
    assert plain.divisible and plain.schema == pa.schema([("src", pa.string()), ("n", pa.int64())])
    counted = described("SELECT src, count(*) AS k FROM t GROUP BY src")
    assert not counted.divisible and counted.schema.names == ["src", "k"]
    assert isinstance(described("SELECT nothing FROM t"), Failure)


def test_marks_of_loads_differ() -> None:
    assert load_mark("a") != load_mark("b") and load_mark("a") == load_mark("a")
