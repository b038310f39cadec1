"""The aggregation experiments of PIER 4.2 again: Figures 4.2 to 4.4 (one-shot) and 4.8 to 4.15 (continuous).

COUNT over one relation in the simulator: King-like latencies, 1.5 Mbps FIFO links, timeouts of 5 s, epochs of 5 s. Each
measurement is a row of `docs/experiments/aggregation.csv`; those that are there are not run again, so the experiment
can be continued with more nodes or seeds. Figures are drawn from all rows of so many epochs as SVG beside it, the
claims of the thesis are judged, and `docs/experiments/aggregation.md` is written: the thesis's words beside ours.

    python bench/experiments/aggregation.py --nodes 2,8,32,128,512 --seeds 2 --epochs 30

The rings are static and start with perfect tables (the oracle start); all bytes are the query's.
"""

from __future__ import annotations

import argparse
import csv
import gc
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from aggregation_page import Measured, Row, page, table_of
from chart import Axis, Point, draw
from claim import Claim

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


def measure(strategy: str, nodes: int, seed: int, epochs: int) -> Row:
    # Nodes stay until the end: looking for garbage among them again and again takes longer than making them.
    gc.disable()
    ring = AggregationRing(nodes, seed)
    gc.freeze()
    gc.enable()
    outcome = ring.run(SessionSpec("", parse(strategy), "", epochs=epochs))
    gc.unfreeze()
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


def series(rows: list[Row], strategy: str, column: str) -> list[Point]:
    """Mean and deviation over seeds, by number of nodes."""
    measured = Measured(rows)
    return [
        (n, statistics.mean(each), statistics.pstdev(each))
        for n in measured.sizes
        if (each := measured.values(strategy, column, n))
    ]


def draw_figure(figure: Figure, rows: list[Row]) -> str:
    if figure.column:
        return draw(
            f"Figure {figure.number}: {figure.title}",
            Axis("nodes", log=True),
            Axis(figure.label, log=figure.column == "total_bytes"),
            {name: series(rows, name, figure.column) for name in figure.strategies},
        )
    measured = Measured(rows)
    # Two of them may be missing where they take too long.
    most = max(
        n
        for n in measured.sizes
        if sum(bool(measured.values(name, "nodes", n)) for name in figure.strategies)
        >= len(figure.strategies) - 2
    )
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
            if name in chosen
        },
    )


def claims(one_shot: list[Row], continuous: list[Row]) -> list[Claim]:
    """What the thesis says of the figures: at the largest number of nodes that the compared ones were measured with,
    unless it is said of every number."""
    o, c = Measured(one_shot), Measured(continuous)
    total, most_in, steady_s = "total_bytes", "in_bytes_max", "steady_latency_s"
    flat = ("IP-1L-Optimal", "DHT-1L-Learned", "DHT-ML-Learned")
    hierarchy, tree = "DHT-Hi-Learned", "Tree-Hi-S-Topology"
    found = [
        o.less("4.2", "IP-1L-Optimal has the least total bytes", "IP-1L-Optimal", ONE_SHOT, total),
        o.always(
            "4.2", "DHT-Hi-Optimal costs at most 10 % more", "DHT-Hi-Optimal", "IP-1L-Optimal", total, 1.1
        ),
        o.less("4.3", "combining spares the root", "DHT-Hi-Timeout", ONE_SHOT[:6], most_in),
        o.always("4.4", "DHT-Hi-Optimal answers first", "DHT-Hi-Optimal", "DHT-Hi-Timeout", "latency_s", 1.0),
    ]
    for route in ("IP-1L", "DHT-1L"):
        learned, optimal, timeout = (f"{route}-{timing}" for timing in ("Learned", "Optimal", "Timeout"))
        text = f"timing makes no difference to the bytes of {route}, within 1 %"
        found.append(c.always("4.8", text, learned, timeout, total, 1.01))
        found.append(
            c.less("4.9", f"{learned} is as fast as Optimal, within 0.2 s", learned, [optimal], steady_s, 0.2)
        )
        found.append(c.less("4.9", f"{learned} is faster than Timeout", learned, [timeout], steady_s))
    return [
        *found,
        c.less("4.10", "the hierarchy costs less than passing on", hierarchy, flat[2:], total),
        c.less("4.10", "and less than sending to the root", hierarchy, flat[1:2], total),
        c.less("4.10", "which is better than passing on", flat[1], flat[2:], total),
        c.less("4.11", "the hierarchy is fastest where nodes are many", hierarchy, flat, steady_s),
        c.less("4.12", "the hierarchy spreads the load", hierarchy, flat, most_in),
        c.less("4.13", "Tree-Hi-S-Topology costs less than DHT-Hi-Learned", tree, [hierarchy], total),
        c.less("4.13", "and not more than Tree-Hi-Topology", tree, ["Tree-Hi-Topology"], total),
        c.bounded("4.14", "no node of a tree takes more than 64 children", tree, "in_degree_max", 64.0),
        c.less("4.15", "Tree-Hi-S-Topology is fastest where nodes are many", tree, DYNAMICS, steady_s),
    ]


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
    judged = claims(rows[True], rows[False])
    for claim in judged:
        line = {"name": f"Figure {claim.figure}: {claim.text}", "ours": round(claim.ours, 3)}
        line |= {"peer": round(claim.peer, 3), "peer_name": claim.peer_name}
        print(json.dumps({**line, "ratio": round(claim.ratio, 4), "target": 1.0, "holds": claim.holds}))
    print(f"{sum(claim.holds for claim in judged)} of {len(judged)} claims hold")
    tables = {
        figure.number: table_of(Measured(rows[figure.one_shot]), figure.strategies, figure.column)
        for figure in FIGURES
    }
    (options.out / "aggregation.md").write_text(page(tables, judged))


if __name__ == "__main__":
    main()
