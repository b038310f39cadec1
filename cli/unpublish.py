"""`pier unpublish`: ends a published table everywhere, or what lies under some of its keys."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from cli.failure import EXIT_FAILED
from cli.options import add_command, add_node_options


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "unpublish",
        "End a published table at every node: nobody keeps its rows alive any more, nobody shows them.\n"
        "With --key, only the rows of these keys. It takes a token that may publish into the table.",
        "pier unpublish reputation --key 192.0.2.7",
    )
    parser.add_argument("table", metavar="TABLE")
    parser.add_argument(
        "--key",
        metavar="VALUE[,VALUE]",
        action="append",
        default=[],
        help="a value of the key column; of several columns, their values in order. May be given again",
    )
    add_node_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from cli.reach import reach

    async def unpublish() -> int:
        async with reach(args) as conn:
            columns = await _key_columns(conn, args.table) if args.key else 0
            keys = [tuple(each.split(",")) if columns > 1 else each for each in args.key]
            done = await conn.unpublish(args.table, keys)
        facts = {"table": args.table, "objects": done.objects}
        print(json.dumps({**facts, **({"dropped": done.dropped} if done.dropped else {})}), file=sys.stderr)
        return EXIT_FAILED if done.dropped else 0

    return trio.run(unpublish)


async def _key_columns(conn: Any, table: str) -> int:
    """Of how many columns a table's key is made: a comma may also be part of a single value."""
    return max((len(entry.keys) for entry in await conn.tables() if entry.name == table), default=1)
