"""The join experiments of PIER 4.3 again: Figures 4.16 to 4.21.

The query of the thesis on simulated rings (`pier_node/scenario/join_ring.py`). Each measurement is a row of
`docs/experiments/joins.csv`; those that are there are not run again, so the experiment can be continued with more nodes
or seeds. Figures are drawn from all rows as SVG beside it, and claims are judged at the largest number of nodes.

    python bench/experiments/joins.py --nodes 2,8,16,32,128,512,2048 --sweep 32 --seeds 1
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from chart import Axis, Point, draw
from claim import Claim

from pier_node.scenario.join_ring import Asked, JoinRing

#: Nodes up to which all rows climb to one node hop by hop: every hop of every row is joined on the way, so bytes grow
#: with the square of the nodes.
CLIMBING_BUCKET_NODES_MAX = 32
OUT = Path(__file__).parents[2] / "docs" / "experiments"
#: Percent of S that its condition lets through.
SELECTIVITIES = (5, 20, 40, 80, 100)

#: Names of the curves, and what is asked for them.
ROUTINGS = {
    "partition groups": Asked("hash"),
    "DHT, a put a key": Asked("hash", routing="key"),
    "IP, all nodes known": Asked("hash", routing="known"),
}
STRATEGIES = {
    "symmetric hash": Asked("hash"),
    "Fetch Matches": Asked("fetch"),
    "symmetric semi-join": Asked("semi"),
    "Bloom": Asked("bloom"),
}
HIERARCHIES = {
    "symmetric hash": Asked("hash"),
    "hierarchical": Asked("hierarchical"),
    "hash, one bucket": Asked("hash", one_bucket=True),
    "hier., one bucket": Asked("hierarchical", one_bucket=True),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One query on one ring."""

    strategy: str
    routing: str
    one_bucket: int
    s_percent: int
    nodes: int
    seed: int
    rows: int
    total_bytes: int
    messages: int
    in_bytes_max: int
    #: Until the hundredth result, and until the answer was complete.
    nth_s: float
    complete_s: float
    ended: str


_EMPTY = Row("", "", 0, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, "")


def measure(asked: Asked, nodes: int, seed: int) -> Row:
    outcome = JoinRing(nodes, seed).run(asked)
    return Row(
        asked.strategy,
        asked.routing,
        int(asked.one_bucket),
        asked.s_percent,
        nodes,
        seed,
        outcome.rows,
        outcome.total_bytes,
        outcome.messages,
        outcome.in_bytes_max,
        round(outcome.nth_s, 3),
        round(outcome.complete_s, 3),
        outcome.ended,
    )


