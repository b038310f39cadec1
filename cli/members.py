"""`pier members`: who belongs to the ring, whether it is there or not, and `pier members retire ID|HOST`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cli.failure import EXIT_USAGE, CommandFailed
from cli.options import add_command, add_format_option, add_node_options

#: Of an id of 40 digits: enough to tell members apart at a glance.
_ID_DIGITS = 12
_COLUMNS = ("id", "host", "state", "seen_s", "version", "sources", "address", "certificate")


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "members",
        "Show every member that the ring expects or remembers: here, absent (expected and not on the ring;\n"
        "answers name it), left in good order, or retired. With retire, a member that is absent is expected\n"
        "no more; if it comes back it is a member again. docs/members.md has the rules.",
        "pier members retire web-17",
    )
    parser.add_argument("action", nargs="?", choices=("retire",), help="without it: list")
    parser.add_argument(
        "who",
        nargs="?",
        metavar="ID|HOST",
        help="the member to retire, by its host name or the start of its id",
    )
    parser.add_argument("--long", action="store_true", help="whole ids")
    add_node_options(parser)
    add_format_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from cli.reach import reach

    if args.action == "retire" and args.who is None:
        raise CommandFailed(
            "pier members retire needs the id or host name of a member; pier members lists them", EXIT_USAGE
        )

    async def members() -> Any:
        async with reach(args) as conn:
            if args.action == "retire":
                await conn.retire(args.who)
                return None
            return await conn.members()

    found = trio.run(members)
    if found is None:
        print(f"retired {args.who}", file=sys.stderr)
    else:
        _print(args, found)
    return 0


def _print(args: argparse.Namespace, found: Any) -> None:
    from cli.output import print_rows

    rows = [
        {
            "id": entry.id if args.long else entry.id[:_ID_DIGITS],
            "host": entry.host,
            "state": entry.state,
            "seen_s": None if entry.seen_s is None else round(entry.seen_s, 1),
            "version": entry.version,
            "sources": ", ".join(entry.sources),
            "address": entry.address,
            "certificate": entry.certificate,
        }
        for entry in found
    ]
    print_rows(rows, args.format, _COLUMNS)
    states = [entry.state for entry in found]
    part = "; not the whole ring could be asked" if "unknown" in states else ""
    print(f"{len(rows)} members, {states.count('absent')} absent{part}", file=sys.stderr)
