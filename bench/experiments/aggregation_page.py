"""Measurements of `aggregation.py` in words: what the thesis says of each figure, what ours show, and the numbers."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from claim import Claim


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
    #: The bytes that came in at the most loaded nodes, largest first; the first again as a number before.
    loaded: str


class Measured:
    """Rows of one kind of query, averaged over seeds."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self.sizes = sorted({row.nodes for row in rows})

    def values(self, strategy: str, column: str, nodes: int) -> list[float]:
        return [
            float(getattr(row, column))
            for row in self._rows
            if (row.strategy, row.nodes) == (strategy, nodes)
        ]

    def of(self, strategy: str, column: str, nodes: int) -> float:
        return statistics.mean(self.values(strategy, column, nodes))

    def common(self, strategies: Sequence[str]) -> list[int]:
        """The numbers of nodes that all of these were measured with."""
        return [n for n in self.sizes if all(self.values(name, "nodes", n) for name in strategies)]

    def less(
        self, figure: str, text: str, ours: str, peers: Sequence[str], column: str, more: float = 0.0
    ) -> Claim:
        """That one is no larger than all others, or than so much more, where nodes are most; others that were not
        measured there, because it would take too long, are left out."""
        n = max(max(self.common([ours, name]), default=0) for name in peers if name != ours)
        others = [name for name in peers if name != ours and self.values(name, column, n)]
        peer = min(others, key=lambda name: self.of(name, column, n))
        of_peer = self.of(peer, column, n) + more
        return Claim(figure, text, self.of(ours, column, n), of_peer, f"{peer} at {n:,}")

    def always(self, figure: str, text: str, ours: str, peer: str, column: str, most: float) -> Claim:
        """That the ratio of two is bounded for every number of nodes."""
        sizes = self.common([ours, peer])
        worst = max(self.of(ours, column, n) / self.of(peer, column, n) for n in sizes)
        return Claim(figure, text, worst, most, f"of {peer}, at every number of nodes")

    def bounded(self, figure: str, text: str, ours: str, column: str, most: float) -> Claim:
        n = self.common([ours])[-1]
        return Claim(figure, text, self.of(ours, column, n), most, f"the bound at {n:,}")


@dataclass(frozen=True, slots=True)
class Words:
    number: str
    title: str
    thesis: str
    ours: str


HEAD = """# The aggregation experiments of the PIER thesis, again

COUNT over one relation by the algorithms of PIER 4.2 (Appendices B and C), in the simulator: King-like latencies, 1.5
Mbps links with FIFO queues in and out, timeouts of 5 s; continuous queries have 30 epochs of 5 s. The rings start with
perfect tables and do no maintenance, so all bytes are the query's (the thesis subtracted those of a second run).
Points are means over seeds, bars their deviation; every number is in [aggregation.csv](aggregation.csv). How the
algorithms work is in [aggregation.md](../aggregation.md). `python bench/experiments/aggregation.py` makes all of this
page; checks at up to 512 nodes run with every test run (`tests/query/aggregation/test_sessions.py`).

Three things differ from PIER throughout. A state of ours is a message of about 95 bytes with all its headers: links
congest later than with larger ones. States go hop by hop in messages of their own, each taken once: congestion causes
no second copies. And these rings never change their routes, so that the S algorithms, which keep the first next
hop, do the same as those that ask the overlay each time.
"""

