"""`pier status`: how one node is doing, once or again and again."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cli.options import add_command, add_format_option, add_node_options, positive, seconds
from cli.terminal import control

#: Moves to the top left and clears: what a terminal shows is replaced.
CLEAR = "\x1b[H\x1b[2J"


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "status",
        "Show how a node is doing: who it is, whether it is on the ring, and its counters.\n"
        "With --watch again and again: what changes, and how fast; with --format json one object a line.",
        "pier status --node 127.0.0.1:7701 --watch 2",
    )
    add_node_options(parser)
    parser.add_argument(
        "--watch", metavar="S", type=seconds, nargs="?", const=2.0, help="every S seconds; default 2"
    )
    parser.add_argument("--count", metavar="N", type=positive, help="with --watch: so many times, then end")
    add_format_option(parser, ("table", "json"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    trio.run(_watch if args.watch else _once, args)
    return 0


async def _once(args: argparse.Namespace) -> None:
    from cli.reach import reach

    async with reach(args) as conn:
        _print(args, await _facts(conn))


async def _watch(args: argparse.Namespace) -> None:
    import trio

    from cli.reach import reach

    before: dict[str, Any] = {}
    shown = 0
    async with reach(args) as conn:
        while True:
            facts = await _facts(conn)
            if args.format == "json":
                _print(args, facts)
            else:
                _print_changes(facts, before)
            sys.stdout.flush()
            shown += 1
            if shown == args.count:
                return
            before = facts
            await trio.sleep(args.watch)


async def _facts(conn: Any) -> dict[str, Any]:
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
        "remarks": list(found.remarks),
        **found.figures,
    }


def _print(args: argparse.Namespace, facts: dict[str, Any]) -> None:
    import json

    from cli.output import cell

    if args.format == "json":
        print(json.dumps(facts))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:{width}}  {', '.join(value) if isinstance(value, list) else cell(value)}".rstrip())


def _print_changes(facts: dict[str, Any], before: dict[str, Any]) -> None:
    """What the node is, then every figure that is moving, with its speed."""
    if sys.stdout.isatty():
        control(sys.stdout, CLEAR)
    print(
        f"node {facts['node'][:12]} at {facts['address']}, {'on the ring' if facts['joined'] else 'not on the ring'}, "
        f"{facts['neighbours']} neighbours, up {facts['uptime_s']:g} s, version {facts['version']}"
    )
    elapsed_s = facts["uptime_s"] - before.get("uptime_s", facts["uptime_s"])
    moving = [name for name in facts if elapsed_s > 0 and _moved(facts, before, name)]
    width = max(map(len, moving), default=0)
    for name in moving:
        speed = (facts[name] - before[name]) / elapsed_s
        print(f"{name:{width}}  {facts[name]:>14,}  {speed:>+12,.1f} /s")
    print(flush=True)


def _moved(facts: dict[str, Any], before: dict[str, Any], name: str) -> bool:
    value, earlier = facts[name], before.get(name)
    if name in ("uptime_s", "pid") or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(earlier, int | float) and value != earlier
