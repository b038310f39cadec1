"""`pier status`: how one node is doing."""

from __future__ import annotations

import argparse
from typing import Any

from cli.options import add_command, add_format_option, add_node_options


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "status",
        "Show how a node is doing: who it is, whether it is on the ring, and its counters.",
        "pier status --node 127.0.0.1:7701 --format json",
    )
    add_node_options(parser)
    add_format_option(parser, ("table", "json"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import json

    import trio

    from cli.output import cell
    from cli.reach import reach

    async def status() -> dict[str, Any]:
        async with reach(args) as conn:
            found = await conn.status()
        return {
            "node": found.id,
            "address": found.address,
            "client_address": found.client_address,
            "version": found.version,
            "pid": found.pid,
            "uptime_s": round(found.uptime_s, 1),
            "joined": found.joined,
            "neighbours": found.neighbours,
            "sources": list(found.sources),
            **found.figures,
        }

    facts = trio.run(status)
    if args.format == "json":
        print(json.dumps(facts))
        return 0
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}}  {', '.join(value) if isinstance(value, list) else cell(value)}".rstrip())
    return 0
