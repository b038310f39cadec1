"""Publications on a simulated ring: whole or not there, truly counted, given back, kept over restarts, ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject
from overlay.dht.verbs import Dht
from overlay.objects.name import Name
from overlay.objects.store import StoreLimits
from pier_node.engine.cutting import objects_of
from pier_node.engine.service import QueryService
from pier_node.load_files import LOAD, PART, LoadFiles
from pier_node.service import Failure, Publication, PublicationResult
from query.batch import from_arrow
from query.dataflow.budget import Limits
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node

ROWS = 3_000


class Control:
    def __init__(self) -> None:
        self.result: PublicationResult | Failure | None = None
        self.consumed_bytes = 0
        self.steps: list[tuple[int, int, int]] = []

    def consumed(self, size_bytes: int) -> None:
        self.consumed_bytes += size_bytes

    def progress(self, objects: int, confirmed: int, rows_confirmed: int, elapsed_s: float) -> None:
        self.steps.append((objects, confirmed, rows_confirmed))

    def finish(self, result: PublicationResult) -> None:
        assert self.result is None
        self.result = result

    def fail(self, failure: Failure) -> None:
        assert self.result is None
        self.result = failure


def feed(
    node: Node, rows: dict[str, Any], *keys: str, owner: str = "", end: bool = True
) -> tuple[Any, Control]:
    control = Control()
    publication = Publication("t", keys or ("k",), 600.0, owner=owner)
    publishing = node.service.publish(publication, control)
    publishing.batch(pa.record_batch(rows), 1_000)
    if end:
        publishing.end()
    return publishing, control


def until(node: Node, true: Callable[[], bool], within_s: float = 200.0) -> None:
    end_s = node.cluster.world.now + within_s
    while not true() and node.cluster.world.now < end_s:
        node.cluster.world.run_for(0.05)
    assert true()


def count(node: Node) -> int:
    sink = node.ask("SELECT count(*) AS n FROM t")
    return int(sink.rows[0]["n"]) if sink.rows else 0


def some(number: int = ROWS) -> dict[str, Any]:
    return {"k": list(range(number)), "v": [f"value {n}" for n in range(number)]}


@pytest.fixture
def node() -> Node:
    return Node(Cluster(5, seed=7), 1)


def restarted(node: Node, folder: Path, may: Callable[[str, str], bool] | None = None) -> Node:
    """The same node with its files: what a process finds when it is started again."""
    again = Node(node.cluster, node.number)
    runtime, engine = node.cluster.hosts[node.number].runtime, node.cluster.nodes[node.number]
    again.service = QueryService(runtime, engine, Limits(), journal=LoadFiles(runtime, folder))
    again.service.published.restore(may or (lambda owner, table: True), lambda: True)
    return again


def forgets(node: Node) -> None:
    """A process that stops: nobody renews what it published."""
    publisher = node.cluster.nodes[node.number].overlay.publisher
    publisher.forget([name for name in publisher.names() if name.namespace == "t"])


def test_rows_are_seen_all_at_once_and_counted_as_they_are(node: Node) -> None:
    _, control = feed(node, some())
    asker, counts = Node(node.cluster, 3), set()
    while control.result is None:
        counts.add(count(asker))
    assert counts <= {0, ROWS}
    assert control.result == PublicationResult(ROWS, ROWS)
    sink = asker.ask("SELECT count(*) AS n FROM t")
    assert sink.rows == [{"n": ROWS}] and sink.account is not None and sink.account.ended == "complete"


def test_rows_that_are_there_twice_count_twice_and_again_published_do_not_double(node: Node) -> None:
    rows = {"k": [1, 1, 2], "v": ["a", "a", "b"]}
    for _ in range(2):
        publishing, control = feed(node, rows, end=False)
        publishing.batch(pa.record_batch(rows), 1_000)
        publishing.end()
        until(node, lambda control=control: control.result is not None)  # type: ignore[misc]
        assert count(node) == 6


def test_a_client_that_dies_half_way_leaves_nothing(node: Node) -> None:
    publishing, control = feed(node, some(), end=False)
    node.cluster.world.run_for(5.0)
    publishing.cancel("the client hung up")
    node.cluster.world.run_for(30.0)
    assert control.result is None and count(node) == 0
    publisher = node.cluster.nodes[1].overlay.publisher
    assert [name for name in publisher.names() if name.namespace == "t"] == []
    for each in node.cluster.nodes:
        assert each.overlay.dht.keys_under("t") == 0


class Deaf:
    """A ring whose owners of some keys do not answer for a while, longer than any request tries."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.deaf = True
        self.world = node.cluster.world
        put_many = Dht.put_many

        def answered(dht: Dht, puts: Any, done: Any = None, each: Any = None) -> None:
            heard = [put for put in puts if not self.deaf or put.name.key[-1] in "02468"]

            def stored(codes: list[Code]) -> None:
                told = dict(zip((put.name for put in heard), codes, strict=True))
                codes = [told.get(put.name, Code.UNREACHED) for put in puts]
                for number, code in enumerate(codes if each is not None else ()):
                    each(number, code)
                if done is not None:
                    done(codes)

            put_many(dht, heard, stored)

        monkeypatch.setattr(Dht, "put_many", answered)


