"""About how many rows a relation has and how wide they are, from the dictionary's figures for its tables.

Guesses, as all optimisers make them (Selinger et al. 1979): an equality keeps a tenth of the rows, a comparison a
third, anything else half. None where a table's size is not known: then nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from query.plan import Expression, Function
from ufl.sql.relations import (
    ANTI,
    FULL,
    LEFT,
    RIGHT,
    SEMI,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Ordered,
    Project,
    Relation,
    Scan,
    SetOperation,
    Single,
    Values,
    conjuncts,
    sources_of,
)

_KEPT_BY = {"equal": 0.1, "less": 1 / 3, "greater": 1 / 3, "less_equal": 1 / 3, "greater_equal": 1 / 3}
_KEPT_BY_OTHERS = 0.5
#: Rows that become one group.
_ROWS_A_GROUP = 10
#: Bytes of a column whose table says nothing of its width.
_COLUMN_BYTES = 12.0


@dataclass(frozen=True, slots=True)
class Size:
    """Rows, bytes of a row with all columns, and how many columns those are; nodes that have some of them; and the
    share of the tables' rows that the conditions leave."""

    rows: float
    row_bytes: float
    columns: int
    nodes: int
    kept: float = 1.0

    @property
    def bytes(self) -> float:
        return self.rows * self.row_bytes

    def narrow(self, columns: int) -> Size:
        """With fewer columns."""
        share = min(1.0, max(1, columns) / max(1, self.columns))
        return replace(self, row_bytes=self.row_bytes * share, columns=min(columns, self.columns))


def size_of(relation: Relation) -> Size | None:
    """What is known before running; None when a table below is not known."""
    if isinstance(relation, Scan):
        info = relation.info
        if info is None or info.rows is None:
            return None
        width = info.row_bytes or _COLUMN_BYTES * len(info.columns)
        return Size(info.rows, width, len(info.columns), max(1, info.nodes))
    if isinstance(relation, Values):
        return Size(len(relation.rows), _COLUMN_BYTES * len(relation.shape), len(relation.shape), 1)
    sizes = [size_of(each) for each in sources_of(relation)]
    known = [size for size in sizes if size is not None]
    if not known or len(known) < len(sizes):
        return None
    first = known[0]
    if isinstance(relation, Project):
        return first if relation.keep else first.narrow(len(relation.outputs))
    if isinstance(relation, Filter):
        kept = kept_by(relation.condition)
        return replace(first, rows=first.rows * kept, kept=first.kept * kept)
    if isinstance(relation, Aggregate | Distinct):
        has_keys = isinstance(relation, Distinct) or bool(relation.keys)
        return replace(first, rows=max(1.0, first.rows / _ROWS_A_GROUP) if has_keys else 1.0)
    if isinstance(relation, Ordered):
        return first if relation.limit is None else replace(first, rows=min(first.rows, relation.limit))
    if isinstance(relation, Single):
        return first if relation.keys else replace(first, rows=1.0)
    if isinstance(relation, Join):
        return _joined(relation, known)
    if isinstance(relation, SetOperation):
        return replace(first, rows=sum(size.rows for size in known), nodes=max(size.nodes for size in known))
    return None


def smaller(left: Relation, right: Relation) -> str | None:
    """Which of two sides has fewer rows; None when that is not known."""
    sizes = size_of(left), size_of(right)
    if sizes[0] is None or sizes[1] is None:
        return None
    return "left" if sizes[0].rows < sizes[1].rows else "right"


def kept_by(condition: Expression) -> float:
    """The share of rows that a condition lets through."""
    share = 1.0
    for part in conjuncts(condition):
        share *= _KEPT_BY.get(part.name, _KEPT_BY_OTHERS) if isinstance(part, Function) else _KEPT_BY_OTHERS
    return share


def _joined(join: Join, sides: Sequence[Size]) -> Size:
    left, right = sides
    if join.kind in (SEMI, ANTI):
        return replace(left, rows=left.rows / 2)
    if join.keys:
        rows = max(left.rows * right.kept, right.rows * left.kept)
    else:
        rows = left.rows * right.rows * (_KEPT_BY_OTHERS if join.condition is not None else 1.0)
    least = {LEFT: left.rows, RIGHT: right.rows, FULL: left.rows + right.rows}.get(join.kind, 0.0)
    return Size(
        max(rows, least),
        left.row_bytes + right.row_bytes,
        left.columns + right.columns,
        max(left.nodes, right.nodes),
        left.kept * right.kept,
    )
