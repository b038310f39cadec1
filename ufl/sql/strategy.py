"""Which strategy a join gets, and why: a hint, or what the dictionary says of the sizes of its sides.

Costs are bytes on the network, of the formulas of PIER 4.3 with rehashing by partition groups:

| strategy | bytes |
|---|---|
| hash | both sides once |
| nested | the replicated side once for every node |
| fetch | a question for each outer row, and all inner rows of its key |
| semi | key and place of every row, then the rows of pairs |
| bloom | filters up and down the tree, then the rows that may have a partner |

A strategy with one more stage must save a good deal to pay for the time; hierarchical joins never save bytes and are
only made when asked for. Nobody knows beforehand how often keys occur, and one very frequent key gives all its rows to
one node. So where much is rehashed, keys are counted first (skew), which costs one more reading of a key column.
"""

from __future__ import annotations

from dataclasses import dataclass

from ufl.sql.hints import BLOOM, FETCH, HASH, NESTED, SEMIJOIN, SKEW
from ufl.sql.relations import Join
from ufl.sql.sizes import Size, size_of

#: Bytes of a key and the place of its row, and of a question for one key.
ID_BYTES, QUESTION_BYTES = 40.0, 60.0
#: Bits a Bloom filter takes for a key at two percent.
FILTER_BITS = 8.5
#: Rows under one key of a published table, as long as nobody has counted them.
ROWS_A_KEY = 2.0
#: By how much a strategy with more stages must be better, and bytes below which none is worth the trouble.
BETTER_BY = 2.0
WORTH_BYTES = 4 << 20
#: Bytes of a rehash from which keys are counted first: a node that got half of them would be felt, counting would not.
COUNTED_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Choice:
    """A strategy, and the reason in words."""

    strategy: str
    why: str


@dataclass(frozen=True, slots=True)
class Sides:
    """What is to be chosen from: sizes of both sides as they would travel, and of the whole inner rows of a fetch."""

    left: Size
    right: Size
    left_columns: int
    right_columns: int

    @property
    def nodes(self) -> int:
        return max(self.left.nodes, self.right.nodes)

    def bytes(self) -> tuple[float, float]:
        return (
            self.left.narrow(self.left_columns).bytes,
            self.right.narrow(self.right_columns).bytes,
        )


def choose(join: Join, offered: dict[str, str], left_columns: int, right_columns: int) -> Choice:
    """The cheapest of the strategies that this join can use. `offered` says for each in which way."""
    left, right = size_of(join.left), size_of(join.right)
    if left is None or right is None:
        return Choice(HASH, "the sizes of its sides are not known")
    sides = Sides(left, right, left_columns, right_columns)
    costs = {name: cost for name in offered if (cost := _cost(name, offered[name], sides)) is not None}
    plain = costs[HASH]
    best = min(costs, key=lambda name: (costs[name] * (1.0 if name in (HASH, NESTED) else BETTER_BY), name))
    if best == HASH and SKEW in offered and plain >= COUNTED_BYTES and sides.nodes > 1:
        return Choice(
            SKEW, f"both sides together are about {_bytes(plain)}, so frequent keys are looked for first"
        )
    if best == HASH or (plain < WORTH_BYTES and best != NESTED):
        return Choice(HASH, f"both sides together are about {_bytes(plain)}")
    return Choice(best, f"about {_bytes(costs[best])} travel instead of {_bytes(plain)}")


def _cost(strategy: str, way: str, sides: Sides) -> float | None:
    left, right = sides.bytes()
    kept = sides.left.kept, sides.right.kept
    pairs = max(sides.left.rows * kept[1], sides.right.rows * kept[0])
    if strategy == HASH:
        return left + right
    if strategy == NESTED:
        return (left if way == "left" else right) * sides.nodes
    if strategy == FETCH:
        outer, inner = (sides.right, sides.left) if way == "left" else (sides.left, sides.right)
        return outer.rows * (QUESTION_BYTES + ROWS_A_KEY * inner.row_bytes)
    if strategy == SEMIJOIN:
        widths = left / max(1.0, sides.left.rows) + right / max(1.0, sides.right.rows)
        return (sides.left.rows + sides.right.rows) * ID_BYTES + pairs * widths
    if strategy == BLOOM:
        keys = sides.left.rows + sides.right.rows
        filters = sides.nodes * 2 * keys * FILTER_BITS / 8
        return filters + left * min(1.0, kept[1] + 0.02) + right * min(1.0, kept[0] + 0.02)
    return None


def _bytes(count: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