class Table:
    """All measurements so far, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = []
        if path.exists():
            kinds = {each.name: type(getattr(_EMPTY, each.name)) for each in fields(Row)}
            with path.open() as file:
                for raw in csv.DictReader(file):
                    self.rows.append(Row(**{name: kinds[name](value) for name, value in raw.items()}))

    def get(self, asked: Asked, nodes: int, seed: int) -> Row:
        for row in self.rows:
            if is_of(row, asked) and (row.nodes, row.seed) == (nodes, seed):
                return row
        began_s = time.process_time()
        row = measure(asked, nodes, seed)
        self.rows.append(row)
        self._save()
        print(f"{row} {time.process_time() - began_s:.1f} CPU s", flush=True)
        return row

    def _save(self) -> None:
        self.rows.sort(
            key=lambda row: (row.strategy, row.routing, row.one_bucket, row.s_percent, row.nodes, row.seed)
        )
        with self._path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [each.name for each in fields(Row)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in self.rows)


def is_of(row: Row, asked: Asked) -> bool:
    return (row.strategy, row.routing, row.one_bucket, row.s_percent) == (
        asked.strategy,
        asked.routing,
        int(asked.one_bucket),
        asked.s_percent,
    )


def climbs_to_one(asked: Asked) -> bool:
    return asked.one_bucket and asked.strategy == "hierarchical"


def with_percent(asked: Asked, s_percent: int) -> Asked:
    return Asked(asked.strategy, s_percent=s_percent, routing=asked.routing, one_bucket=asked.one_bucket)


@dataclass(frozen=True, slots=True)
class Figure:
    number: str
    title: str
    curves: dict[str, Asked]
    column: str
    label: str
    #: Whether the share of S is on the axis, and not the number of nodes.
    sweep: bool = False


BYTES, SECONDS = "bytes on the network", "seconds to the 100th result"
FIGURES = (
    Figure("4.16", "Traffic of a symmetric hash join", ROUTINGS, "total_bytes", BYTES),
    Figure("4.17", "Latency of a symmetric hash join", ROUTINGS, "nth_s", SECONDS),
    Figure("4.18", "Traffic by strategy and selectivity", STRATEGIES, "total_bytes", BYTES, True),
    Figure("4.19", "Latency by strategy and selectivity", STRATEGIES, "nth_s", SECONDS, True),
    Figure("4.20", "Latency of hierarchical joins", HIERARCHIES, "nth_s", SECONDS),
    Figure("4.21", "Traffic of hierarchical joins", HIERARCHIES, "total_bytes", BYTES),
)


def series(rows: Iterable[Row], asked: Asked, column: str, sweep: bool, nodes: int) -> list[Point]:
    """Mean and deviation over seeds, by number of nodes or by the share of S."""
    by_x: dict[int, list[float]] = {}
    for row in rows:
        if sweep and row.nodes == nodes and is_of(row, with_percent(asked, row.s_percent)):
            by_x.setdefault(row.s_percent, []).append(float(getattr(row, column)))
        elif not sweep and is_of(row, asked):
            by_x.setdefault(row.nodes, []).append(float(getattr(row, column)))
    return [(x, statistics.mean(each), statistics.pstdev(each)) for x, each in sorted(by_x.items())]


def draw_figure(figure: Figure, rows: list[Row], sweep_nodes: int) -> str:
    x = Axis("percent of S that its condition lets through") if figure.sweep else Axis("nodes", log=True)
    where = f" ({sweep_nodes} nodes)" if figure.sweep else ""
    return draw(
        f"Figure {figure.number}: {figure.title}{where}",
        x,
        Axis(figure.label, log=figure.column == "total_bytes" and not figure.sweep),
        {
            name: series(rows, asked, figure.column, figure.sweep, sweep_nodes)
            for name, asked in figure.curves.items()
        },
    )


@dataclass(frozen=True, slots=True)
class Measured:
    """Means over seeds: at `nodes` nodes, and at `sweep_nodes` where the share of S varies."""

    rows: Sequence[Row]
    nodes: int
    sweep_nodes: int

    def of(self, asked: Asked, column: str, at: int | None = None) -> float:
        nodes = self.nodes if at is None else at
        return statistics.mean(
            float(getattr(row, column)) for row in self.rows if is_of(row, asked) and row.nodes == nodes
        )

    def swept(self, name: str, percent: int, column: str) -> float:
        return self.of(with_percent(STRATEGIES[name], percent), column, self.sweep_nodes)


def claims(measured: Measured) -> list[Claim]:
    return [*routing_claims(measured), *strategy_claims(measured), *hierarchy_claims(measured)]


def routing_claims(measured: Measured) -> list[Claim]:
    groups, keys, known = (measured.of(asked, "total_bytes") for asked in ROUTINGS.values())
    groups_s, _, known_s = (measured.of(asked, "nth_s") for asked in ROUTINGS.values())
    close = "partition groups cost at most 10 % more than knowing all nodes"
    return [
        Claim("4.16", "the DHT costs more than knowing all nodes", known, keys, "a put a key"),
        Claim("4.16", close, groups, 1.1 * known, "IP + 10 %"),
        Claim("4.17", "and knowing all nodes is faster", known_s, groups_s, "partition groups"),
    ]


def strategy_claims(measured: Measured) -> list[Claim]:
    total, swept = "total_bytes", measured.swept
    low, high = min(SELECTIVITIES), max(SELECTIVITIES)
    # Without the bytes of the results, which every strategy sends.
    fetch = [
        swept("Fetch Matches", percent, total) - 2_048 * swept("Fetch Matches", percent, "rows")
        for percent in (low, high)
    ]
    semi = [swept("symmetric semi-join", percent, total) for percent in (low, 40, 80)]
    bend = abs((semi[2] - semi[1]) / 40 / ((semi[1] - semi[0]) / (40 - low)) - 1)
    apart = abs(swept("Bloom", high, total) / swept("symmetric hash", high, total) - 1)
    little = 0.75 * swept("symmetric hash", low, total)
    few = swept("Bloom", low, total)
    others_s = max(swept(name, 40, "nth_s") for name in STRATEGIES if name != "Bloom")
    bloom_s = swept("Bloom", 40, "nth_s")
    flat = "Fetch Matches is flat but for its results, within 15 %"
    return [
        Claim("4.18", flat, fetch[1], 1.15 * fetch[0], "at the lowest"),
        Claim("4.18", "the semi-join grows linearly: slopes within 35 %", bend, 0.35, "bound"),
        Claim(
            "4.18", "Bloom filters win at low selectivity", few, little, "three quarters of symmetric hash"
        ),
        Claim("4.18", "and meet symmetric hash at high", apart, 0.25, "bound"),
        Claim("4.19", "Bloom is the slowest to the 100th result", others_s, bloom_s, "Bloom"),
    ]


def hierarchy_claims(measured: Measured) -> list[Claim]:
    hashed, climbing, bucket, bucket_climbing = HIERARCHIES.values()
    both = max(row.nodes for row in measured.rows if is_of(row, bucket_climbing))
    faster_s, slower_s = measured.of(climbing, "nth_s"), measured.of(hashed, "nth_s")
    climbing_s, bucket_s = (measured.of(each, "nth_s", both) for each in (bucket_climbing, bucket))
    less, more = measured.of(hashed, "total_bytes"), measured.of(climbing, "total_bytes")
    at_one = f"also where all rows meet at one node ({both} nodes)"
    return [
        Claim("4.20", "the hierarchy is faster", faster_s, slower_s, "symmetric hash"),
        Claim("4.20", at_one, climbing_s, bucket_s, "hash, one bucket"),
        Claim("4.21", "and costs more", less, more, "hierarchical"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="2,8,32,128,512", help="numbers of nodes, with commas")
    parser.add_argument("--sweep", type=int, default=64, help="nodes of the figures by selectivity")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table = Table(options.out / "joins.csv")
    sizes = [int(each) for each in options.nodes.split(",")]
    for seed in range(1, options.seeds + 1):
        for asked in STRATEGIES.values():
            for percent in SELECTIVITIES:
                table.get(with_percent(asked, percent), options.sweep, seed)
        for nodes in sizes:
            for asked in {**ROUTINGS, **HIERARCHIES}.values():
                if nodes <= CLIMBING_BUCKET_NODES_MAX or not climbs_to_one(asked):
                    table.get(asked, nodes, seed)
    for figure in FIGURES:
        path = options.out / f"figure-{figure.number}.svg"
        path.write_text(draw_figure(figure, table.rows, options.sweep))
    missed = [row for row in table.rows if row.ended != "complete"]
    for row in missed:
        print(f"incomplete: {row}")
    judged = claims(Measured(table.rows, max(sizes), options.sweep))
    for claim in judged:
        report(f"Figure {claim.figure}: {claim.text}", claim.ours, claim.peer, claim.peer_name, claim.holds)
    held = sum(claim.holds for claim in judged)
    report("claims of PIER 4.3", held, len(judged), "claims", held == len(judged) and not missed)


def report(name: str, ours: float, peer: float, peer_name: str, holds: bool) -> None:
    line = {"name": name, "ours": round(ours, 3), "peer": round(peer, 3), "peer_name": peer_name}
    print(json.dumps({**line, "ratio": round(ours / peer, 3), "target": 1.0, "holds": holds}))


if __name__ == "__main__":
    main()
