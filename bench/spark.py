"""Rows a second that Spark feeds into a ring of eight nodes and collects from it, on local[2], beside the same
DataFrame written to and read from Parquet and, through JDBC, Derby (which comes with Spark), all in the same run.
The DataFrame is cached before anything is timed. Feeding ends when every node has published its part; collecting reads
every column of every row. Rounds interleave, figures are medians. The nodes share the machine's cores with Spark.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import trio

from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.logs import Workload, generate_events
from pyspark_pier.session import pier_session

NODES = 8
ROWS = 500_000
ROUNDS = 5
#: Rounds before anything is timed: Java goes on compiling for about twenty seconds of work.
WARM_UPS = 3
START_US = 1_741_000_000_000_000
FED_PARQUET_TARGET, FED_JDBC_TARGET, COLLECTED_JDBC_TARGET = 0.3, 2.0, 1.0
#: Derby's own choice for texts are CLOBs, which are slower: it gets what a table of this kind would have.
TEXTS = ", ".join(
    f"{name} VARCHAR(64)"
    for name in ("host", "action", "direction", "iface", "proto", "src", "dst", "rule", "raw_format")
)


def make_rows(folder: Path, rows: int) -> str:
    path = folder / "given.parquet"
    workload = Workload(seed=1, start_us=START_US, count=rows)
    parquet.write_table(pa.Table.from_batches(list(generate_events(workload))), path)
    return str(path)


def timed(act: Callable[[], Any]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


def contenders(spark: Any, rows: Any, nodes: str, folder: Path) -> dict[str, Callable[[int], Any]]:
    """What is timed, by name; each gets the number of its round."""
    derby = f"jdbc:derby:{folder}/derby;create=true"
    jdbc = {"url": derby, "driver": "org.apache.derby.jdbc.EmbeddedDriver"}

    def consume(read: Any) -> None:
        read.write.format("noop").mode("overwrite").save()

    def feed(number: int) -> None:
        options = {"nodes": nodes, "table": f"fed{number}", "key": "src"}
        rows.write.format("pier").options(**options).mode("append").save()

    def write_jdbc(number: int) -> None:
        options = {**jdbc, "dbtable": f"fed{number}", "createTableColumnTypes": TEXTS, "batchsize": "1000"}
        rows.write.format("jdbc").options(**options).mode("append").save()

    return {
        "feed pier": feed,
        "write parquet": lambda number: rows.write.mode("overwrite").parquet(f"{folder}/fed{number}"),
        "write jdbc": write_jdbc,
        "collect pier": lambda number: consume(
            spark.read.format("pier").options(nodes=nodes, dbtable=f"fed{number}").load()
        ),
        "read parquet": lambda number: consume(spark.read.parquet(f"{folder}/fed{number}")),
        "read jdbc": lambda number: consume(
            spark.read.format("jdbc").options(**jdbc, dbtable=f"fed{number}", fetchsize="10000").load()
        ),
    }


def measure(args: argparse.Namespace, nodes: str, folder: Path) -> dict[str, list[float]]:
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
    }
    spark = pier_session("bench", "local[2,2]", settings)
    spark.sparkContext.setLogLevel("OFF")
    try:
        rows = spark.read.parquet(make_rows(folder, args.rows)).repartition(2).cache()
        assert rows.count() == args.rows
        acts = contenders(spark, rows, nodes, folder)
        times: dict[str, list[float]] = {name: [] for name in acts}
        for number in range(WARM_UPS + args.rounds):
            for name, act in acts.items():
                times[name].append(timed(lambda act=act, number=number: act(number)))
                print(f"round {number}: {name} {args.rows / times[name][-1]:,.0f} rows/s", file=sys.stderr)
        fed = spark.read.format("pier").options(nodes=nodes, dbtable=f"fed{number}").load().count()
        assert fed == args.rows, f"{fed} of {args.rows} rows came back"
        return {name: seconds[WARM_UPS:] for name, seconds in times.items()}
    finally:
        spark.stop()


#: What is held against what, and what it must come to at least.
CLAIMS = (
    ("spark_feed", "feed pier", "write parquet", FED_PARQUET_TARGET),
    ("spark_feed", "feed pier", "write jdbc", FED_JDBC_TARGET),
    ("spark_collect", "collect pier", "read jdbc", COLLECTED_JDBC_TARGET),
)


def report(rows: int, times: dict[str, list[float]]) -> int:
    """Every round and the medians, then what is claimed: ratios of a round's own figures, their median."""
    rates = {name: [rows / each for each in seconds] for name, seconds in times.items()}
    print(f"{rows:,} rows, {NODES} nodes; thousand rows/s")
    for name, each in rates.items():
        rounds = " ".join(f"{rate / 1e3:8.1f}" for rate in each)
        print(f"{name:15} {rounds}   median {statistics.median(each) / 1e3:8.1f}")
    holds = [claim(rates, *each) for each in CLAIMS]
    return 0 if all(holds) else 1


def claim(rates: dict[str, list[float]], name: str, ours: str, peer: str, target: float) -> bool:
    ratio = statistics.median(mine / other for mine, other in zip(rates[ours], rates[peer], strict=True))
    print(
        json.dumps(
            {
                "name": name,
                "ours": round(statistics.median(rates[ours])),
                "peer": round(statistics.median(rates[peer])),
                "peer_name": f"Spark {peer}",
                "ratio": round(ratio, 2),
                "target": target,
                "holds": ratio >= target,
            }
        )
    )
    return ratio >= target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    args = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory(prefix="pier-bench-") as name:
        directory = ClusterDir(Path(name) / "nodes")
        nodes = processes.prepare(directory, NODES)
        started = processes.start_missing(nodes)
        try:
            trio.run(processes.wait_formed, directory, nodes, started)
            doors = ",".join(state.client_address for state in directory.running())
            return report(args.rows, measure(args, doors, Path(name)))
        finally:
            trio.run(processes.stop, directory)
            for process in started:
                process.wait()


if __name__ == "__main__":
    sys.exit(main())
