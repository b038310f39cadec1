"""Joins over real processes: every strategy gives DuckDB's answer, an index is made and used."""

from __future__ import annotations

import random
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import trio

from pier_node.client import sync
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.config.addresses import split_address
from tests.sql.test_join_strategies import KINDS, rows, select

pytestmark = pytest.mark.processes
PATIENCE_S = 60.0


def answer(conn: sync.Connection, text: str) -> list[tuple[object, ...]]:
    asked = conn.query(text)
    found = [tuple(row.values()) for batch in asked for row in _renamed(batch).to_pylist()]
    assert asked.account is not None
    assert (asked.account.ended, asked.account.dropped, asked.account.notes) == ("complete", {}, ()), text
    return sorted(found, key=repr)


def _renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Two columns may have one name; dictionaries may not."""
    return batch.rename_columns([f"{number}" for number in range(batch.num_columns)])


@pytest.mark.parametrize("count", [1, 4, 16])
def test_every_strategy_and_an_index_on_real_nodes(tmp_path: Path, count: int) -> None:
    rng = random.Random(7)
    duck = duckdb.connect()
    for name in "rs":
        table = rows(rng, 400, name)
        duck.register(name, table)
        (tmp_path / name).mkdir()
        size = table.num_rows // count
        for number in range(count):
            part = table.slice(number * size, size)
            parquet.write_table(part, tmp_path / name / f"n{number + 1:02d}.parquet")
    published = rows(rng, 300, "p")
    duck.register("p", published)
    directory = ClusterDir(tmp_path / "cluster")
    sources = [f"{name}=parquet:{tmp_path}/{name}/{{name}}.parquet" for name in "rs"]
    nodes = processes.prepare(directory, count, sources)
    started = processes.start_missing(nodes)
    try:
        trio.run(processes.wait_formed, directory, nodes, started)
        address = split_address(directory.running()[-1].client_address)
        with sync.connect(*address) as conn:
            conn.publish("p", published.to_batches(), ["k"])
            for strategy, kinds in KINDS.items():
                inner = "p" if strategy == "fetch" else "s"
                for kind in (kinds[0], kinds[-1]):
                    text = select(kind, strategy, inner)
                    expected = sorted(duck.execute(text).fetchall(), key=repr)
                    assert answer(conn, text) == expected, text
            if count == 4:
                _index(conn, duck)
    finally:
        trio.run(processes.stop, directory)
        for process in started:
            process.wait()


def _index(conn: sync.Connection, duck: duckdb.DuckDBPyConnection) -> None:
    answer(conn, "CREATE INDEX by_p ON p (p) USING pht")
    text = "SELECT p, n FROM p WHERE p BETWEEN 50 AND 80"
    expected = sorted(duck.execute(text).fetchall(), key=repr)
    until_s = time.monotonic() + PATIENCE_S
    while "by_p" not in conn.explain(text) or answer(conn, text) != expected:
        assert time.monotonic() < until_s, "the index did not come"
