"""`pier ring`: who is on the ring, who owns which arc, who knows whom and how far away."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cli.options import add_command, add_format_option, add_node_options

#: Of an id of 40 digits: enough to tell nodes apart at a glance.
_ID_DIGITS = 12
#: Absent members that are named here; pier members has them all.
_AWAY_NAMED = 8


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "ring",
        "Show every node on the ring in order of its id, with the share of keys it owns, and for the\n"
        "neighbours of the node asked their role and round trip.",
        "pier ring --dir /tmp/c --format json",
    )
    parser.add_argument("--neighbours", action="store_true", help="only the nodes that this node knows")
    parser.add_argument("--long", action="store_true", help="whole ids and the arcs' ends")
    add_node_options(parser)
    add_format_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from cli.output import print_rows
    from cli.reach import reach

    away: list[Any] = []

    async def ring() -> tuple[list[dict[str, Any]], bool]:
        async with reach(args) as conn:
            near = await conn.ring()
            whole = near if args.neighbours else await conn.ring(whole=True)
            if not args.neighbours:
                away.extend(entry for entry in await conn.members() if entry.state == "absent")
        known = {entry.id: entry for entry in near.nodes}
        return [node_row(entry, known.get(entry.id, entry), args.long) for entry in whole.nodes], whole.whole

    rows, whole = trio.run(ring)
    columns = ["id", "address", "role", "rtt_ms", "owns"] + (["arc_start", "arc_end"] if args.long else [])
    print_rows(rows, args.format, columns)
    if not args.neighbours:
        said = "the whole ring" if whole else "as far as it could be walked; nodes are missing"
        print(f"{len(rows)} nodes, {said}", file=sys.stderr)
        if away:
            names = ", ".join(entry.host or entry.id[:_ID_DIGITS] for entry in away[:_AWAY_NAMED])
            print(f"{len(away)} absent members: {names} (pier members)", file=sys.stderr)
    return 0


def node_row(entry: Any, known: Any, long: bool) -> dict[str, Any]:
    """One node: its arc from the walk, its role and round trip from the node that was asked."""
    return {
        "id": entry.id if long else entry.id[:_ID_DIGITS],
        "address": entry.address,
        "role": known.role,
        "rtt_ms": None if known.rtt_s is None else round(known.rtt_s * 1e3, 3),
        "owns": share(entry.arc_start, entry.arc_end),
        "arc_start": entry.arc_start,
        "arc_end": entry.arc_end,
    }


def share(start: str, end: str) -> str:
    """How much of the circle an arc is."""
    from overlay.ring import SPACE, Arc

    if not start:
        return ""
    return f"{Arc(int(start, 16), int(end, 16)).width() / SPACE:.2%}"
