"""`pier publish`: the rows of a file into the DHT.

CSV, NDJSON or Parquet is read batch by batch and sent as the node takes it, so a file larger than memory is
no matter. The rows are seen all together when all of them are there; if that fails, none is. While nodes are slow to
confirm, a line on the terminal says how far it is. The result is one JSON line on stderr.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.failure import EXIT_FAILED, EXIT_USAGE, CommandFailed
from cli.options import add_command, add_node_options, seconds

#: What a file is, by the end of its name.
KINDS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "ndjson",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "publish",
        "Put the rows of a CSV, NDJSON or Parquet file into the DHT, placed by their key columns:\n"
        "all of them, or none if something is wrong with one. The node keeps them alive, over its own\n"
        "restarts too, until `pier unpublish`; they outlive it by their lifetime.",
        "pier publish reputation bad-hosts.csv --key src --lifetime 3600",
    )
    parser.add_argument("table", metavar="TABLE")
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--key", metavar="COL[,COL]", required=True, help="the columns that place a row")
    parser.add_argument("--lifetime", metavar="S", type=seconds, help="default: the node's")
    parser.add_argument("--kind", choices=sorted(set(KINDS.values())), help="default: by the file's name")
    add_node_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from cli.progress import ProgressLine
    from cli.reach import reach

    kind = args.kind or KINDS.get(args.file.suffix.lower())
    if kind is None:
        raise CommandFailed(f"{args.file}: what is this? say --kind csv, ndjson or parquet", EXIT_USAGE)
    keys = [key for key in args.key.split(",") if key]

    async def publish() -> int:
        batches = read_batches(args.file, kind)
        async with reach(args) as conn:
            feed = conn.feed(args.table, keys, args.lifetime)
            line = ProgressLine()
            feed.on_progress = lambda at: line.say(
                f"{at.answered:,} of {at.asked:,} objects confirmed · {at.rows:,} rows · {at.elapsed_s:.1f} s",
                at.elapsed_s,
            )
            try:
                for batch in checked(batches, keys, args.file):
                    await feed.send(batch)
                done = await feed.finish()
            finally:
                line.clear()
        facts = {"table": args.table, "rows": done.rows, "objects": done.objects, "refused": done.refused}
        more = {"dropped": done.dropped, "unconfirmed": done.unconfirmed}
        told = {**facts, **{name: value for name, value in more.items() if value}}
        print(json.dumps(told), file=sys.stderr)
        return EXIT_FAILED if done.refused or done.unconfirmed else 0

    return trio.run(publish)


def read_batches(path: Path, kind: str) -> Iterator[Any]:
    """The rows of a file as record batches, never all at once, as a node's own sources read them."""
    from pier_node.sources.csv import CsvReader
    from pier_node.sources.ndjson import NdjsonReader
    from pier_node.sources.parquet import ParquetReader
    from pier_node.sources.reader import ReadError

    readers = {"csv": CsvReader, "ndjson": NdjsonReader, "parquet": ParquetReader}
    try:
        yield from readers[kind](path).batches()
    except (ReadError, OSError) as error:
        raise CommandFailed(str(error)) from None


def checked(batches: Iterator[Any], keys: list[str], path: Path) -> Iterator[Any]:
    for batch in batches:
        missing = [key for key in keys if key not in batch.schema.names]
        if missing:
            has = ", ".join(batch.schema.names)
            raise CommandFailed(f"{path} has no column {', '.join(missing)}; it has {has}")
        yield batch
