"""Streams in both directions, restarted from their checkpoints, on a ring that follows a log."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pier_node.logs import generate
from tests.spark.conftest import Ring
from tests.spark.test_batch import count

pytestmark = pytest.mark.processes

EVENTS = "SELECT ts, src, dpt FROM fw EVERY '1 second'"
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def following(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ring, Path]]:
    """One node that follows a log."""
    folder = tmp_path_factory.mktemp("following")
    log = folder / "fw.log"
    log.write_bytes(events(5, 1))
    ring = Ring(folder / "ring", 1, f"fw=firewall:{log}")
    ring.start()
    try:
        yield ring, log
    finally:
        ring.stop()


def events(number: int, seed: int) -> bytes:
    return generate("iptables", seed=seed, start_us=int(time.time()) * 1_000_000, count=number, hosts=1)


def until(true: Callable[[], bool], query: Any) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline_s, "the stream does not come along"
        if query.exception() is not None:
            raise AssertionError(query.exception())
        time.sleep(0.05)


def begun(start: Callable[[], Any]) -> Any:
    """A stream that has looked at its source once. Spark gives the Python process of a stream ten seconds to come up,
    whatever the machine is doing; a stream that ended by that is started again."""
    for _ in range(3):
        query = start()
        while query.exception() is None:
            if query.recentProgress and query.lastProgress["sources"][0]["endOffset"]:
                return query
            time.sleep(0.05)
        if "failed to connect back" not in str(query.exception()):
            break
    raise AssertionError(query.exception())


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


def test_a_continuous_query_is_a_stream_that_restarts_where_it_stopped(
    spark: SparkSession, following: tuple[Ring, Path], tmp_path: Path
) -> None:
    ring, log = following
    seen: list[tuple[int, str]] = []

    def started() -> Any:
        source = (
            spark.readStream.format("pier")
            .options(nodes=ring.nodes, query=EVENTS, maxRowsPerTrigger="40")
            .schema("ts TIMESTAMP, src STRING, dpt INT, _epoch BIGINT")
            .load()
        )

        def keep(rows: DataFrame, batch: int) -> None:
            seen.extend((batch, str(row)) for row in rows.collect())

        return (
            source.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "cp")).start()
        )

    def committed() -> bool:
        return (tmp_path / "cp" / "commits" / str(max(batch for batch, _ in seen))).exists()

    query = begun(started)
    append(log, events(100, 2))
    until(lambda: len(seen) == 100 and committed(), query)
    assert max(sum(number == batch for number, _ in seen) for batch, _ in seen) <= 40
    query.stop()
    assert all("_epoch=None" not in row for _, row in seen)
    append(log, events(60, 3))
    query = begun(started)
    until(lambda: len(seen) == 160 and committed(), query)
    query.stop()
    # The last batch is played again when its commit was not written down: the same rows under the same number.
    last = max(batch for batch, _ in seen)
    before = [row for batch, row in seen if batch == last]
    (tmp_path / "cp" / "commits" / str(last)).unlink()
    for side in (tmp_path / "cp" / "commits").glob(f".{last}.crc"):
        side.unlink()
    del seen[:]
    query = begun(started)
    until(lambda: len(seen) >= len(before), query)
    query.stop()
    assert [row for batch, row in seen if batch == last] == before


def test_a_stream_into_the_ring_that_is_played_again_adds_nothing(
    spark: SparkSession, ring: Ring, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text(
        "".join(json.dumps({"k": f"k{n % 7}", "n": n}) + "\n" for n in range(300))
    )

    def run() -> None:
        source = spark.readStream.schema("k STRING, n BIGINT").json(str(tmp_path / "in"))
        stream = (
            source.writeStream.format("pier")
            .options(nodes=ring.nodes, table="streamed", key="k")
            .option("checkpointLocation", str(tmp_path / "cp"))
            .trigger(availableNow=True)
            .start()
        )
        assert stream.awaitTermination(PATIENCE_S), stream.status

    run()
    assert count(ring, "streamed") == 300
    for side in ("0", ".0.crc"):
        (tmp_path / "cp" / "commits" / side).unlink(missing_ok=True)
    run()
    assert count(ring, "streamed") == 300
    (tmp_path / "in" / "2.json").write_text('{"k": "late", "n": 1}\n')
    run()
    assert count(ring, "streamed") == 301
