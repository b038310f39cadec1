"""The local engine on one node, against DuckDB on one thread and against plain Python, on the same rows in the same
run.

    python bench/engine.py [--quick]

Batches are pushed through real opgraphs: a scan that merges small batches, operators, a sink that counts. DuckDB
gets the same Arrow table at once. Each figure is the median, over several rounds in which the contenders take turns,
of the ratio of times within one round.
"""

from __future__ import annotations

import argparse
import heapq
import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa

import query.operators  # noqa: F401 - makes the operators known
from query import plan
from query.batch import Batch
from query.dataflow.budget import Budget, Limits
from query.dataflow.context import Context
from query.dataflow.flow import Flow, Probe
from query.dataflow.graph import Dataflow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.scheduler import Scheduler
from query.dataflow.source import Source
from query.keys import use_numba
from query.plan import Array, Constant, Field, Function, Table
from runtime.rng import Rng

ROWS, QUICK_ROWS = 5_000_000, 500_000
JOIN_LEFT, JOIN_RIGHT = 2_000_000, 200_000
JOIN_BATCH_ROWS = 10_000
ROUNDS = 5
MEMORY_BYTES = 8 << 30


class Clock:
    """Real time; timers run when the driver says so."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Any, Any]] = []
        self._count = 0

    def now(self) -> float:
        return time.perf_counter()

    def wall(self) -> float:
        return time.time()

    def call_later(self, delay_s: float, fn: Callable[[Any], None], arg: Any) -> Clock:
        self._count += 1
        heapq.heappush(self._heap, (self.now() + delay_s, self._count, fn, arg))
        return self

    def cancel(self) -> None:
        """Timers of the coalescer may run late here: nothing is held then."""

    def run(self) -> None:
        while self._heap and self._heap[0][0] <= self.now():
            _, _, fn, arg = heapq.heappop(self._heap)
            fn(arg)


@register
class Feed(Source):
    """A scan whose rows the benchmark hands over."""

    TYPE = "bench"
    IMPLEMENTATION = "Feed"

    def probe(self, probe: Probe) -> None:
        self.tag = probe.tag


@register
class Count(Operator):
    """A sink that counts rows and looks at none."""

    TYPE = "bench"
    IMPLEMENTATION = "Count"
    CONSUMERS_MAX: ClassVar[int] = 0

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self.context.sink_ended(self.name)


class Engine:
    """One opgraph, fed by the caller."""

    def __init__(self, *operators: plan.Operator) -> None:
        self.clock = Clock()
        self.done = False
        context = Context(
            query_id="bench",
            clock=self.clock,
            rng=Rng(1),
            scheduler=Scheduler(self.clock),
            budget=Budget(Limits(memory_bytes=MEMORY_BYTES)),
            services={},
            time_us=0,
            fail=_fail,
            complain=lambda operator, reason: _fail(ValueError(f"{operator}: {reason}")),
        )
        self.flow = Dataflow(plan.Opgraph("g", {}, operators), context, self._finished)
        self.flow.start()

    def push(self, source: str, batches: Iterable[Batch]) -> None:
        feed: Any = self.flow.operators[source]
        for batch in batches:
            feed.deliver(batch, feed.tag)
            self.clock.run()

    def end(self, *sources: str) -> int:
        """Ends the sources and runs until the graph is done; rows that reached the sink."""
        for source in sources:
            feed: Any = self.flow.operators[source]
            feed.deliver_end(feed.tag)
        while not self.done:
            self.clock.run()
        rows = self.flow.operators["out"].counters.rows_in
        self.flow.close()
        return rows

    def _finished(self) -> None:
        self.done = True


def _fail(error: Exception) -> None:
    raise error


def operator(name: str, kind: str, *sources: str, **settings: Any) -> plan.Operator:
    type_, _, implementation = kind.partition("/")
    return plan.Operator(name, type_, implementation, sources, settings)


FEED = operator("s", "bench/Feed")


def out(source: str) -> plan.Operator:
    return operator("out", "bench/Count", source)


def fields(*names: str) -> Array:
    return Array(tuple(Field(name) for name in names))


# -- the rows


def connections(rows: int) -> pa.Table:
    """Connections of 10,000 hosts to some well-known and many other ports."""
    rng = np.random.default_rng(1)
    hosts = pa.array([f"10.{n >> 8}.{n & 255}.7" for n in range(10_000)])
    ports = np.where(
        rng.random(rows) < 0.9,
        rng.choice([22, 53, 80, 443, 3389, 8080], rows),
        rng.integers(1024, 1124, rows),
    )
    return pa.table(
        {
            "src": hosts.take(pa.array((rng.random(rows) ** 2 * 10_000).astype(np.int32))),
            "dpt": pa.array(ports.astype(np.int32)),
            "length": pa.array(rng.integers(40, 1500, rows)),
            "ttl": pa.array(rng.integers(1, 255, rows).astype(np.int32)),
        }
    )


def batches(table: pa.Table, rows: int) -> list[Batch]:
    whole = table.combine_chunks()
    return [Batch("fw", data) for data in whole.to_batches(max_chunksize=rows)]


# -- contenders: each returns the seconds it took


Contender = Callable[[], float]


def timed(run: Callable[[], Any]) -> float:
    started_s = time.perf_counter()
    run()
    return time.perf_counter() - started_s


def ours(parts: Sequence[Batch], *operators: plan.Operator) -> Contender:
    def run() -> None:
        engine = Engine(FEED, *operators, out(operators[-1].name))
        engine.push("s", parts)
        assert engine.end("s") > 0

    return lambda: timed(run)


def duck(table: pa.Table, sql: str) -> Contender:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("t", table)
    return lambda: timed(lambda: connection.sql(sql).to_arrow_table())


FILTER = Function("greater", (Field("length"), Constant("300", "long")))
GROUP_SQL = """SELECT src, dpt, count(*), sum(length), min(length), max(ttl), avg(length) FROM t
    WHERE length > 300 GROUP BY src, dpt"""
GROUP = (
    operator("f", "selection", "s", where=FILTER),
    operator(
        "g",
        "groupby",
        "f",
        keys=Table({"src": Field("src"), "dpt": Field("dpt")}),
        aggregates=Table(
            {
                "n": Function("count"),
                "total": Function("sum", (Field("length"),)),
                "low": Function("min", (Field("length"),)),
                "high": Function("max", (Field("ttl"),)),
                "mean": Function("avg", (Field("length"),)),
            }
        ),
    ),
)


def python_groups(parts: Sequence[Batch]) -> Contender:
    """What a plain program does with rows that arrive in small lots: a dictionary of lists."""

    def run() -> None:
        groups: dict[tuple[str, int], list[int]] = {}
        for part in parts:
            data = part.data
            columns = [data.column(n).to_pylist() for n in range(4)]
            for src, dpt, length, ttl in zip(*columns, strict=True):
                if length > 300:
                    key = (src, dpt)
                    group = groups.get(key)
                    if group is None:
                        groups[key] = [1, length, length, ttl]
                    else:
                        group[0] += 1
                        group[1] += length
                        if length < group[2]:
                            group[2] = length
                        if ttl > group[3]:
                            group[3] = ttl
        assert groups

    return lambda: timed(run)


SINGLE: dict[str, tuple[plan.Operator, str]] = {
    "selection": (operator("o", "selection", "s", where=FILTER), "SELECT * FROM t WHERE length > 300"),
    "projection": (
        operator(
            "o",
            "projection/Generate",
            "s",
            columns=Table(
                {"src": Field("src"), "bits": Function("multiply", (Field("length"), Constant("8", "long")))}
            ),
        ),
        "SELECT src, length * 8 FROM t",
    ),
    "dupelim": (
        operator("o", "dupelim", "s", columns=Array(("src", "dpt"))),
        "SELECT DISTINCT ON (src, dpt) * FROM t",
    ),
    "topk": (
        operator("o", "sort/TopK", "s", keys=fields("length", "ttl"), order=Array(("desc",)), limit="100"),
        "SELECT * FROM t ORDER BY length DESC, ttl LIMIT 100",
    ),
}


def join_tables() -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(2)
    left = {"k": rng.integers(0, JOIN_RIGHT, JOIN_LEFT), "v": rng.integers(0, 1000, JOIN_LEFT)}
    right = {"k": rng.permutation(JOIN_RIGHT), "w": rng.integers(0, 1000, JOIN_RIGHT)}
    return pa.table(left), pa.table(right)


def interleaved(left: list[Batch], right: list[Batch]) -> list[tuple[str, Batch]]:
    """Ten batches of the large side to one of the small."""
    times = len(left) // len(right)
    events: list[tuple[str, Batch]] = []
    for number, part in enumerate(right):
        events.append(("r", part))
        events += [("l", each) for each in left[number * times : (number + 1) * times]]
    return events


def our_join(events: list[tuple[str, Batch]], fast: bool) -> Contender:
    def run() -> None:
        engine = Engine(
            operator("l", "bench/Feed"),
            operator("r", "bench/Feed"),
            operator("j", "join", "l", "r", leftkeys=fields("k"), rightkeys=fields("k")),
            out("j"),
        )
        for source, batch in events:
            engine.push(source, (batch,))
        assert engine.end("l", "r") == JOIN_LEFT

    def chosen() -> float:
        use_numba(fast)
        return timed(run)

    return chosen


def python_join(events: list[tuple[str, Batch]]) -> Contender:
    """The same symmetric join with two dictionaries of lists of rows."""

    def run() -> None:
        sides: dict[str, dict[int, list[tuple[int, int]]]] = {"l": defaultdict(list), "r": defaultdict(list)}
        pairs = 0
        for source, batch in events:
            own, other = sides[source], sides["r" if source == "l" else "l"]
            found = []
            for row in zip(*(column.to_pylist() for column in batch.data.columns), strict=True):
                key = row[0]
                own[key].append(row)
                if key in other:
                    found += [row + partner for partner in other[key]]
            pairs += len(found)
        assert pairs == JOIN_LEFT

    return lambda: timed(run)


# -- what is compared with what


def ratio(mine: Contender, peer: Contender, rounds: int) -> tuple[float, float, float]:
    """Median seconds of both and the median of peer's time over mine."""
    mine(), peer()
    times = [(mine(), peer()) if turn % 2 else (peer(), mine())[::-1] for turn in range(rounds)]
    return (
        statistics.median(a for a, _ in times),
        statistics.median(b for _, b in times),
        statistics.median(b / a for a, b in times),
    )


