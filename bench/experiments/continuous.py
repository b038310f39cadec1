"""Many continuous queries at once on real nodes: no epoch missed, memory bounded, cancelling works.

    python bench/experiments/continuous.py [--nodes 8] [--queries 100] [--seconds 300] [--every 5]

Nodes are processes on this machine with a table of their own. The queries are asked at all of them in turn, by the
default plan (Tree-Hi-S-Topology), counting all rows or the rows of each group. Half of them have a number of epochs and
end by themselves; the others run until they are cancelled. Every epoch must have come with every node in it. Memory is
that of all node processes, after the first fifth of the time and at the end. The nodes have the patience of the preset
"internet" and more: processes that share two cores with others are silent for longer than those of a data centre.
Prints one JSON object; exit code 1 when something was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import trio

from pier_node.client import Answer, Connection, Limits
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir

ROWS, GROUPS = 2_000, 20
#: What the memory of a node may gain between the first fifth and the end.
GROWTH_BYTES_MAX = 24 << 20
#: After a query was cancelled, until no node has it any more.
CANCEL_S = 10.0
SPARE_S = 60.0
#: Between one query and the next, so that the first epochs are measured and not the start of all at one moment.
BETWEEN_S = 0.1

PLAN = """
%opgraph(local) {{
    %operator(rows) {{ type = scan implementation = Local table = r }}
    %operator(part) {{ type = groupby sources[0] = rows {groups} mode = partial }}
    %operator(send) {{ type = put implementation = Epochs sources[0] = part channel = c every = {every} {count}
        {groups} }}
}}
%opgraph(root) {{ at = asker
    %operator(results) {{ type = scan implementation = Epochs channel = c {groups} }}
    %operator(answer) {{ type = result sources[0] = results }}
}}
"""
SHAPES = ("aggregates[n] = count()", "keys[k] = $k aggregates[n] = count() aggregates[s] = sum($v)")


@dataclass(slots=True)
class Seen:
    """What one query has given: by epoch the nodes and rows counted in its last revision."""

    nodes: dict[int, int] = field(default_factory=dict)
    counted: dict[int, int] = field(default_factory=dict)
    revision: dict[int, int] = field(default_factory=dict)
    ended: str = ""
    account: str = ""

    def take(self, rows: list[dict[str, int]]) -> None:
        for row in rows:
            epoch = row["epoch"]
            if row["revision"] > self.revision.get(epoch, -1):
                self.revision[epoch] = row["revision"]
                self.counted[epoch] = 0
            self.nodes[epoch] = row["nodes"]
            self.counted[epoch] += row["n"]

    def missed(self, epochs: int, nodes: int) -> dict[int, str]:
        """Epochs without all nodes or with another number of rows than they have, and what they had."""
        found = {epoch: (self.nodes.get(epoch, 0), self.counted.get(epoch, 0)) for epoch in range(epochs)}
        return {
            epoch: f"{n} nodes, {rows} rows"
            for epoch, (n, rows) in found.items()
            if (n, rows) != (nodes, nodes * ROWS)
        }


def memory_bytes(directory: ClusterDir) -> list[int]:
    status = [Path(f"/proc/{state.pid}/status").read_text() for state in directory.running()]
    return [int(text.partition("VmRSS:")[2].split()[0]) << 10 for text in status]


def cpu_s(directory: ClusterDir) -> float:
    ticks = 0
    for state in directory.running():
        fields = Path(f"/proc/{state.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


class Load:
    """The queries on one cluster."""

    def __init__(self, options: argparse.Namespace, directory: ClusterDir) -> None:
        self.options = options
        self.directory = directory
        self.epochs = max(2, int(options.seconds / options.every))
        self.seen = [Seen() for _ in range(options.queries)]
        self.answers: dict[int, Answer] = {}

    async def ask(self, number: int, conn: Connection) -> None:
        ends = number % 2 == 0
        text = PLAN.format(
            groups=SHAPES[number // 2 % 2],
            every=self.options.every,
            count=f"count = {self.epochs}" if ends else "",
        )
        limits = Limits(time_s=self.options.seconds + SPARE_S)
        answer = conn.query(text, "ufl", limits=limits, allow_partial=True)
        self.answers[number] = answer
        async for batch in answer:
            self.seen[number].take(batch.to_pylist())
        assert answer.account is not None
        self.seen[number].ended = answer.account.ended
        self.seen[number].account = str(answer.account)

    async def run(self) -> dict[str, object]:
        options, states = self.options, self.directory.running()
        async with trio.open_nursery() as connections, trio.open_nursery() as asking:
            conns = [await self._open(connections, place) for place in range(len(states))]
            for number in range(options.queries):
                asking.start_soon(self.ask, number, conns[number % len(conns)])
                await trio.sleep(BETWEEN_S)
            await trio.sleep(options.seconds / 5)
            early = memory_bytes(self.directory)
            began_cpu_s, began_s = cpu_s(self.directory), trio.current_time()
            await trio.sleep(options.seconds * 4 / 5 + options.every)
            late = memory_bytes(self.directory)
            cores = (cpu_s(self.directory) - began_cpu_s) / (trio.current_time() - began_s)
            for number, answer in self.answers.items():
                if number % 2:
                    answer.cancel()
            with trio.fail_after(CANCEL_S + options.every):
                while not all(seen.ended for seen in self.seen) or any([await c.queries() for c in conns]):
                    await trio.sleep(0.1)
            connections.cancel_scope.cancel()
        return self.figures(early, late, cores)

    async def _open(self, nursery: trio.Nursery, place: int) -> Connection:
        state = self.directory.running()[place]

        async def hold(task_status: trio.TaskStatus[Connection] = trio.TASK_STATUS_IGNORED) -> None:
            async with processes.connect_to(self.directory, state) as conn:
                task_status.started(conn)
                await trio.sleep_forever()

        return await nursery.start(hold)  # type: ignore[no-any-return]

    def figures(self, early: list[int], late: list[int], cores: float) -> dict[str, object]:
        nodes = self.options.nodes
        missed = {n: found for n, seen in enumerate(self.seen) if (found := seen.missed(self.epochs, nodes))}
        endings = [seen.ended for seen in self.seen]
        wrong = {
            n: self.seen[n].account
            for n, ended in enumerate(endings)
            if ended != ("cancelled" if n % 2 else "complete")
        }
        growth = max(after - before for before, after in zip(early, late, strict=True))
        return {
            "nodes": nodes,
            "queries": self.options.queries,
            "epochs": self.epochs,
            "seconds": self.options.seconds,
            "revised": sum(revision > 0 for seen in self.seen for revision in seen.revision.values()),
            "missed": missed,
            "ended_otherwise": wrong,
            "node_mb_early": max(early) >> 20,
            "node_mb_late": max(late) >> 20,
            "growth_mb_max": round(growth / (1 << 20), 1),
            "cores": round(cores, 2),
            "holds": not missed and not wrong and growth <= GROWTH_BYTES_MAX,
        }


async def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    (folder / "r.csv").write_text("k,v\n" + "".join(f"{n % GROUPS},{n}\n" for n in range(ROWS)))
    directory = ClusterDir(folder / "cluster")
    nodes = processes.prepare(directory, options.nodes, [f"r=csv:{folder}/r.csv"])
    for node in nodes:
        settings = node.config_file.read_text().replace('preset = "local"', 'preset = "internet"')
        node.config_file.write_text(
            f"{settings}[limits]\ntime_s = {options.seconds + 2 * SPARE_S}\n"
            "[bamboo]\nhop_timeout_floor_s = 1.0\nprobe_timeout_floor_s = 2.0\n"
        )
    started = processes.start_missing(nodes)
    try:
        await processes.wait_formed(directory, nodes, started)
        return await Load(options, directory).run()
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between epochs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = trio.run(measure, options, Path(folder))
    print(json.dumps(figures))
    return 0 if figures["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
