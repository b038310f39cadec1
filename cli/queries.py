"""`pier queries`: what runs, and `pier queries cancel ID`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cli.failure import EXIT_USAGE, CommandFailed
from cli.options import add_command, add_format_option, add_node_options


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "queries",
        "List the running queries, whoever asked them, or cancel one.",
        "pier queries cancel 4f2a91c0",
    )
    parser.add_argument("action", nargs="?", choices=("cancel",), help="without it: list")
    parser.add_argument("id", nargs="?", metavar="ID", help="of the query to cancel")
    add_node_options(parser)
    add_format_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from cli.reach import reach

    if args.action == "cancel" and args.id is None:
        raise CommandFailed(
            "pier queries cancel needs the ID of a query; pier queries lists them", EXIT_USAGE
        )

    async def queries() -> int:
        async with reach(args) as conn:
            if args.action == "cancel":
                await conn.cancel(args.id)
                print(f"cancelled {args.id}", file=sys.stderr)
                return 0
            found = await conn.queries()
        _print(args, found)
        return 0

    return trio.run(queries)


def _print(args: argparse.Namespace, found: Any) -> None:
    from cli.output import print_rows

    rows = (
        {
            "id": entry.id,
            "state": entry.state,
            "age_s": round(entry.age_s, 1),
            "rows": entry.rows,
            "proxy": entry.proxy,
            "client": entry.client,
            "query": " ".join(entry.text.split()),
        }
        for entry in found
    )
    print_rows(rows, args.format, ("id", "state", "age_s", "rows", "proxy", "client", "query"))
