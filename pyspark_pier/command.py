"""`pier-spark feed` and `pier-spark collect`: rows into the ring and results out of it, as Spark jobs.

The same file runs by itself (all cores of this machine), and under spark-submit on any cluster:

    pier-spark feed fw /var/log/ufw.log* --key src --nodes host:7701
    spark-submit --master spark://… $(pier-spark --path) feed fw hdfs:///logs/ --key src --nodes host:7701

Rows of nothing go to stdout; what was done is one JSON line on stderr. Exit codes: 0, 1 failure, 2 usage.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

FORMATS = ("logs", "parquet", "csv", "json", "orc")
SINKS = ("parquet", "csv", "json", "orc")


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--path"]:
        print(Path(__file__).with_name("__main__.py").resolve())
        return 0
    args = _parser().parse_args(arguments)
    try:
        return int(args.run(args))
    except ImportError as error:
        print(f"pier-spark: {error}; install the extra: pip install 'pier[spark]'", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if args.trace:
            raise
        from pyspark_pier.telling import told

        print(f"pier-spark: {told(error)}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pier-spark", description="Spark jobs that feed a ring of PIER nodes and collect from it."
    )
    actions = parser.add_subparsers(required=True, metavar="feed|collect")
    feed = actions.add_parser("feed", help="publish raw firewall logs, or rows of files, into a table")
    feed.add_argument("table", metavar="TABLE")
    feed.add_argument("paths", metavar="PATH", nargs="+", help="files, folders, patterns; any Spark path")
    feed.add_argument("--key", required=True, metavar="COL[,COL]", help="the columns that place a row")
    feed.add_argument("--format", choices=FORMATS, default="logs", help="default logs: any firewall dialect")
    feed.add_argument("--dialect", metavar="NAME", help="of the logs, instead of detecting it")
    feed.add_argument("--tz", metavar="ZONE", default="UTC", help="of times without one; default UTC")
    feed.add_argument("--host", metavar="NAME", help="of lines that name none")
    feed.add_argument("--select", metavar="SQL", help="columns to publish, as Spark SQL expressions")
    feed.add_argument("--where", metavar="SQL", help="only these rows")
    feed.add_argument("--lifetime", metavar="S", help="seconds that rows outlive their publisher")
    feed.add_argument("--copies", metavar="N", help="of each row, beside the first; default 0")
    feed.add_argument("--load-id", metavar="ID", help="a name for this load: given again it replaces itself")
    feed.add_argument(
        "--overwrite", action="store_true", help="take back what was published in the table before"
    )
    _add_common(feed)
    feed.set_defaults(run=run_feed)
    collect = actions.add_parser("collect", help="write the result of a query to files")
    collect.add_argument("query", metavar="SQL")
    collect.add_argument("output", metavar="PATH", help="a folder; any Spark path")
    collect.add_argument("--format", choices=SINKS, default="parquet", help="default parquet")
    collect.add_argument("--overwrite", action="store_true", help="replace what is there")
    collect.add_argument(
        "--partitions", metavar="N", help="tasks that read; default half the nodes, up to 16"
    )
    collect.add_argument(
        "--accept-incomplete", action="store_true", help="take an answer that nodes miss from"
    )
    _add_common(collect)
    collect.set_defaults(run=run_collect)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", metavar="H:P,…", help="nodes to begin with; default 127.0.0.1:7701")
    parser.add_argument("--tls-ca", metavar="FILE", help="the ring's tls-authority.pem")
    parser.add_argument("--tls-name", metavar="HOST", help="the name that the nodes' certificates are for")
    parser.add_argument("--token-file", metavar="FILE", help="the ring's client.token")
    parser.add_argument(
        "--master", metavar="URL", help="Spark's, where spark-submit does not say; default local[*,4]"
    )
    parser.add_argument(
        "--trace", action="store_true", help="show Spark's warnings, and where it was when something fails"
    )


def _options(args: argparse.Namespace, **more: Any) -> dict[str, str]:
    given = {"nodes": args.nodes, "tlsCa": args.tls_ca, "tlsName": args.tls_name}
    given |= {"tokenFile": args.token_file, **more}
    return {name: str(value) for name, value in given.items() if value is not None}


@contextmanager
def _session(args: argparse.Namespace, name: str) -> Iterator[Any]:
    """Spark for one job. A session that the process has already is used, and left as it is."""
    from pyspark.sql import SparkSession

    from pyspark_pier.session import pier_session
    from pyspark_pier.telling import muted

    found = SparkSession.getActiveSession() is not None
    submitted = bool(os.environ.get("PYSPARK_GATEWAY_PORT"))
    quiet = {} if submitted else {"spark.ui.enabled": "false"}
    with nullcontext() if found or submitted or args.trace else muted():
        spark = pier_session(name, args.master, quiet)
    if not args.trace:
        spark.sparkContext.setLogLevel("OFF")
        # It repeats, with all of its trace, what the exception says.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        yield spark
    finally:
        if not found:
            spark.stop()


def run_feed(args: argparse.Namespace) -> int:
    from pyspark_pier import placed
    from pyspark_pier.log_files import check_reading
    from pyspark_pier.options import write_options
    from pyspark_pier.reach import doors
    from pyspark_pier.ring_placement import SPLIT_NODES_MAX

    options = _options(
        args,
        table=args.table,
        key=args.key,
        lifetime=args.lifetime,
        copies=args.copies,
        loadId=args.load_id,
    )
    checked = write_options({name.lower(): value for name, value in options.items()})
    if args.format == "logs":
        check_reading(args.dialect, args.tz)
    nodes = doors(checked.access)
    began_s = time.monotonic()
    with _session(args, f"pier feed {args.table}") as spark:
        rows, counts = _rows(spark, args)
        if args.where:
            rows = rows.where(args.where)
        if args.select:
            rows = spark.sql(f"SELECT {args.select} FROM {{rows}}", rows=rows)
        rows, counted = _observed(rows)
        if len(nodes) > SPLIT_NODES_MAX:
            parts = max(2, spark.sparkContext.defaultParallelism)
            rows = placed(rows, args.table, checked.keys, parts)
        mode = "overwrite" if args.overwrite else "append"
        rows.write.format("pier").options(**options).mode(mode).save()
        done = {"table": args.table, "rows": counted.get["rows"], "nodes": len(nodes)}
        if counts is not None:
            done["lines"] = counts.figures()
        _report(done, began_s)
    return 0


def _observed(rows: Any) -> tuple[Any, Any]:
    """The rows, and what counts them on their way: in Spark itself, and those of tasks that count only."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    counted = Observation("rows")
    return rows.observe(counted, F.count(F.lit(1)).alias("rows")), counted


