"""The queries of `ufl/examples`, each run on real nodes against tables made for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trio

import ufl
from pier_node.client import AnswerIncomplete, sync
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.config.addresses import split_address

pytestmark = pytest.mark.processes

EXAMPLES = Path(ufl.__file__).parent / "examples"
COUNT = 4
#: Published tables: rows and the column that is their key.
PUBLISHED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "fw": (
        "src",
        [
            {"src": "a", "action": "BLOCK", "dpt": 22, "length": 60},
            {"src": "a", "action": "BLOCK", "dpt": 80, "length": 1500},
            {"src": "b", "action": "BLOCK", "dpt": 3389, "length": 1500},
            {"src": "c", "action": "ALLOW", "dpt": 443, "length": 99},
            {"src": "d", "action": "ALLOW", "dpt": 443, "length": 99},
            {"src": "e", "action": "ALLOW", "dpt": 443, "length": 99},
        ],
    ),
    "links": ("from", [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]),
    "flows": ("src", [{"src": "a", "dst": "1"}, {"src": "b", "dst": "2"}, {"src": "c", "dst": "9"}]),
    "owners": ("address", [{"address": "1", "owner": "alice"}, {"address": "2", "owner": "bob"}]),
}
#: Files of every node.
FILES = {
    "connections.csv": "src,dpt\n10.0.0.1,22\n10.0.0.2,8080\n192.168.0.1,22\n",
    "samples.csv": "host,bytes\nx,10\ny,20\n",
}
#: What each query answers: rows as tuples in the order of the columns.
ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "top_sources": [("a", 2), ("b", 1)],
    "distinct": [(22,), (80,), (443,), (3389,)],
    "tee_union": [
        ("a", "BLOCK", 22, 60),
        ("a", "BLOCK", 80, 1500),
        ("b", "BLOCK", 3389, 1500),
        ("b", "BLOCK", 3389, 1500),
    ],
    "rehash_join": [("a", "1", "1", "alice"), ("b", "2", "2", "bob")],
    "reachable": [("a", "b"), ("a", "c"), ("b", "c")],
    "csv_filter": [("10.0.0.1", 22)] * COUNT,
    "projection": [("x", 80), ("y", 160)] * COUNT,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterDir]:
    directory = ClusterDir(tmp_path_factory.mktemp("examples"))
    started = []

    async def start() -> None:
        nodes = processes.prepare(directory, COUNT)
        for node in nodes:
            (node.data.path / "files").mkdir()
            for name, text in FILES.items():
                (node.data.path / "files" / name).write_text(text)
        started.extend(processes.start_missing(nodes))
        await processes.wait_formed(directory, nodes, started)

    try:
        trio.run(start)
        with sync.connect(*split_address(directory.running()[0].client_address)) as conn:
            for table, (key, rows) in PUBLISHED.items():
                conn.publish(table, pa.Table.from_pylist(rows).to_batches(), [key])
        yield directory
    finally:
        trio.run(processes.stop, directory)
        for process in started:
            process.wait()


def test_there_is_an_answer_for_every_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.ufl")} == set(ANSWERS)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_example_gives_its_answer(name: str, cluster: ClusterDir) -> None:
    text = (EXAMPLES / f"{name}.ufl").read_text()
    with sync.connect(*split_address(cluster.running()[1].client_address)) as conn:
        answer = conn.query(text, "ufl")
        rows = [tuple(row.values()) for batch in answer for row in batch.to_pylist()]
    assert answer.account is not None
    assert (answer.account.ended, answer.account.notes, answer.account.dropped) == ("complete", (), {})
    assert sorted(rows) == sorted(ANSWERS[name])


def test_queries_read_no_other_files(cluster: ClusterDir) -> None:
    """Least of all the secret that makes a node the node it is."""
    for path in ("../node.secret", "/etc/passwd", "node.secret"):
        text = (EXAMPLES / "projection.ufl").read_text().replace("samples.csv", path)
        with sync.connect(*split_address(cluster.running()[0].client_address)) as conn:
            answer = conn.query(text, "ufl")
            with pytest.raises(AnswerIncomplete):
                assert list(answer) == []
        assert answer.account is not None and answer.account.failed == COUNT