FIGURES = (
    Words(
        "4.2",
        "total network traffic, one-shot",
        "IP-1L-Optimal always has the least, one state from each node; DHT-1L needs more for the DHT's "
        "messages; DHT-Hi-Timeout is in the middle, because inner nodes send at least twice; DHT-ML, which "
        "combines nothing, costs most. DHT-Hi-Optimal could not be built.",
        "The same order at the bottom: IP-1L-Optimal least, and DHT-Hi-Optimal, which is built, within one "
        "per cent of it at every size. DHT-Hi-Timeout pays 6 to 8 % for the second and third states of inner "
        "nodes, DHT-ML three to four times as much. At the top the order is another: a `put` of the DHT costs "
        "a lookup over several hops and its answer, an object that carries its names, and an acknowledgement, "
        "800 bytes a node at 512 nodes, where passing a small state on over two to four hops takes 225. At "
        "2,048 nodes all put at one moment, the root's link is full for four seconds, and lookups that wait "
        "behind it are repeated: 1,075 bytes a node. With 8,192 it is full for half a minute: 2,516 bytes a node.",
    ),
    Words(
        "4.3",
        "in-bound traffic of the most loaded nodes, one-shot",
        "Combining on the way takes the load off the root and gives it to other nodes, by their number of "
        "children; without it nodes near the root get more too, and the root as much as before.",
        "The same. With the hierarchies the most loaded node gets the states of some forty to fifty children, "
        "without them those of all nodes: a factor that grows with the ring.",
    ),
    Words(
        "4.4",
        "latency of the final answer, one-shot",
        "Optimal timing answers earlier than timeouts, most clearly in small networks; in very large ones a "
        "timeout may be too short, and the first results are revised.",
        "The same, and more of it for the hierarchy: each level of DHT-Hi-Timeout waits its five seconds, so "
        "the last revision comes after 10 to 20 s where DHT-Hi-Optimal needs at most 1.5. DHT-Hi-Optimal is "
        "below DHT-Hi-Timeout at every size, and at 8,192 nodes, where the root of one level needs four "
        "seconds to receive its states, first of all.",
    ),
    Words(
        "4.8",
        "total network traffic by routing and timing",
        "Timing has no discernible effect; IP grows linearly, DHT faster.",
        "The same: the three timings of a routing cost the same bytes. Our `put` remembers the owner of the "
        "root id, so that after the first epoch the DHT's overhead is a factor of about three, not one that "
        "grows.",
    ),
    Words(
        "4.9",
        "latency by routing and timing",
        "Optimal and learned are the same, timeouts slower, whatever the routing.",
        "The same. The means here have the first epoch in them, in which a root that learns waits its five "
        "seconds once; from the second epoch on learned and optimal do not differ.",
    ),
    Words(
        "4.10",
        "total network traffic by structure",
        "IP-1L-Optimal is best, DHT-ML-Learned worst, DHT-Hi-Learned in between and better than "
        "DHT-1L-Learned, whose root is congested and causes retries.",
        "IP-1L-Optimal is best and DHT-Hi-Learned within half a per cent of it from 512 nodes on. Both "
        "algorithms without combining are far above. DHT-1L-Learned is the dearer of them here, by 25 % at "
        "512 nodes and 6 % at 2,048: a state takes about 260 bytes as an object with its acknowledgement, "
        "whatever the number of nodes, and 95 bytes a hop when it is passed on, which is 225 at 512 nodes, "
        "270 at 2,048 and 350 at 8,192. So from 2,048 nodes on every epoch but the first, with its lookups, "
        "is cheaper by DHT-1L, as the thesis says, whose states and hops were larger. With 8,192 nodes it "
        "cannot be measured: the root's link would need 8.5 s for each epoch of 5 s.",
    ),
    Words(
        "4.11",
        "latency by structure",
        "In very large networks the hierarchy is fastest, also against IP-1L-Optimal: the root's link is "
        "congested.",
        "The same crossing, at about 2,000 nodes. Below, one level is faster, since hops cost more than the "
        "queue at the root; beyond, the root of one level needs seconds to receive its states, the hierarchy "
        "about one.",
    ),
    Words(
        "4.12",
        "in-bound traffic of the most loaded nodes by structure",
        "Highly skewed, except for the hierarchy.",
        "The same: with the hierarchy the most loaded nodes get hundreds of times less than the root of the "
        "others.",
    ),
    Words(
        "4.13",
        "total network traffic by dynamism",
        "IP-1L-Optimal is best. Tree-Hi-Topology needs more than DHT-Hi-Learned for its messages to children; "
        "Tree-Hi-S-Topology less, since nobody is congested and nothing is sent again.",
        "IP-1L-Optimal is best, and all three hierarchies are within one per cent of it from 512 nodes on. "
        "The trees cost 0.13 % more than DHT-Hi-Learned: a tree's inner nodes advertise how many more children "
        "they could take, and that number takes one to four bytes more in each of their states than the zero "
        "of the others. Nothing else differs: up to 8,192 nodes no tree sends a redirect, and the thesis's "
        "reason for the other order, states that a congested node got twice, does not exist here.",
    ),
    Words(
        "4.14",
        "in-bound traffic of the most loaded nodes by dynamism",
        "Tree routing spreads the load evenly over all nodes.",
        "The trees are as even, but here there was little to even out: with perfect tables the DHT's own tree "
        "has at most 61 children at a node up to 8,192 nodes, so that a bound of 64 first works at 10,000 "
        "(eleven redirects there). With a bound of 6 at 96 nodes, where the DHT's tree has 29, every node "
        "keeps it after a few epochs; that is a test.",
    ),
    Words(
        "4.15",
        "latency by dynamism",
        "Tree-Hi-S-Topology has the lowest latency in the largest network, the other hierarchies slightly "
        "more.",
        "The hierarchies are together far below IP-1L-Optimal in the largest network (1.06 s against 4.27 s "
        "after the first epoch at 8,192 nodes), and Tree-Hi-S-Topology is level with the best of them.",
    ),
)

