"""`pier cluster`: real node processes on this machine, for trying things and for tests."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from cli.failure import EXIT_FAILED, CommandFailed
from cli.options import add_command, add_format_option, positive

COLUMNS = ("node", "pid", "state", "id", "address", "client", "neighbours", "uptime_s")


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "cluster",
        "Start, look at and stop node processes on this machine.\n\n"
        "start   starts the nodes that do not run, with ports that are free, and waits until they are one\n"
        "        ring; in a directory with nodes that died it starts those again, with their old ids\n"
        "status  shows every node: process, addresses, whether it is alive, how many neighbours it knows\n"
        "stop    ends all nodes, politely first\n\n"
        "Keys made with `pier keys new --dir D/keys` before the first start are used by the nodes.",
        "pier cluster start -n 8 --dir /tmp/c && pier ring --dir /tmp/c",
    )
    parser.add_argument("action", choices=("start", "status", "stop"))
    parser.add_argument("-n", dest="count", metavar="N", type=positive, help="number of nodes; default 8")
    parser.add_argument(
        "--dir", metavar="D", type=Path, help="where they live; default ~/.local/state/pier/cluster"
    )
    parser.add_argument(
        "--source",
        metavar="SPEC",
        action="append",
        default=[],
        help="start: data of each new node, as TABLE=KIND:PATH; {name} in it becomes the node's name (n01 ...)",
    )
    add_format_option(parser, ("table", "json", "csv"))
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from pier_node.cluster.directory import ClusterDir, default_cluster_dir
    from pier_node.cluster.processes import ClusterError

    directory = ClusterDir(args.dir or default_cluster_dir())
    actions = {"start": _start, "status": _status, "stop": _stop}
    try:
        return trio.run(actions[args.action], args, directory)
    except ClusterError as error:
        raise CommandFailed(str(error)) from None


async def _start(args: argparse.Namespace, directory: Any) -> int:
    from pier_node.cluster import processes
    from pier_node.config.sources import SourceError, parse_source

    existing = len(directory.nodes())
    count = args.count or existing or 8
    if count > processes.NODES_MAX:
        raise CommandFailed(f"-n {count}: more than {processes.NODES_MAX} processes on one machine")
    for text in args.source:
        try:
            parse_source(text)
        except SourceError as error:
            raise CommandFailed(str(error)) from None
    nodes = processes.prepare(directory, count, args.source)
    started = processes.start_missing(nodes)
    print(f"started {len(started)} of {len(nodes)} nodes in {directory.path}", file=sys.stderr)
    ring = await processes.wait_formed(directory, nodes, started)
    print(f"the ring is whole: {len(ring.nodes)} nodes", file=sys.stderr)
    return await _status(args, directory)


async def _status(args: argparse.Namespace, directory: Any) -> int:
    from cli.output import print_rows
    from pier_node.cluster import processes

    reports = await processes.report(directory)
    if not reports:
        raise CommandFailed(f"there is no cluster in {directory.path}")
    print_rows((_row(each) for each in reports), args.format, COLUMNS)
    alive = sum(each.status is not None and each.status.joined for each in reports)
    print(f"{alive} of {len(reports)} nodes are on the ring", file=sys.stderr)
    return 0 if alive == len(reports) else EXIT_FAILED


def _row(report: Any) -> dict[str, Any]:
    state, status = report.state, report.status
    if state is None:
        return {"node": report.node.name, "state": "dead"}
    return {
        "node": report.node.name,
        "pid": state.pid,
        "state": "silent" if status is None else "alive" if status.joined else "joining",
        "id": state.node_id[:12],
        "address": state.address,
        "client": state.client_address,
        "neighbours": None if status is None else status.neighbours,
        "uptime_s": None if status is None else round(status.uptime_s, 1),
    }


async def _stop(args: argparse.Namespace, directory: Any) -> int:
    from pier_node.cluster import processes

    if not directory.nodes():
        raise CommandFailed(f"there is no cluster in {directory.path}")
    count, killed = await processes.stop(directory)
    print(f"stopped {count} nodes" + (f", {killed} of them by force" if killed else ""), file=sys.stderr)
    return 0
