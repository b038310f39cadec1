"""Two million rows joined with two hundred thousand, over four real nodes, against Spark local[2] and DuckDB.

    python bench/join.py [--left N] [--right N] [--nodes N] [--rounds N] [--warm N] [--hint STRATEGY]

Nodes are processes on this machine that read their own Parquet files, a quarter of each table each. Spark has the same
tables cached in memory before the clock starts; DuckDB reads all files. Both are asked some times before it does, so
that Java has compiled what it will. Rounds take turns; figures are medians, the
ratio is the median of ratios within a round. The time is that of a client, from the question to the last row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pier_node.client.sync import Connection, connect
from pier_node.cluster.directory import ClusterDir

QUERY = """SELECT {hint} r.name AS name, count(*) AS n, sum(l.v) AS total
FROM l JOIN r ON l.k = r.k GROUP BY r.name ORDER BY n DESC, name LIMIT 20"""
GROUPS = 1_000
COMMAND = [sys.executable, "-m", "cli.main"]
#: No slower than Spark.
TARGET = 1.0


def write_tables(folder: Path, left: int, right: int, nodes: int) -> None:
    rng = np.random.default_rng(1)
    names = pa.array([f"service-{number}" for number in range(GROUPS)])
    tables = {
        "l": pa.table({"k": rng.integers(0, right, left), "v": rng.integers(0, 1_000, left)}),
        "r": pa.table(
            {"k": rng.permutation(right), "name": names.take(pa.array(rng.integers(0, GROUPS, right)))}
        ),
    }
    for name, table in tables.items():
        (folder / name).mkdir()
        size = -(-table.num_rows // nodes)
        for number in range(nodes):
            part = table.slice(number * size, size)
            pq.write_table(part, folder / name / f"n{number + 1:02d}.parquet", row_group_size=131_072)


class Ring:
    """A cluster of processes with a part of both tables each."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder = folder / "cluster"
        sources = [
            word for name in "lr" for word in ("--source", f"{name}=parquet:{folder}/{name}/{{name}}.parquet")
        ]
        start = [*COMMAND, "cluster", "start", "-n", str(nodes), "--dir", str(self._folder), *sources]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        host, _, port = ClusterDir(self._folder).running()[0].client_address.rpartition(":")
        self.address = (host, int(port))

    def stop(self) -> None:
        stop = [*COMMAND, "cluster", "stop", "--dir", str(self._folder)]
        subprocess.run(stop, check=False, stderr=subprocess.DEVNULL)


Rows = list[tuple[Any, ...]]


def ours(conn: Connection, text: str) -> tuple[float, Rows]:
    begun_s = time.perf_counter()
    answer = conn.query(text)
    rows = [tuple(row.values()) for batch in answer for row in batch.to_pylist()]
    took_s = time.perf_counter() - begun_s
    assert answer.account is not None
    assert answer.account.ended == "complete", answer.account
    assert not answer.account.dropped, answer.account
    return took_s, rows


def duck(folder: Path, text: str) -> tuple[float, Rows]:
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for name in "lr":
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{folder}/{name}/*.parquet')")
    begun_s = time.perf_counter()
    rows = connection.execute(text).fetchall()
    return time.perf_counter() - begun_s, rows


class Spark:
    """Spark on two cores, with both tables in memory."""

    def __init__(self, folder: Path) -> None:
        from pyspark.sql import SparkSession

        self._spark = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.driver.memory", "3g")
            .getOrCreate()
        )
        self._spark.sparkContext.setLogLevel("ERROR")
        for name in "lr":
            table = self._spark.read.parquet(str(folder / name)).cache()
            table.count()
            table.createOrReplaceTempView(name)

    def __call__(self, text: str) -> tuple[float, Rows]:
        begun_s = time.perf_counter()
        rows = [tuple(row) for row in self._spark.sql(text).collect()]
        return time.perf_counter() - begun_s, rows

    def stop(self) -> None:
        self._spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--left", type=int, default=2_000_000)
    parser.add_argument("--right", type=int, default=200_000)
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm", type=int, default=10, help="rounds before the clock starts")
    parser.add_argument("--hint", default="", help="a strategy; the planner's choice when absent")
    parser.add_argument("--without-spark", action="store_true")
    args = parser.parse_args()
    asked = QUERY.format(hint=f"/*+ JOIN({args.hint}) */" if args.hint else "")
    plain = QUERY.format(hint="")
    times: dict[str, list[float]] = {"ours": [], "Spark": [], "DuckDB": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tables(folder, args.left, args.right, args.nodes)
        spark = None if args.without_spark else Spark(folder)
        ring = Ring(folder, args.nodes)
        try:
            with connect(*ring.address) as conn:
                for _ in range(args.warm):
                    ours(conn, asked)
                    if spark is not None:
                        spark(plain)
                for _ in range(args.rounds):
                    took_s, rows = ours(conn, asked)
                    times["ours"].append(took_s)
                    duck_s, expected = duck(folder, plain)
                    times["DuckDB"].append(duck_s)
                    assert rows == expected, (rows[:3], expected[:3])
                    if spark is not None:
                        spark_s, theirs = spark(plain)
                        times["Spark"].append(spark_s)
                        assert theirs == expected, (theirs[:3], expected[:3])
        finally:
            ring.stop()
            if spark is not None:
                spark.stop()
    for who, taken in times.items():
        if taken:
            print(f"{who:8} {statistics.median(taken) * 1e3:9.1f} ms   {[round(each, 2) for each in taken]}")
    if times["Spark"]:
        ratio = statistics.median(a / b for a, b in zip(times["ours"], times["Spark"], strict=True))
        result = {
            "name": f"join of {args.left} and {args.right} rows over {args.nodes} nodes, time over Spark's",
            "ours": round(statistics.median(times["ours"]), 4),
            "peer": round(statistics.median(times["Spark"]), 4),
            "peer_name": "Spark local[2], tables cached",
            "ratio": round(ratio, 2),
            "target": TARGET,
            "holds": ratio <= TARGET,
        }
        print(json.dumps(result))


if __name__ == "__main__":
    main()
