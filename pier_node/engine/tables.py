"""The node's own tables, by name: what `--source` registers and `scan Local` reads."""

from __future__ import annotations

from query.dataflow.context import LocalTable


class NodeTables:
    """Sources of this node."""

    def __init__(self) -> None:
        self._tables: dict[str, LocalTable] = {}

    def register(self, name: str, table: LocalTable) -> None:
        self._tables[name] = table

    def open(self, table: str) -> LocalTable | None:
        return self._tables.get(table)

    def names(self) -> list[str]:
        return sorted(self._tables)
