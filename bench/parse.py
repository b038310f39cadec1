"""iptables lines to typed columns, lines a second on one core: our two scan engines against DuckDB's regex on
one thread, Polars' regex and Python's `re`, all on the same lines in the same run.

The peers get the lines already split; each makes the same columns with the same types. Time is the process's
own CPU time, which is what one core means on a busy machine; rounds interleave, ratios are medians over rounds.
Both engines are held to the same targets; the exit code is that of the compiled one, the headline.
"""

from __future__ import annotations

import os

# Polars reads its thread count once, when imported.
os.environ["POLARS_MAX_THREADS"] = "1"

import argparse
import calendar
import json
import re
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import duckdb
import polars
import pyarrow as pa

from pier_node.logs import Parser, generate

PATTERN = (
    r"^(\w{3} [ \d]\d \d\d:\d\d:\d\d) (\S+) kernel: (?:\[ *[\d.]+\] )?(.*?):? ?IN=(\S*) OUT=(\S*) "
    r".*?SRC=(\S+) DST=(\S+) LEN=(\d+) .*?(?:TTL|HOPLIMIT)=(\d+) .*?PROTO=(\S+)(?: SPT=(\d+) DPT=(\d+))?"
)
NAMES = ("ts", "host", "rule", "came", "went", "src", "dst", "length", "ttl", "proto", "spt", "dpt")
NUMBERS = {"length": "BIGINT", "ttl": "SMALLINT", "spt": "INTEGER", "dpt": "INTEGER"}
YEAR = 2025
MONTHS = {name: number for number, name in enumerate(calendar.month_abbr)}
START_US = 1_741_000_000_000_000
ROUNDS = 5
DUCKDB_TARGET = 2.0
RE_TARGET = 4.0
POLARS_TARGET = 1.0


def ours(engine: str) -> Callable[[bytes, Any], int]:
    def run(raw: bytes, lines: Any) -> int:
        parser = Parser("iptables", reference_us=START_US + 30 * 86_400_000_000, engine=engine)
        batch = parser.feed(raw)
        return len(batch) if batch is not None else 0

    return run


def by_duckdb(raw: bytes, lines: Any) -> int:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("given", lines)
    names = ", ".join(f"'{name}'" for name in NAMES)
    casts = ", ".join(f"TRY_CAST(f.{name} AS {kind}) AS {name}" for name, kind in NUMBERS.items())
    table = connection.sql(
        f"""SELECT strptime('{YEAR} ' || f.ts, '%Y %b %d %H:%M:%S') AS ts, f.host AS host,
            CASE WHEN f.rule ILIKE '%reject%' THEN 'reject' WHEN f.rule ILIKE '%drop%' THEN 'drop'
                 WHEN f.rule ILIKE '%accept%' THEN 'allow' ELSE 'log' END AS action,
            CASE WHEN f.went = '' THEN 'in' WHEN f.came = '' THEN 'out' ELSE 'forward' END AS direction,
            CASE WHEN f.came = '' THEN f.went ELSE f.came END AS iface,
            lower(f.proto) AS proto, f.src AS src, f.dst AS dst, f.rule AS rule, {casts}
            FROM (SELECT regexp_extract(line, $pattern, [{names}]) AS f FROM given)""",
        params={"pattern": PATTERN},
    ).to_arrow_table()
    connection.close()
    return int(table.num_rows)


def by_polars(raw: bytes, lines: Any) -> int:
    frame = polars.from_arrow(lines)
    named = PATTERN
    for name in NAMES:
        named = re.sub(r"\((?![?])", f"(?P<{name}>", named, count=1)
    kinds = {"length": polars.Int64, "ttl": polars.Int16, "spt": polars.Int32, "dpt": polars.Int32}
    found = frame.select(polars.col("line").str.extract_groups(named).alias("f")).unnest("f")
    rule, went, came = polars.col("rule"), polars.col("went"), polars.col("came")
    found = found.with_columns(
        (polars.lit(f"{YEAR} ") + polars.col("ts").str.replace("  ", " 0")).str.to_datetime(
            "%Y %b %d %H:%M:%S"
        ),
        polars.when(rule.str.contains("(?i)reject"))
        .then(polars.lit("reject"))
        .when(rule.str.contains("(?i)drop"))
        .then(polars.lit("drop"))
        .when(rule.str.contains("(?i)accept"))
        .then(polars.lit("allow"))
        .otherwise(polars.lit("log"))
        .alias("action"),
        polars.when(went == "")
        .then(polars.lit("in"))
        .when(came == "")
        .then(polars.lit("out"))
        .otherwise(polars.lit("forward"))
        .alias("direction"),
        polars.when(came == "").then(went).otherwise(came).alias("iface"),
        polars.col("proto").str.to_lowercase(),
        *(polars.col(name).cast(kind) for name, kind in kinds.items()),
    )
    return int(found.to_arrow().num_rows)


