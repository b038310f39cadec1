"""What the planner knows of a table before running: the data dictionary's facts (`query.engine.facts`), made for SQL.

`compile_sql` gets one `TableInfo` for each table that is known; the binder puts it into the `Scan` of that table
(`Scan.info`), where lowering finds it. A table that nobody knows has none, and nothing may be concluded from that.

    info.columns    names with their types; None for a type that nodes do not agree on
    info.kinds      where rows lie: "source" (nodes' own data), "published" (the DHT), or both
    info.keys       the columns of the partitioning key; empty when rows were published in several ways, or not at all
    info.rows       about how many rows the whole ring has; None when no node could tell
    info.bytes      and how many bytes they take where they lie
    info.nodes      how many nodes have some
    info.indexes    name, column and kind of its indexes
    info.columns_left_out    how many columns there are beside those: more than the dictionary tells of one table
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from query.engine.facts import IndexFacts


@dataclass(frozen=True, slots=True)
class TableInfo:
    """Columns, place, partitioning key and size of a table."""

    columns: Mapping[str, pa.DataType | None]
    kinds: tuple[str, ...] = ("source", "published")
    keys: tuple[str, ...] = ()
    rows: int | None = None
    bytes: int | None = None
    nodes: int = 0
    indexes: tuple[IndexFacts, ...] = ()
    columns_left_out: int = 0

    @property
    def row_bytes(self) -> float | None:
        """What a row takes on average; None when that is not known."""
        return self.bytes / self.rows if self.rows and self.bytes is not None else None