def test_what_is_slow_to_be_confirmed_is_waited_for_and_told(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Deaf(node, monkeypatch)
    _, control = feed(node, some(300))
    node.cluster.world.run_for(30.0)
    assert control.result is None, "neither refused nor called done"
    assert control.steps[-1] == (300, 150, 150)
    assert count(node) == 0
    ring.deaf = False
    until(node, lambda: control.result is not None)
    assert control.result == PublicationResult(300, 300)
    assert count(node) == 300


def test_a_client_may_take_its_time_and_a_load_may_take_longer_than_rows_live(node: Node) -> None:
    publishing, control = feed(node, some(200), end=False)
    node.cluster.world.run_for(1_500.0)
    assert count(node) == 0 and control.result is None
    publishing.batch(pa.record_batch({"k": [500], "v": ["last"]}), 10)
    publishing.end()
    began = node.cluster.world.now
    until(node, lambda: control.result is not None)
    assert control.result == PublicationResult(201, 201) and count(node) == 201
    assert node.cluster.world.now - began < 20.0, "shown by two words, not one by one"


def test_a_load_that_nobody_confirms_is_given_up_whole(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    ring = Deaf(node, monkeypatch)
    _, control = feed(node, some(300))
    until(node, lambda: control.result is not None)
    assert isinstance(control.result, Failure) and control.result.kind == "unavailable"
    assert "nothing was published: 150 of 300 rows" in control.result.message
    ring.deaf = False
    node.cluster.world.run_for(60.0)
    assert count(node) == 0
    assert all(each.overlay.dht.keys_under("t") == 0 for each in node.cluster.nodes)


def test_one_row_that_is_refused_is_named_and_takes_the_load_with_it() -> None:
    node = Node(Cluster(4, seed=7), 1)
    rows = some(300)
    rows["v"][17] = "x" * (StoreLimits().value_bytes_max + 1)
    _, control = feed(node, rows)
    until(node, lambda: control.result is not None)
    assert isinstance(control.result, Failure)
    assert "TOO_LARGE" in control.result.message and "'17'" in control.result.message
    node.cluster.world.run_for(5.0)
    assert count(node) == 0


@pytest.mark.parametrize(
    ("rows", "keys"),
    [
        ({"k": pa.array([b"\xff\xfe", b"ab"])}, ("k",)),
        ({"k": ["x" * 3_000, "x" * 3_001]}, ("k",)),
        ({"k": pa.array([1.5, None])}, ("k",)),
        ({"k": [1, 2], "l": ["a" * 600, None]}, ("k", "l")),
        ({"k": pa.array([], pa.int64())}, ("k",)),
        ({"k": [1, 2], "d": pa.array([pa.MonthDayNano([1, 2, 3])] * 2)}, ("k",)),
    ],
)
def test_keys_of_any_kind_and_no_rows_at_all(node: Node, rows: dict[str, Any], keys: tuple[str, ...]) -> None:
    _, control = feed(node, rows, *keys)
    until(node, lambda: control.result is not None)
    wanted = len(rows["k"])
    assert control.result == PublicationResult(wanted, wanted)
    assert count(node) == wanted


def test_columns_that_cannot_place_rows_and_texts_that_are_none_are_told(node: Node) -> None:
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 2], pa.int32()).buffers()[1], pa.py_buffer(b"\xff\xfe")]
    )
    interval = pa.array([pa.MonthDayNano([1, 2, 3])])
    for rows, word in (
        ({"k": bad}, "UTF8"),
        ({"k": interval}, "interval"),
        ({"k": [[1]]}, "'k'"),
        ({"l": [1]}, "no key column"),
    ):
        _, control = feed(node, rows)
        assert isinstance(control.result, Failure) and word in control.result.message
    control = Control()
    node.service.publish(Publication("t" * 257, ("k",)), control)
    assert isinstance(control.result, Failure) and "256 characters" in control.result.message


