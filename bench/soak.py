"""Soak: node processes under steady load for as long as one likes; memory stays flat, nothing leaks.

    ./run python -m bench.soak --hours 1              eight processes, an hour
    ./run python -m bench.soak --hours 0.01 --nodes 3 the short form

Clients come and go, ask in SQL, once and for answers again and again, cancel, publish rows that expire, put and get
objects; samples of every process are taken all the while: resident memory, descriptors, and what the node itself says
it holds (timers, streams, runs of queries, requests and spreads under way). The first third is warm-up: caches fill,
allocators settle. Then the median of the middle third is held against that of the last. Prints one JSON object; exit
code 1 when something grew.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import trio

from pier_node.client import Account, Connection, PierError
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pier_node.data_dir import NodeState

#: What memory may grow by between the middle and the last third.
GROWTH_MAX = 0.05
#: Descriptors and the node's own counts may differ by this much: whoever is connected just then.
COUNT_SLACK = 16
ROWS = 200
#: Objects live this long. Nodes keep what was published alive for as long as they run, so it is always the same few
#: rows: what grows then is not the data.
LIFETIME_S = 20.0
TABLES, KEYS = 4, 40
QUERIES = (
    "SELECT count(*) AS n FROM fw",
    "SELECT g, count(*) AS n, sum(n) AS s FROM fw GROUP BY g ORDER BY g",
    "SELECT n FROM fw WHERE n < 20",
    "SELECT a.g, count(*) AS n FROM fw a JOIN fw b ON a.n = b.n GROUP BY a.g",
)
LIVE = "SELECT count(*) AS n FROM fw EVERY '0.5 seconds'"
#: Epochs of a continuous query that a client waits for.
EPOCHS = 3
#: What a node says it holds.
HELD = (
    "runtime.timers",
    "runtime.streams",
    "queries.runs",
    "queries.running",
    "overlay.dht.requests.under_way",
    "overlay.spread.open",
    "clients.connections",
)


@dataclass(slots=True)
class Samples:
    """What was seen of one process, each with its time."""

    memory_bytes: list[tuple[float, int]] = field(default_factory=list)
    descriptors: list[tuple[float, int]] = field(default_factory=list)
    held: dict[str, list[tuple[float, int]]] = field(default_factory=dict)


@dataclass(slots=True)
class Soak:
    directory: ClusterDir
    duration_s: float
    pause_s: float
    samples: dict[str, Samples] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    began_s: float = field(default_factory=time.monotonic)

    async def run(self, clients: int) -> None:
        with trio.move_on_after(self.duration_s):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch)
                for number in range(clients):
                    nursery.start_soon(self._client, number)

    # -- the load

    async def _client(self, number: int) -> None:
        """Connects somewhere, does a few things, leaves, and comes again."""
        rng = random.Random(number)
        while True:
            state = rng.choice(self.directory.running())
            try:
                async with processes.connect_to(self.directory, state) as conn:
                    for _ in range(rng.randrange(1, 8)):
                        await self._act(conn, rng)
                        await trio.sleep(self.pause_s)
            except (PierError, OSError) as error:
                self.failures.append(f"{type(error).__name__}: {error}"[:200])
                await trio.sleep(self.pause_s)

    async def _act(self, conn: Connection, rng: random.Random) -> None:
        what = rng.choice(("ask", "ask", "ask", "publish", "object", "cancel", "live"))
        self.done[what] = self.done.get(what, 0) + 1
        if what == "ask":
            answer = conn.query(rng.choice(QUERIES), allow_partial=True, allow_unknown=True)
            await answer.table()
            account = answer.account
            assert account is not None
            parts = account.answered + account.empty + account.failed + account.unreachable
            assert account.asked == parts, account
        elif what == "publish":
            keys = rng.sample(range(KEYS), KEYS // 2)
            rows = pa.table({"k": keys, "v": [key * key for key in keys]})
            await conn.publish(f"soak{rng.randrange(TABLES)}", rows.to_batches(), ["k"], LIFETIME_S)
        elif what == "object":
            key = str(rng.randrange(100))
            await conn.put("soak", key, rng.randbytes(500), lifetime_s=LIFETIME_S)
            await conn.get("soak", key)
        elif what == "live":
            await self._watch_live(conn)
        else:
            conn.query(QUERIES[1]).cancel()

    async def _watch_live(self, conn: Connection) -> None:
        answer = conn.query(LIVE, allow_partial=True)
        seen = 0
        async for event in answer.events():
            if isinstance(event, Account) and event.epoch is not None:
                seen += 1
                if seen == EPOCHS:
                    answer.cancel()

    # -- the watch

    async def _watch(self) -> None:
        period_s = max(0.5, min(10.0, self.duration_s / 60))
        while True:
            for state in self.directory.running():
                await self._look(state)
            await trio.sleep(period_s)

    async def _look(self, state: NodeState) -> None:
        seen = self.samples.setdefault(state.node_id[:8], Samples())
        at_s = time.monotonic() - self.began_s
        seen.memory_bytes.append((at_s, memory_bytes(state.pid)))
        seen.descriptors.append((at_s, len(list(Path(f"/proc/{state.pid}/fd").iterdir()))))
        try:
            async with processes.connect_to(self.directory, state) as conn:
                figures = (await conn.status()).figures
        except PierError as error:
            self.failures.append(f"status: {error}"[:200])
            return
        for name in HELD:
            value = figures.get(name)
            if isinstance(value, int):
                seen.held.setdefault(name, []).append((at_s, value))

    # -- the verdict

    def thirds(self, samples: list[tuple[float, int]]) -> tuple[float, float]:
        """The medians of the middle and of the last third of the time."""
        middle = [value for at_s, value in samples if self.duration_s / 3 <= at_s < 2 * self.duration_s / 3]
        last = [value for at_s, value in samples if at_s >= 2 * self.duration_s / 3]
        if not middle or not last:
            raise SystemExit("soak: too short to have samples in each third")
        return statistics.median(middle), statistics.median(last)

    def verdict(self) -> dict[str, object]:
        problems, growth = [], {}
        for node, seen in self.samples.items():
            middle, last = self.thirds(seen.memory_bytes)
            growth[node] = round(last / middle - 1.0, 4)
            if last > middle * (1.0 + GROWTH_MAX):
                problems.append(f"{node}: memory {middle / 1e6:.1f} MB, then {last / 1e6:.1f} MB")
            for name, samples in {"descriptors": seen.descriptors, **seen.held}.items():
                before, after = self.thirds(samples)
                if after > before + max(COUNT_SLACK, GROWTH_MAX * before):
                    problems.append(f"{node}: {name} {before:g}, then {after:g}")
        memory = [seen.memory_bytes[-1][1] for seen in self.samples.values()]
        return {
            "hours": round(self.duration_s / 3600, 3),
            "nodes": len(self.samples),
            "done": dict(sorted(self.done.items())),
            "failures": len(self.failures),
            "first_failures": self.failures[:3],
            "memory_mb": [round(each / 1e6, 1) for each in memory],
            "memory_growth": growth,
            "memory_growth_max": max(growth.values()),
            "problems": problems,
            "holds": not problems,
        }


def memory_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) << 10


async def soak(
    folder: Path, nodes: int, duration_s: float, clients: int, pause_s: float
) -> dict[str, object]:
    """Starts a cluster, loads it, ends it; the verdict."""
    (folder / "fw.csv").write_text("g,n\n" + "".join(f"{n % 7},{n}\n" for n in range(ROWS)))
    directory = ClusterDir(folder / "cluster")
    members = processes.prepare(directory, nodes, [f"fw=csv:{folder}/fw.csv"])
    started: list[subprocess.Popen[bytes]] = processes.start_missing(members)
    try:
        await processes.wait_formed(directory, members, started)
        run = Soak(directory, duration_s, pause_s)
        await run.run(clients)
        alive = len(directory.running())
        verdict = run.verdict()
        return {**verdict, "alive": alive, "holds": bool(verdict["holds"]) and alive == nodes}
    finally:
        with trio.CancelScope(shield=True):
            await processes.stop(directory)
        for process in started:
            process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.5, metavar="S", help="between two acts of a client")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        verdict = trio.run(soak, Path(folder), args.nodes, args.hours * 3600, args.clients, args.pause)
    print(json.dumps(verdict))
    return 0 if verdict["holds"] else 1


if __name__ == "__main__":
    sys.exit(main())