def figure(
    name: str, mine: Contender, peer: Contender, peer_name: str, rows: int, target: float | None, rounds: int
) -> bool:
    mine_s, peer_s, times = ratio(mine, peer, rounds)
    print(
        json.dumps(
            {
                "name": name,
                "ours": round(rows / mine_s),
                "peer": round(rows / peer_s),
                "peer_name": peer_name,
                "unit": "rows/s",
                "ratio": round(times, 3),
                "target": target,
                "holds": target is None or times >= target,
            }
        ),
        flush=True,
    )
    return target is None or times >= target


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, fewer rounds")
    quick = parser.parse_args(arguments).quick
    rows, rounds = (QUICK_ROWS, 3) if quick else (ROWS, ROUNDS)
    pa.set_cpu_count(1)
    table = connections(rows)
    holds = []
    whole = batches(table, 64_000)
    for name, (spec, sql) in SINGLE.items():
        figure(
            f"{name}, batches of 64,000",
            ours(whole, spec),
            duck(table, sql),
            "DuckDB, 1 thread",
            rows,
            None,
            rounds,
        )
    small = batches(table.slice(0, rows // 5), 10)
    mine, peer = ours(small, *GROUP), python_groups(small)
    holds.append(figure("group-by, batches of 10", mine, peer, "Python dict", rows // 5, 3.0, rounds))
    left, right = join_tables()
    events = interleaved(batches(left, JOIN_BATCH_ROWS), batches(right, JOIN_BATCH_ROWS))
    total = JOIN_LEFT + JOIN_RIGHT
    blocking = duckdb.connect()
    blocking.execute("SET threads = 1")
    blocking.register("l", left)
    blocking.register("r", right)

    def peer_join() -> float:
        return timed(lambda: blocking.sql("SELECT * FROM l JOIN r ON l.k = r.k").to_arrow_table())

    for fast in (False, True) if use_numba() else (False,):
        kernels = "numba" if fast else "numpy"
        mine, name = our_join(events, fast), f"symmetric hash join, {kernels}"
        holds.append(figure(name, mine, peer_join, "DuckDB's blocking join, 1 thread", total, 0.12, rounds))
        holds.append(figure(name, mine, python_join(events), "Python dicts", total, 2.0, min(rounds, 3)))
    use_numba(False)
    for size in (1_000, 64_000):
        parts = whole if size == 64_000 else batches(table, size)
        mine, peer = ours(parts, *GROUP), duck(table, GROUP_SQL)
        name = f"filter and group-by (src, dpt), 5 aggregates, batches of {size:,}"
        holds.append(figure(name, mine, peer, "DuckDB, 1 thread", rows, 0.5, rounds))
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