def test_published_rows_are_kept_over_a_restart_of_their_node(node: Node, tmp_path: Path) -> None:
    node = restarted(node, tmp_path)
    _, control = feed(node, some(400), owner="robot")
    until(node, lambda: control.result is not None)
    half, _ = feed(node, {"k": list(range(900, 1_000))}, end=False)
    node.cluster.world.run_for(2.0)
    assert [path.suffix for path in sorted(tmp_path.iterdir(), key=lambda path: path.suffix)] == [LOAD, PART]
    forgets(node)
    again = restarted(node, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [LOAD], "what was half there is of no use"
    news: list[Any] = []
    node.cluster.world.run_for(900.0)
    assert count(again) == 400 and not news
    assert again.service.published.statistics().restored == 1
    # A longer absence: everything has faded, and comes back together.
    forgets(again)
    node.cluster.world.run_for(1_300.0)
    assert count(node) == 0
    counts = set()
    third = restarted(node, tmp_path)
    for _ in range(5):
        counts.add(count(third))
    assert counts <= {0, 400} and count(third) == 400
    half.cancel("the end")


def test_a_table_or_keys_of_it_are_unpublished_everywhere_and_stay_so(node: Node, tmp_path: Path) -> None:
    node = restarted(node, tmp_path)
    other = Node(node.cluster, 4)
    for each, rows in ((node, some(200)), (other, {"k": [7, 500], "v": ["seven", "more"]})):
        _, control = feed(each, rows)
        until(node, lambda control=control: control.result is not None)  # type: ignore[misc]
    results: list[Any] = []
    Node(node.cluster, 2).service.unpublish("t", ("7", "8"), results.append)
    until(node, lambda: len(results) == 1)
    assert results[0].objects == 3 and not results[0].dropped
    assert count(node) == 199
    forgets(node)
    node = restarted(node, tmp_path)
    node.cluster.world.run_for(700.0)
    assert count(node) == 199, "keys that were ended are not brought back"
    other.service.unpublish("t", (), results.append)
    until(node, lambda: len(results) == 2)
    assert results[1].objects == 199
    assert list(tmp_path.iterdir()) == []
    node.cluster.world.run_for(700.0)
    assert count(node) == 0
    assert not [each for each in node.tables() if each == "t"], "the dictionary forgets it, too"


def test_rows_of_a_revoked_token_go_and_are_not_brought_back(node: Node, tmp_path: Path) -> None:
    node = restarted(node, tmp_path)
    for owner, start in (("mallory", 0), ("alice", 1_000), ("", 2_000)):
        rows = {"k": list(range(start, start + 100)), "v": ["x"] * 100}
        _, control = feed(node, rows, owner=owner)
        until(node, lambda control=control: control.result is not None)  # type: ignore[misc]
    assert count(node) == 300
    sending, control = feed(node, {"k": [1], "v": ["late"]}, owner="mallory", end=False)
    node.service.allow(lambda owner, table: owner != "mallory")
    node.cluster.world.run_for(5.0)
    assert count(node) == 200
    sending.end()
    node.cluster.world.run_for(5.0)
    assert count(node) == 200
    forgets(node)
    again = restarted(node, tmp_path, lambda owner, table: owner not in ("mallory", "alice"))
    node.cluster.world.run_for(700.0)
    assert count(again) == 100
    assert len(list(tmp_path.glob(f"*{LOAD}"))) == 1


def test_files_that_cannot_be_read_are_counted_and_the_others_brought_back(
    node: Node, tmp_path: Path
) -> None:
    node = restarted(node, tmp_path)
    for start in (0, 100):
        _, control = feed(node, {"k": list(range(start, start + 50)), "v": ["x"] * 50})
        until(node, lambda control=control: control.result is not None)  # type: ignore[misc]
    first, _ = sorted(tmp_path.glob(f"*{LOAD}"))
    first.write_bytes(first.read_bytes()[:3])
    (tmp_path / f"nonsense{LOAD}").write_bytes(b"\0\0\0\2ab")
    forgets(node)
    node.cluster.world.run_for(1_300.0)
    again = restarted(node, tmp_path)
    node.cluster.world.run_for(30.0)
    figures = again.service.published.statistics()
    assert (figures.restored, figures.unreadable, figures.loads) == (1, 2, 1)
    assert count(again) == 50


def test_a_disk_that_is_full_fails_the_load_and_not_the_node(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = restarted(node, tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pier_node.load_files.os.fsync", full)
    _, control = feed(node, some(100))
    until(node, lambda: control.result is not None)
    assert isinstance(control.result, Failure) and "No space left" in control.result.message
    node.cluster.world.run_for(5.0)
    assert count(node) == 0 and list(tmp_path.iterdir()) == []


def test_a_query_that_reads_while_a_load_comes_into_sight_says_so(node: Node) -> None:
    """Some nodes show the load already, others have only heard that it is about to be shown."""
    _, control = feed(node, {"k": [-1], "v": ["before"]})
    until(node, lambda: control.result is not None)
    overlays = [each.overlay for each in node.cluster.nodes]
    cuts = objects_of(from_arrow("t", pa.record_batch(some(300))), ("k",))
    puts = [PutObject(Name("t", cut.key, "s"), cut.value, 600.0, load="L") for cut in cuts]
    codes: list[Code] = []
    overlays[0].publisher.publish(puts, codes.extend)
    until(node, lambda: len(codes) == 300)

    def asked() -> tuple[int, str]:
        sink = node.ask("SELECT k FROM t")
        assert sink.account is not None
        assert ("came into sight" in str(sink.account.notes)) == (sink.account.ended == "partial")
        return len(sink.rows), sink.account.ended

    assert asked() == (1, "complete"), "what is hidden is not there, and nobody misses it"
    for each in overlays:
        each.dht.turn_load("t", "L")
    assert asked() == (1, "partial")
    shown = sum(each.dht.show_load("t", "L") for each in overlays[:3])
    assert asked() == (1 + shown, "partial") and 0 < shown < 300
    for each in overlays[3:]:
        each.dht.show_load("t", "L")
    assert asked() == (301, "complete")