TAIL = """## How far it goes

`python bench/experiments/scale.py continuous`: 10,000 nodes, 30 epochs of the default plan, every node in every epoch.
It is to take less than 90 CPU seconds and 0.5 GB; it took 45 CPU seconds and 0.44 GB.

`python bench/experiments/scale.py one-shot`: 100,000 nodes, one COUNT by DHT-Hi-Optimal, in less than 6 GB: it
took 3.88 GB and 303 CPU seconds. PIER's simulator ended at 10,000 nodes for want of memory.

`python bench/experiments/continuous.py`: a hundred continuous queries at once on eight real nodes for five minutes:
checks that no epoch is missed, no node grows by more than 24 MB, and all are gone when cancelled. All 6,000 epochs
came with all eight nodes in them, and no node grew by more than 6 MB.

Each prints one JSON object and fails when its bound is not kept.
"""


def table_of(measured: Measured, strategies: Sequence[str], column: str) -> str:
    """Means by strategy and number of nodes as a Markdown table; without a column, of the most loaded node."""
    column = column or "in_bytes_max"
    lines = [
        "| | " + " | ".join(f"{n:,}" for n in measured.sizes) + " |",
        "|---" * (len(measured.sizes) + 1) + "|",
    ]
    for name in strategies:
        cells = []
        for n in measured.sizes:
            values = measured.values(name, column, n)
            mean = statistics.mean(values) if values else None
            cells.append("–" if mean is None else f"{mean:.2f}" if column.endswith("_s") else f"{mean:,.0f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(tables: Mapping[str, str], judged: Sequence[Claim]) -> str:
    """docs/experiments/aggregation.md."""
    parts = [HEAD]
    for words in FIGURES:
        parts.append(f"## Figure {words.number}: {words.title}\n")
        parts.append(f"![Figure {words.number}](figure-{words.number}.svg)\n")
        parts.append(f"**The thesis:** {words.thesis}\n\n**Ours:** {words.ours}\n")
        parts.append(tables[words.number] + "\n")
    parts.append("## Judged\n\n| figure | claim | ours | against | holds |\n|---|---|---|---|---|")
    parts += [
        f"| {each.figure} | {each.text} | {each.ours:,.2f} | {each.peer:,.2f} ({each.peer_name}) | "
        f"{'yes' if each.holds else '**no**'} |"
        for each in judged
    ]
    return "\n".join([*parts, "", TAIL])
