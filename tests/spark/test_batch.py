"""DataFrames into a ring of real nodes and out of it: every type, filters at the nodes, once and only once."""

from __future__ import annotations

import datetime
import decimal
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pier_node.client import sync
from pier_node.config.addresses import split_address
from pyspark_pier import placed
from tests.spark.conftest import Ring

pytestmark = pytest.mark.processes

TYPES = (
    "k STRING, b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, f FLOAT, d DOUBLE, money DECIMAL(12,2), "
    "huge DECIMAL(38,0), text STRING, raw BINARY, day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, "
    "span INTERVAL DAY TO SECOND, list ARRAY<INT>, pair STRUCT<x: INT, y: STRING>, nested ARRAY<STRUCT<z: DOUBLE>>"
)
UTC = datetime.UTC
FULL = (
    "a", True, -128, -32768, -(2**31), 2**63 - 1, 0.5, -1e300, decimal.Decimal("-1234567890.12"),
    decimal.Decimal(10**38 - 1), "Größe\u2028 'x'", bytearray(b"\x00\xff"), datetime.date(1, 1, 1),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime.datetime(2024, 2, 29, 12, 0, 0, 1),
    datetime.timedelta(days=-3, microseconds=7), [1, None, 3], (1, "y"), [(0.25,), None],
)  # fmt: skip
BARE = ("b", *[None] * 18)

#: Rows that an owner took with it are back within this.
BACK_S = 30.0


def options(ring: Ring, table: str, **more: Any) -> dict[str, str]:
    return {
        "nodes": ring.nodes,
        "table": table,
        "key": "k",
        **{name: str(value) for name, value in more.items()},
    }


def write(rows: DataFrame, ring: Ring, table: str, mode: str = "append", **more: Any) -> None:
    rows.write.format("pier").options(**options(ring, table, **more)).mode(mode).save()


def read(spark: SparkSession, ring: Ring, **what: Any) -> DataFrame:
    named = {name: str(value) for name, value in what.items()}
    return spark.read.format("pier").options(nodes=ring.nodes, **named).load()


def count(ring: Ring, table: str) -> int:
    """Rows of a table as the ring itself sees them, none when it knows no such table. A host that was killed is missing
    from the answer, and that is said; what counts here is whether its rows are there."""
    host, port = split_address(ring.directory.running()[0].client_address)
    with sync.connect(host, port) as conn:
        text = f"SELECT count(*) AS n FROM {table}"
        rows = conn.query(text, allow_partial=True, allow_unknown=True).table().to_pylist()
    return int(rows[0]["n"])


def numbers(spark: SparkSession, rows: int, parts: int = 2) -> DataFrame:
    return spark.range(0, rows, 1, parts).selectExpr("concat('k', id % 97) AS k", "id", "id * 0.5D AS half")


def test_every_type_goes_round(spark: SparkSession, ring: Ring) -> None:
    """Nested values come back when the reader is told their types; all others say them themselves."""
    rows = spark.createDataFrame([FULL, BARE, FULL], StructType.fromDDL(TYPES))
    write(rows, ring, "types")
    again = spark.read.format("pier").options(nodes=ring.nodes, dbtable="types").schema(rows.schema).load()
    assert sorted(again.collect(), key=repr) == sorted(rows.collect(), key=repr)
    plain = [field for field in rows.schema.fields if "STRUCT" not in field.dataType.simpleString().upper()]
    names = ", ".join(field.name for field in plain)
    told = read(spark, ring, query=f"SELECT {names} FROM types")
    assert told.schema == StructType(plain)
    assert sorted(told.collect(), key=repr) == sorted(rows.select(*told.columns).collect(), key=repr)


def test_filters_are_tested_by_nodes_and_parts_of_the_ring_are_read_at_once(
    spark: SparkSession, ring: Ring
) -> None:
    write(numbers(spark, 2_000), ring, "filtered")
    assert read(spark, ring, dbtable="filtered", numPartitions="99").rdd.getNumPartitions() == ring.count
    rows = read(spark, ring, dbtable="filtered")
    assert rows.rdd.getNumPartitions() == ring.count // 2
    for condition, pushed in (
        ("k = 'k5' AND id > 1000", True),
        ("id IN (3, 4, 5000) AND half IS NOT NULL", True),
        ("k LIKE 'k9%' AND NOT id = 7 AND half <= 400.5", True),
        ("id % 2 = 1 AND k = 'k5'", False),
    ):
        got = rows.where(condition)
        plan = got._jdf.queryExecution().executedPlan().toString()
        assert ("Filter" not in plan.replace("RuntimeFilters", "")) == pushed, plan
        wanted = numbers(spark, 2_000).where(condition)
        assert sorted(got.collect()) == sorted(wanted.collect()) != []
    grouped = read(spark, ring, query="SELECT k, count(*) AS n FROM filtered GROUP BY k")
    assert grouped.rdd.getNumPartitions() == 1, "rows of a group meet between nodes: the whole ring is asked"
    assert grouped.where("n = 21").count() == 60


