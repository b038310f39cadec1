"""`pier demo`: two nodes on loopback, the ring they form, objects that cross it, a question to all of them.

Everything happens in a temporary directory and is gone afterwards, whatever happens in between.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.options import add_command, positive

if TYPE_CHECKING:
    from pier_node.client import Connection


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "demo",
        "Start a small cluster, show what it does, stop it again. Takes seconds.",
        "pier demo",
    )
    parser.add_argument("-n", dest="count", metavar="N", type=positive, default=2, help="nodes; default 2")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from pier_node.cluster.directory import ClusterDir

    with tempfile.TemporaryDirectory(prefix="pier-demo-") as folder:
        trio.run(_demo, args.count, ClusterDir(Path(folder)))
    return 0


async def _demo(count: int, directory: Any) -> None:
    from pier_node.cluster import processes

    began_s = time.monotonic()
    nodes = processes.prepare(directory, count)
    _say(f"Starting {len(nodes)} node processes on this machine …")
    started = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        _say(f"They found each other and form a ring ({time.monotonic() - began_s:.1f} s).")
        await _show(directory)
    finally:
        stopped, _ = await processes.stop(directory)
        for process in started:
            process.wait()
        _say(f"\nStopped {stopped} nodes. Next: pier cluster start -n 8, then pier ring.")


async def _show(directory: Any) -> None:
    from pier_node.cluster.processes import connect_to

    running = directory.running()
    first, last = running[0], running[-1]
    async with connect_to(directory, first) as here, connect_to(directory, last) as there:
        await _show_ring(here, first.address)
        await _show_objects(here, there, first.address, last.address)
        await _show_query(here, there, last.address)
    sys.stdout.flush()


async def _show_ring(here: Connection, address: str) -> None:
    from cli.output import print_rows
    from cli.ring import node_row

    near, whole = await here.ring(), await here.ring(whole=True)
    known = {entry.id: entry for entry in near.nodes}
    _say(f"\nThe ring as {address} sees it; every key has exactly one owner:")
    rows = [node_row(entry, known.get(entry.id, entry), False) for entry in whole.nodes]
    print_rows(rows, "table", ("id", "address", "role", "rtt_ms", "owns"))


async def _show_objects(here: Connection, there: Connection, put_at: str, get_at: str) -> None:
    _say(f"\nPutting five objects into the ring through {put_at}, getting them through {get_at}:")
    words = ("hosts", "hold", "data", "nobody", "ships")
    for word in words:
        await here.put("demo", word, f"{word} was here".encode(), lifetime_s=60.0)
    for word in words:
        began_s = time.monotonic()
        ((_, value),) = await there.get("demo", word)
        print(f"  demo.{word:7} = {value.decode():18} {(time.monotonic() - began_s) * 1e3:5.1f} ms")


async def _show_query(here: Connection, there: Connection, ask_at: str) -> None:
    import pyarrow as pa

    from cli.ask import account_json
    from cli.output import writer

    sources = [f"10.0.0.{number * number % 7}" for number in range(200)]
    rows = pa.record_batch({"event": list(range(200)), "src": sources, "action": ["BLOCK", "ALLOW"] * 100})
    done = await here.publish("fw", [rows], ["src"], lifetime_s=60.0)
    _say(f"\nPublished {done.rows} firewall events; which sources were blocked? Asking {ask_at}:")
    answer = there.query(_QUERY, "ufl")
    table = writer("table")
    async for batch in answer:
        table.write(batch)
    table.flush()
    if answer.account is not None:
        _say(f"Who answered: {account_json(answer.account)}")


#: Events are placed by their source, so each node counts its own sources to the end; the rows meet where we ask.
_QUERY = """
%opgraph(count) {
    %operator(events)    { type = scan  implementation = DHT  ns = fw }
    %operator(blocked)   { type = selection  sources[0] = events
        %predicate(is_block) { type = atomic  leftexpression = $action  op = "="  rightexpression = "BLOCK"::string } }
    %operator(by_source) { type = groupby  sources[0] = blocked  keys[src] = $src  aggregates[hits] = count() }
    %operator(answer)    { type = result  sources[0] = by_source }
}
"""


def _say(text: str) -> None:
    print(text, flush=True)
