"""`pier demo`: what PIER is for, in two minutes on one machine.

Eight nodes follow the logs of eight hosts with eight kinds of firewall. The busiest sources over all hosts are counted
live; Spark feeds a table of known strangers and a day of old logs meanwhile; the two are joined; a node is killed, and
the accounts say so; a summary goes back through Spark; a report stays. Everything else is gone afterwards, whatever
happens in between.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.failure import CommandFailed
from cli.options import add_command, positive

if TYPE_CHECKING:
    from cli.demo_report import Findings
    from cli.demo_spark import SparkJob
    from cli.demo_traffic import World
    from pier_node.client import Connection
    from pier_node.protocol.messages import Account

EPOCH_S = 3
TOP = f"""SELECT src, count(*) AS n, max(ts) AS last FROM fw WHERE action IN ('drop', 'reject') GROUP BY src
    ORDER BY n DESC, src LIMIT 10 EVERY '{EPOCH_S} seconds' RANGE '1 minute'"""
JOINED = """SELECT fw.src, kind, score, count(*) AS n FROM fw JOIN reputation ON fw.src = reputation.src
    WHERE action IN ('drop', 'reject') GROUP BY fw.src, kind, score ORDER BY n DESC, fw.src LIMIT 10"""
BY_HOUR = """SELECT date_trunc('hour', ts) AS hour, count(*) AS events, count(DISTINCT src) AS sources FROM history
    GROUP BY date_trunc('hour', ts)"""
#: Remarks of an account that are shown.
NOTES_SHOWN = 3
#: How long the ring may take to notice a dead node, and tables to be there.
PATIENCE_S = 60.0


def add_parser(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "demo",
        "Start eight nodes that follow firewall logs, ask them, kill one, and write a report. Takes about two minutes.",
        "pier demo",
    )
    parser.add_argument("-n", dest="count", metavar="N", type=positive, default=8, help="nodes; default 8")
    parser.add_argument(
        "--epochs", metavar="N", type=positive, default=5, help="live answers shown; default 5"
    )
    parser.add_argument("--no-spark", action="store_true", help="publish the tables without Spark")
    parser.add_argument("--keep", action="store_true", help="leave the nodes running and the files in place")
    parser.add_argument(
        "--report", metavar="FILE", type=Path, default=Path("pier-demo.html"), help="default pier-demo.html"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    import trio

    from cli.demo_traffic import World
    from pier_node.cluster.directory import ClusterDir

    if args.count < 3:
        raise CommandFailed("the demo kills a node: it needs at least 3")
    if args.keep:
        folder = Path(tempfile.mkdtemp(prefix="pier-demo-"))
        trio.run(_demo, args, World(folder, args.count), ClusterDir(folder / "nodes"))
        return 0
    with tempfile.TemporaryDirectory(prefix="pier-demo-") as name:
        trio.run(_demo, args, World(Path(name), args.count), ClusterDir(Path(name) / "nodes"))
    return 0


async def _demo(args: argparse.Namespace, world: World, directory: Any) -> None:
    import trio

    from cli.demo_report import Findings, write_report

    found, began_s = Findings(nodes=args.count), time.monotonic()
    async with (
        _ending_in_order(),
        _nodes(args, world, directory) as spark,
        trio.open_nursery() as growing,
    ):
        for number in range(world.hosts):
            growing.start_soon(world.grow, number)
        try:
            await _show(args, directory, world, spark, found)
        finally:
            growing.cancel_scope.cancel()
    write_report(args.report, found)
    _say(f"\nReport: {args.report.resolve()}   ({time.monotonic() - began_s:.0f} s in all)")
    if args.keep:
        _say(f'The nodes run on. Ask them: pier sql --dir {directory.path} "SELECT …"')
        _say(f"Stop them: pier cluster stop --dir {directory.path}; then delete {world.folder}")


@asynccontextmanager
async def _ending_in_order() -> AsyncIterator[None]:
    """Told to end (SIGTERM), the demo stops what it started and then ends."""
    import trio

    async def watch(scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGTERM) as signals:
            async for _ in signals:
                _say("\nEnding …")
                scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch, nursery.cancel_scope)
        yield
        nursery.cancel_scope.cancel()
        return
    raise CommandFailed("the demo was ended")


@asynccontextmanager
async def _nodes(args: argparse.Namespace, world: World, directory: Any) -> AsyncIterator[SparkJob | None]:
    """The cluster and the Spark job beside it; both end with the demo."""
    import trio

    from cli.demo_spark import spark_job
    from pier_node.cluster import processes

    step = _step(
        f"Writing logs of {world.hosts} hosts, of {world.hosts} kinds of firewall, and a day of old ones"
    )
    await trio.to_thread.run_sync(world.make)
    step()
    step = _step(f"Starting {args.count} nodes, one a host")
    nodes = processes.prepare(directory, args.count, [f"fw=firewall:{world.folder}/{{name}}.log"])
    started = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        step(", they form a ring")
        async with spark_job(world, directory, wanted=not args.no_spark) as spark:
            yield spark
    finally:
        if not args.keep:
            with trio.CancelScope(shield=True):
                stopped, _ = await processes.stop(directory)
            for process in started:
                process.wait()
            _say(f"Stopped {stopped} nodes.")


async def _show(
    args: argparse.Namespace, directory: Any, world: World, spark: SparkJob | None, found: Findings
) -> None:
    from pier_node.cluster.processes import connect_to

    running = directory.running()
    async with connect_to(directory, running[0]) as conn:
        _say("\nThe ten busiest sources of refused packets, all hosts together, counted live:")
        await _live(conn, args.epochs, found)
        if spark is None:
            await _publish(conn, world)
        else:
            await spark.fed()
        await _ask(conn, JOINED, "joined with the reputation table", found, "known")
        victim = running[-1]
        _say(f"\nKilling node {victim.node_id[:8]} …")
        os.kill(victim.pid, signal.SIGKILL)
        await _until_missed(conn, found, len(running))
        _say(f"It is expected until it is back or retired: pier members retire {victim.node_id[:8]}")
        await conn.retire(victim.node_id)
        if spark is None:
            await _ask(
                conn, f"{BY_HOUR} ORDER BY hour", "events by hour of the day before", found, "hours", shown=3
            )
        else:
            found.hours = await spark.collected(" ".join(BY_HOUR.split()))
    events = sum(row["events"] for row in found.hours)
    _say(f"Summary of {events:,} old events by hour collected{'' if spark is None else ' through Spark'}.")
    found.facts += [
        f"{len(running)} nodes followed the logs of {len(running)} hosts with different firewalls;",
        f"{events:,} old events and a table of known sources were fed {'by hand' if spark is None else 'by Spark'}.",
    ]


async def _live(conn: Connection, epochs: int, found: Findings) -> None:
    """Some epochs of the continuous query, drawn over each other on a terminal."""
    from cli.live import LiveTable
    from pier_node.client import Piece
    from pier_node.protocol.messages import Account

    table, rows, seen = LiveTable(sys.stdout), [], 0
    async with conn.query(TOP) as answer:
        async for event in answer.events():
            if isinstance(event, Piece):
                table.write(event.batch, event.epoch)
                rows += event.batch.to_pylist()
            elif isinstance(event, Account) and event.epoch is not None:
                if not sys.stdout.isatty() and seen not in (0, epochs - 1):
                    table.flush()
                    _say(f"  epoch {event.epoch}: {_words(event)}")
                else:
                    table.epoch(event)
                found.sources, rows = rows or found.sources, []
                seen += 1
                if seen >= epochs:
                    found.accounts.append(("the live count", event))
                    return


async def _ask(
    conn: Connection, query: str, words: str, found: Findings, keep: str, shown: int | None = None
) -> Account:
    from cli.output import print_rows

    answer = conn.query(query, allow_partial=True)
    rows = (await answer.table()).to_pylist()
    assert answer.account is not None
    setattr(found, keep, rows)
    found.accounts.append((words, answer.account))
    _say(f"\n{words[0].upper()}{words[1:]}; {_words(answer.account)}:")
    for note in answer.account.notes[:NOTES_SHOWN]:
        _say(f"  ({note})")
    if rows:
        print_rows(rows[:shown], "table", tuple(rows[0]))
    sys.stdout.flush()
    return answer.account


async def _until_missed(conn: Connection, found: Findings, nodes: int) -> None:
    """Asks until the ring has noticed; the account of every answer says how far it is."""
    import trio

    last = ""
    with trio.fail_after(PATIENCE_S):
        while True:
            answer = conn.query("SELECT count(*) AS n FROM fw", allow_partial=True)
            rows = (await answer.table()).to_pylist()
            account = answer.account
            assert account is not None
            words = f"  {rows[0]['n'] if rows else 0:,} events; {_words(account)}"
            if words.split(";")[1] != last:
                last = words.split(";")[1]
                _say(words)
                found.accounts.append(("all events, after a node was killed", account))
            if account.asked < nodes and account.failed + account.unreachable == 0:
                return
            await trio.sleep(0.2)


async def _publish(conn: Connection, world: World) -> None:
    """The same tables without Spark, through one node; each row has a copy, so that a dead node takes nothing."""
    import pyarrow.parquet as parquet

    from pier_node.logs import Parser
    from pier_node.protocol.messages import Stage

    step = _step("Publishing the reputation table and a day of old logs")
    parser = Parser("iptables", reference_us=int(time.time() * 1e6))
    events = [parser.feed(path.read_bytes()) for path in sorted(world.old_logs.iterdir())]
    known = parquet.read_table(world.reputation).to_batches()
    for table, batches in (("reputation", known), ("history", events)):
        feed = conn.feed(table, ["src"], 600.0, Stage(table, "0", PATIENCE_S, copies=1))
        for batch in batches:
            if batch is not None:
                await feed.send(batch)
        await feed.finish()
        await conn.settle(table, table, "commit", ["0"])
    step()


def _words(account: Account) -> str:
    missing = account.failed + account.unreachable
    answered = account.answered + account.empty
    words = f"{answered} of {account.asked + account.absent} nodes answered"
    words += f", {missing} missing" if missing else ""
    return words + (f", {account.absent} absent" if account.absent else "")


def _step(words: str) -> Any:
    """Says what is being done; the returned function says how long it took."""
    began_s = time.monotonic()
    print(f"{words} … ", end="", flush=True)

    def done(more: str = "") -> None:
        _say(f"{time.monotonic() - began_s:.1f} s{more}")

    return done


def _say(text: str) -> None:
    print(text, flush=True)