def failing_once(marker: Path) -> Any:
    """Passes rows on; the first attempt at the second part breaks after some of them."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.partitionId() == 1 and not marker.exists():
            marker.touch()
            raise RuntimeError("broken on purpose")

    return run


def test_a_task_that_is_tried_again_adds_nothing(spark: SparkSession, ring: Ring, tmp_path: Path) -> None:
    rows = numbers(spark, 30_000)
    marker = tmp_path / "failed"
    write(rows.mapInArrow(failing_once(marker), rows.schema), ring, "retried")
    assert marker.exists() and count(ring, "retried") == 30_000


def test_a_job_that_fails_leaves_nothing_behind(spark: SparkSession, ring: Ring) -> None:
    rows = numbers(spark, 30_000)

    def broken(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        raise RuntimeError("broken on purpose")

    with pytest.raises(PySparkException):
        write(rows.mapInArrow(broken, rows.schema), ring, "broken")
    assert count(ring, "broken") == 0
    for state in ring.directory.running():
        host, port = split_address(state.client_address)
        with sync.connect(host, port) as conn:
            assert conn.status().figures["staging.bytes"] == 0


def test_overwriting_and_repeating_a_load_replace_rows(spark: SparkSession, ring: Ring) -> None:
    write(numbers(spark, 1_000), ring, "replaced")
    write(numbers(spark, 500), ring, "replaced", mode="overwrite")
    assert count(ring, "replaced") == 500
    for parts in (2, 1):
        # The same rows, divided differently: what a job that was started twice does.
        write(numbers(spark, 700, parts), ring, "repeated", loadId="monday")
        assert count(ring, "repeated") == 700
    by_ring = placed(numbers(spark, 800), "placed", ["k"], 3)
    assert by_ring.rdd.getNumPartitions() == 3
    write(by_ring, ring, "placed")
    assert count(ring, "placed") == 800


def test_a_node_that_dies_during_a_feed_costs_a_retry_and_no_row(
    spark: SparkSession, ring: Ring, tmp_path: Path
) -> None:
    rows = numbers(spark, 60_000)
    marker, victim = tmp_path / "killed", ring.directory.running()[-1].pid

    def killing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for number, batch in enumerate(batches):
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() == 1 and number == 2 and not marker.exists():
                marker.touch()
                os.kill(victim, signal.SIGKILL)
            yield batch

    nodes = ring.nodes
    try:
        killed = rows.mapInArrow(killing, rows.schema)
        killed.write.format("pier").options(nodes=nodes, table="survived", key="k").mode("append").save()
        assert marker.exists()
        # The arc of the one that died is looked after by then; until it is, answers say that rows may be missing.
        deadline_s = time.monotonic() + BACK_S
        while (there := count(ring, "survived")) < 60_000 and time.monotonic() < deadline_s:
            time.sleep(0.2)
        assert there == 60_000
    finally:
        ring.start()


def test_what_cannot_be_done_is_said_in_our_words(spark: SparkSession, ring: Ring) -> None:
    rows = numbers(spark, 10)
    for act, words in (
        (lambda: write(rows, ring, "t", key="nothing"), "there is no column 'nothing'"),
        (lambda: write(rows.selectExpr("k", "map(k, id) AS m"), ring, "t"), "nodes carry no maps"),
        (
            lambda: rows.write.format("pier").options(nodes=ring.nodes, key="k").mode("append").save(),
            "option table",
        ),
        (lambda: read(spark, ring, query="SELECT FROM"), "the query is refused"),
        (lambda: read(spark, ring), "option query or option dbtable"),
        (lambda: read(spark, ring, dbtable="t", colour="red"), "unknown option 'colour'"),
        (
            lambda: spark.read.format("pier").options(nodes="127.0.0.1:1", dbtable="t").load(),
            "no node answers",
        ),
    ):
        with pytest.raises(PySparkException) as caught:
            act()
        assert words in str(caught.value)