def _rows(spark: Any, args: argparse.Namespace) -> Any:
    from pyspark_pier.log_files import read_logs

    if args.format == "logs":
        return read_logs(spark, args.paths, args.dialect, args.tz, args.host)
    reader = spark.read
    if args.format == "csv":
        reader = reader.option("header", "true").option("inferSchema", "true")
    return reader.format(args.format).load(args.paths), None


def run_collect(args: argparse.Namespace) -> int:
    from pyspark.errors import AnalysisException

    from pyspark_pier.errors import PierSparkError
    from pyspark_pier.options import read_options
    from pyspark_pier.reader import describe

    options = _options(
        args,
        query=args.query,
        numPartitions=args.partitions,
        onIncomplete="accept" if args.accept_incomplete else None,
    )
    # What a node says to it is known before Spark has started.
    describe(read_options({name.lower(): value for name, value in options.items()}))
    began_s = time.monotonic()
    with _session(args, "pier collect") as spark:
        rows = spark.read.format("pier").options(**options).load()
        rows, counted = _observed(rows)
        writer = rows.write.mode("overwrite" if args.overwrite else "errorifexists")
        if args.format == "csv":
            writer = writer.option("header", "true")
        try:
            writer.format(args.format).save(args.output)
        except AnalysisException as error:
            if error.getCondition() != "PATH_ALREADY_EXISTS":
                raise
            raise PierSparkError(f"{args.output} exists already; --overwrite replaces it") from None
        _report({"output": args.output, "rows": counted.get["rows"]}, began_s)
    return 0


def _report(done: dict[str, Any], began_s: float) -> None:
    print(json.dumps({**done, "elapsed_s": round(time.monotonic() - began_s, 3)}), file=sys.stderr)