def stamp_of(text: str) -> datetime:
    return datetime(
        YEAR, MONTHS[text[:3]], int(text[4:6]), int(text[7:9]), int(text[10:12]), int(text[13:15])
    )


def by_re(raw: bytes, lines: Any) -> int:
    match = re.compile(PATTERN).match
    verdicts = {"reject": "reject", "drop": "drop", "accept": "allow"}
    columns: list[list[Any]] = [[] for _ in range(13)]
    for line in raw.decode().split("\n"):
        found = match(line)
        if found is None:
            continue
        stamp, host, rule, came, went, src, dst, length, ttl, proto, spt, dpt = found.groups()
        lowered = rule.lower()
        row = (
            stamp_of(stamp),
            host,
            next((verdict for word, verdict in verdicts.items() if word in lowered), "log"),
            "in" if not went else "out" if not came else "forward",
            came or went,
            proto.lower(),
            src,
            dst,
            rule,
            int(length),
            int(ttl),
            int(spt) if spt else None,
            int(dpt) if dpt else None,
        )
        for column, value in zip(columns, row, strict=True):
            column.append(value)
    return len(pa.table({str(number): column for number, column in enumerate(columns)}))


RUNNERS: dict[str, Callable[[bytes, Any], int]] = {
    "numba": ours("numba"),
    "numpy": ours("numpy"),
    "DuckDB regex": by_duckdb,
    "Polars regex": by_polars,
    "Python re": by_re,
}


def measure(count: int, rounds: int) -> dict[str, list[float]]:
    raw = generate("iptables", seed=1, start_us=START_US, count=count, rate=2000.0)
    lines = pa.table({"line": raw.decode().splitlines()})
    rates: dict[str, list[float]] = {name: [] for name in RUNNERS}
    for name, run in RUNNERS.items():
        made = run(raw, lines)
        if made != count:
            raise SystemExit(f"{name} parsed {made} of {count} lines: the comparison would not be fair")
    for _ in range(rounds):
        for name, run in RUNNERS.items():
            began = time.process_time()
            run(raw, lines)
            rates[name].append(count / (time.process_time() - began))
    return rates


def report(rates: dict[str, list[float]], ours_name: str, peer: str, target: float) -> bool:
    ratio = statistics.median(mine / other for mine, other in zip(rates[ours_name], rates[peer], strict=True))
    print(
        json.dumps(
            {
                "name": f"parse_iptables_{ours_name}",
                "ours": round(statistics.median(rates[ours_name])),
                "peer": round(statistics.median(rates[peer])),
                "peer_name": peer,
                "ratio": round(ratio, 2),
                "target": target,
                "holds": ratio >= target,
            }
        )
    )
    return ratio >= target


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--count", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=ROUNDS)
    args = options.parse_args()
    rates = measure(args.count, args.rounds)
    for name, values in rates.items():
        print(f"{name:14} {statistics.median(values) / 1e6:6.3f} M lines/s", file=sys.stderr)
    for engine in ("numpy", "numba"):
        report(rates, engine, "Polars regex", POLARS_TARGET)
    report(rates, "numpy", "Python re", RE_TARGET)
    report(rates, "numpy", "DuckDB regex", DUCKDB_TARGET)
    beats_re = report(rates, "numba", "Python re", RE_TARGET)
    beats_duckdb = report(rates, "numba", "DuckDB regex", DUCKDB_TARGET)
    return 0 if beats_re and beats_duckdb else 1


if __name__ == "__main__":
    sys.exit(main())
