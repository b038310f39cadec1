"""The aggregation experiments of PIER 4.2 again: Figures 4.2 to 4.4 (one-shot) and 4.8 to 4.15 (continuous).

COUNT over one relation in the simulator: King-like latencies, 1.5 Mbps FIFO links, timeouts of 5 s, epochs of 5 s. Each
measurement is a row of `docs/experiments/aggregation.csv`; those that are there are not run again, so the experiment
can be continued with more nodes or seeds. Figures are drawn from all rows of so many epochs as SVG beside it, and the
claims of the thesis are judged at the largest number of nodes.

    python bench/experiments/aggregation.py --nodes 2,8,32,128,512 --seeds 2 --epochs 30

The rings are static and start with perfect tables (the oracle start); all bytes are the query's.
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

from pier_node.scenario.aggregation_ring import AggregationRing
from query.aggregation.session import SessionSpec
from query.aggregation.strategy import parse

OUT = Path(__file__).parents[2] / "docs" / "experiments"
#: Nodes shown in the figures of in-bound traffic, as in the thesis.
LOADED_NODES = 50

ONE_SHOT = (
    "IP-1L-Optimal", "IP-1L-Timeout", "DHT-1L-Optimal", "DHT-1L-Timeout",
    "DHT-ML-Optimal", "DHT-ML-Timeout", "DHT-Hi-Optimal", "DHT-Hi-Timeout",
)  # fmt: skip
TIMINGS = (
    "IP-1L-Optimal", "IP-1L-Timeout", "IP-1L-Learned", "DHT-1L-Optimal", "DHT-1L-Timeout", "DHT-1L-Learned",
)  # fmt: skip
STRUCTURES = ("IP-1L-Optimal", "DHT-1L-Learned", "DHT-ML-Learned", "DHT-Hi-Learned")
DYNAMICS = ("IP-1L-Optimal", "DHT-Hi-Learned", "Tree-Hi-Topology", "Tree-Hi-S-Topology")


@dataclass(frozen=True, slots=True)
class Row:
    """One aggregation on one ring."""

    strategy: str
    nodes: int
    seed: int
    epochs: int
    total_bytes: int
    #: Mean over epochs of the time until the last revision of a result.
    latency_s: float
    #: The same without the first epoch, in which nothing has been learned.
    steady_latency_s: float
    #: Epochs whose last result has every node.
    complete: int
    revised: int
    in_degree_max: int
    in_bytes_max: int
    #: The bytes that came in at the most loaded nodes, largest first.
    loaded: str


def measure(strategy: str, nodes: int, seed: int, epochs: int) -> Row:
    outcome = AggregationRing(nodes, seed).run(SessionSpec("", parse(strategy), "", epochs=epochs))
    final = outcome.final()
    latencies = [final[epoch].latency_s for epoch in sorted(final)]
    loaded = sorted(outcome.in_bytes, reverse=True)[:LOADED_NODES]
    return Row(
        strategy,
        nodes,
        seed,
        epochs,
        outcome.total_bytes,
        round(statistics.mean(latencies), 3),
        round(statistics.mean(latencies[1:] or latencies), 3),
        sum(given.nodes == nodes for given in final.values()),
        len(outcome.results) - len(final),
        outcome.in_degree_max,
        loaded[0],
        " ".join(map(str, loaded)),
    )


class Table:
    """All measurements so far, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rows: list[Row] = []
        if path.exists():
            with path.open() as file:
                for raw in csv.DictReader(file):
                    kinds = {each.name: type(getattr(_EMPTY, each.name)) for each in fields(Row)}
                    self.rows.append(Row(**{name: kinds[name](value) for name, value in raw.items()}))

    def get(self, strategy: str, nodes: int, seed: int, epochs: int) -> Row:
        wanted = (strategy, nodes, seed, epochs)
        for row in self.rows:
            if (row.strategy, row.nodes, row.seed, row.epochs) == wanted:
                return row
        began_s = time.process_time()
        row = measure(*wanted)
        self.rows.append(row)
        self._save()
        print(
            f"{strategy} n={nodes} seed={seed} epochs={epochs}: {time.process_time() - began_s:.1f} CPU s",
            flush=True,
        )
        return row

    def _save(self) -> None:
        self.rows.sort(key=lambda row: (row.epochs, row.strategy, row.nodes, row.seed))
        with self._path.open("w", newline="") as file:
            writer = csv.DictWriter(file, [each.name for each in fields(Row)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(row) for row in self.rows)


_EMPTY = Row("", 0, 0, 0, 0, 0.0, 0.0, 0, 0, 0, 0, "")


@dataclass(frozen=True, slots=True)
class Figure:
    number: str
    title: str
    strategies: Sequence[str]
    #: The column drawn against the number of nodes; empty draws the most loaded nodes.
    column: str
    label: str
    one_shot: bool


FIGURES = (
    Figure("4.2", "Total network traffic, one-shot", ONE_SHOT, "total_bytes", "bytes", True),
    Figure("4.3", "In-bound traffic of the most loaded nodes, one-shot", ONE_SHOT, "", "bytes", True),
    Figure("4.4", "Latency of the final answer, one-shot", ONE_SHOT, "latency_s", "seconds", True),
    Figure("4.8", "Total network traffic by routing and timing", TIMINGS, "total_bytes", "bytes", False),
    Figure("4.9", "Latency by routing and timing", TIMINGS, "latency_s", "seconds", False),
    Figure("4.10", "Total network traffic by structure", STRUCTURES, "total_bytes", "bytes", False),
    Figure("4.11", "Latency by structure", STRUCTURES, "latency_s", "seconds", False),
    Figure("4.12", "In-bound traffic of the most loaded nodes by structure", STRUCTURES, "", "bytes", False),
    Figure("4.13", "Total network traffic by dynamism", DYNAMICS, "total_bytes", "bytes", False),
    Figure("4.14", "In-bound traffic of the most loaded nodes by dynamism", DYNAMICS, "", "bytes", False),
    Figure("4.15", "Latency by dynamism", DYNAMICS, "latency_s", "seconds", False),
)


def series(rows: Iterable[Row], strategy: str, column: str) -> list[Point]:
    """Mean and deviation over seeds, by number of nodes."""
    by_nodes: dict[int, list[float]] = {}
    for row in rows:
        if row.strategy == strategy:
            by_nodes.setdefault(row.nodes, []).append(float(getattr(row, column)))
    return [(n, statistics.mean(each), statistics.pstdev(each)) for n, each in sorted(by_nodes.items())]


def draw_figure(figure: Figure, rows: list[Row]) -> str:
    if figure.column:
        return draw(
            f"Figure {figure.number}: {figure.title}",
            Axis("nodes", log=True),
            Axis(figure.label, log=figure.column == "total_bytes"),
            {name: series(rows, name, figure.column) for name in figure.strategies},
        )
    most = max(row.nodes for row in rows)
    chosen = {row.strategy: row for row in rows if row.nodes == most and row.seed == 1}
    return draw(
        f"Figure {figure.number}: {figure.title} ({most} nodes)",
        Axis("nodes, most loaded first"),
        Axis(figure.label, log=True),
        {
            name: [
                (place + 1, max(1.0, float(each)), 0.0)
                for place, each in enumerate(chosen[name].loaded.split())
            ]
            for name in figure.strategies
        },
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """What the thesis says of a figure, and whether our measurements say the same."""

    figure: str
    text: str
    ours: float
    peer: float
    peer_name: str

    @property
    def holds(self) -> bool:
        return self.ours <= self.peer


def claims(one_shot: list[Row], continuous: list[Row], most: int) -> list[Claim]:
    def of(rows: list[Row], strategy: str, column: str) -> float:
        return statistics.mean(
            float(getattr(row, column)) for row in rows if row.nodes == most and row.strategy == strategy
        )

    def least(rows: list[Row], strategies: Sequence[str], column: str) -> float:
        return min(of(rows, name, column) for name in strategies)

    def claim(figure: str, text: str, ours: float, peer: float, peer_name: str) -> None:
        found.append(Claim(figure, text, ours, peer, peer_name))

    found: list[Claim] = []
    c, o = continuous, one_shot
    total, root, steady = "total_bytes", "in_bytes_max", "steady_latency_s"
    others = [name for name in ONE_SHOT if name != "IP-1L-Optimal"]
    apart = ("IP-1L-Optimal", "DHT-1L-Timeout", "DHT-ML-Timeout")
    flat = ("IP-1L-Optimal", "DHT-1L-Learned", "DHT-ML-Learned")
    direct = of(o, "IP-1L-Optimal", total)
    claim("4.2", "IP-1L-Optimal has the least total bytes", direct, least(o, others, total), "the next")
    text = "DHT-Hi-Optimal, impossible for the thesis, costs at most 10 % more than one state a node"
    claim("4.2", text, of(o, "DHT-Hi-Optimal", total), 1.1 * direct, "IP-1L-Optimal and 10 %")
    text = "combining on the way spares the root"
    claim("4.3", text, of(o, "DHT-Hi-Timeout", root), least(o, apart, root), "least without combining")
    text = "DHT-Hi-Optimal answers before DHT-Hi-Timeout"
    claim("4.4", text, of(o, "DHT-Hi-Optimal", steady), of(o, "DHT-Hi-Timeout", steady), "DHT-Hi-Timeout")
    text = "learned is as fast as optimal after the first epoch, within 0.2 s"
    learned = of(c, "DHT-1L-Learned", steady)
    claim("4.9", text, learned, of(c, "DHT-1L-Optimal", steady) + 0.2, "DHT-1L-Optimal and 0.2 s")
    claim("4.9", "and faster than timeouts", learned, of(c, "DHT-1L-Timeout", steady), "DHT-1L-Timeout")
    text = "the hierarchy costs less than passing on alone"
    claim("4.10", text, of(c, "DHT-Hi-Learned", total), of(c, "DHT-ML-Learned", total), "DHT-ML-Learned")
    text = "the hierarchy is fastest where nodes are many"
    claim("4.11", text, of(c, "DHT-Hi-Learned", steady), least(c, flat, steady), "fastest of the flat ones")
    text = "the hierarchy spreads the load"
    claim("4.12", text, of(c, "DHT-Hi-Learned", root), least(c, flat, root), "least of the flat ones")
    text = "a tree that stays costs less than one that is found anew"
    claim("4.13", text, of(c, "Tree-Hi-S-Topology", total), of(c, "DHT-Hi-Learned", total), "DHT-Hi-Learned")
    text = "no node of a tree takes more than 64 children"
    claim("4.14", text, of(c, "Tree-Hi-S-Topology", "in_degree_max"), 64.0, "the bound")
    text = "Tree-Hi-S-Topology has the lowest latency where nodes are many"
    claim("4.15", text, of(c, "Tree-Hi-S-Topology", steady), least(c, DYNAMICS[:3], steady), "the next")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="2,8,32,128,512", help="numbers of nodes, with commas")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    table = Table(options.out / "aggregation.csv")
    sizes = [int(each) for each in options.nodes.split(",")]
    rows: dict[bool, list[Row]] = {}
    for one_shot, epochs in ((True, 1), (False, options.epochs)):
        names = dict.fromkeys(
            name for figure in FIGURES if figure.one_shot is one_shot for name in figure.strategies
        )
        for nodes in sizes:
            for seed in range(1, options.seeds + 1):
                for name in names:
                    table.get(name, nodes, seed, epochs)
        rows[one_shot] = [row for row in table.rows if row.epochs == epochs and row.strategy in names]
    for figure in FIGURES:
        path = options.out / f"figure-{figure.number}.svg"
        path.write_text(draw_figure(figure, rows[figure.one_shot]))
    missed = [row for each in rows.values() for row in each if row.complete != row.epochs]
    for row in missed:
        print(
            f"incomplete: {row.strategy} n={row.nodes} seed={row.seed}: {row.complete} of {row.epochs} epochs"
        )
    judged = claims(rows[True], rows[False], max(row.nodes for row in rows[False]))
    for claim in judged:
        report(f"Figure {claim.figure}: {claim.text}", claim.ours, claim.peer, claim.peer_name, claim.holds)
    held = sum(claim.holds for claim in judged)
    report("claims of PIER 4.2", held, len(judged), "claims", held == len(judged) and not missed)


def report(name: str, ours: float, peer: float, peer_name: str, holds: bool) -> None:
    line = {"name": name, "ours": round(ours, 3), "peer": round(peer, 3), "peer_name": peer_name}
    print(json.dumps({**line, "ratio": round(ours / peer, 3), "target": 1.0, "holds": holds}))


if __name__ == "__main__":
    main()
