"""The ten busiest sources over eight real nodes with a million log rows each, against DuckDB over all of the rows.

    python bench/sql.py [--rows N] [--nodes N] [--rounds N]

Nodes are processes on this machine that read their own Parquet file; DuckDB reads all of the files. Rounds take
turns; figures are medians, the ratio is the median of ratios within a round. The time of a query is split:

    parse    the text becomes a plan (the node's own compiler, measured here)
    spread   the stages go through the ring and back (the same query over a table nobody has)
    compute  rows are read, grouped, rehashed and merged (what is left of the node's own time)
    return   the answer reaches the client, and the client the node
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

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pier_node.client.sync import Connection, connect
from pier_node.cluster.directory import ClusterDir
from ufl.sql import compile_sql

QUERY = "SELECT src, count(*) AS n FROM fw GROUP BY src ORDER BY n DESC, src LIMIT 10"
#: The same shape over no rows.
IDLE = QUERY.replace("FROM fw", "FROM fw_nobody_has")
#: DuckDB reads Parquet and groups by it at 30-50 M rows a second; ours groups at about 5 M a core, sends groups through
#: the ring and back, and shares the cores among as many processes as there are nodes. A bound against getting worse.
TARGET = 15.0
SOURCES = 50_000
COMMAND = [sys.executable, "-m", "cli.main"]


def write_rows(path: Path, rows: int, seed: int) -> None:
    """Log rows whose sources follow a power law, as those of real firewalls do."""
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.3, rows), SOURCES)
    names = np.array([f"10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}" for n in range(SOURCES + 1)])
    table = pa.table(
        {
            "ts": pa.array(np.arange(rows) * 1_000 + seed, pa.timestamp("us")),
            "src": pa.array(names[ranks]),
            "dpt": pa.array(rng.choice([22, 23, 80, 443, 8080], rows), pa.int32()),
            "length": pa.array(rng.integers(40, 1_500, rows), pa.int64()),
        }
    )
    pq.write_table(table, path, row_group_size=131_072)


class Ring:
    """A cluster of processes with a Parquet file each."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self._folder = folder / "cluster"
        source = f"fw=parquet:{folder}/{{name}}.parquet"
        start = [
            *COMMAND,
            "cluster",
            "start",
            "-n",
            str(nodes),
            "--dir",
            str(self._folder),
            "--source",
            source,
        ]
        subprocess.run(start, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        host, _, port = ClusterDir(self._folder).running()[0].client_address.rpartition(":")
        self.address = (host, int(port))

    def stop(self) -> None:
        subprocess.run(
            [*COMMAND, "cluster", "stop", "--dir", str(self._folder)], check=False, stderr=subprocess.DEVNULL
        )


def asked(conn: Connection, text: str) -> tuple[float, float, list[tuple[object, ...]]]:
    """Seconds for the client, seconds at the node, and the rows."""
    begun = time.perf_counter()
    answer = conn.query(text)
    rows = [tuple(row.values()) for batch in answer for row in batch.to_pylist()]
    total_s = time.perf_counter() - begun
    assert answer.account is not None
    assert answer.account.ended == "complete", answer.account
    return total_s, answer.account.elapsed_s, rows


def measure(ring: Ring, folder: Path, rounds: int) -> dict[str, list[float]]:
    files = f"read_parquet('{folder}/*.parquet')"
    figures: dict[str, list[float]] = {
        name: [] for name in ("parse", "spread", "compute", "return", "ours", "peer")
    }
    with connect(*ring.address) as conn:
        asked(conn, QUERY)
        for _ in range(rounds):
            begun = time.perf_counter()
            compile_sql(QUERY, "bench", 0, None)
            parse_s = time.perf_counter() - begun
            _, spread_s, _ = asked(conn, IDLE)
            total_s, node_s, rows = asked(conn, QUERY)
            duck = duckdb.connect()
            begun = time.perf_counter()
            theirs = duck.execute(QUERY.replace("FROM fw", f"FROM {files}")).fetchall()
            peer_s = time.perf_counter() - begun
            assert rows == theirs, (rows, theirs)
            split = (
                parse_s,
                spread_s,
                node_s - spread_s,
                max(0.0, total_s - node_s - parse_s),
                total_s,
                peer_s,
            )
            for name, value in zip(figures, split, strict=True):
                figures[name].append(value)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of each node")
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(args.nodes):
            write_rows(folder / f"n{number + 1:02d}.parquet", args.rows, number)
        ring = Ring(folder, args.nodes)
        try:
            figures = measure(ring, folder, args.rounds)
        finally:
            ring.stop()
    medians = {key: statistics.median(values) for key, values in figures.items()}
    for key in ("parse", "spread", "compute", "return"):
        print(f"{key:8} {medians[key] * 1e3:9.1f} ms")
    print(f"{'ours':8} {medians['ours'] * 1e3:9.1f} ms   {args.nodes} nodes x {args.rows} rows")
    print(f"{'DuckDB':8} {medians['peer'] * 1e3:9.1f} ms   one process, all rows")
    ratio = statistics.median(
        ours / peer for ours, peer in zip(figures["ours"], figures["peer"], strict=True)
    )
    result = {
        "name": "top ten sources over the ring, time over DuckDB's",
        "ours": round(medians["ours"], 4),
        "peer": round(medians["peer"], 4),
        "peer_name": f"DuckDB {duckdb.__version__}, one process with all rows",
        "ratio": round(ratio, 2),
        "target": TARGET,
        "holds": ratio <= TARGET,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
