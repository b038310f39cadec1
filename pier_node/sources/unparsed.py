"""The lines of a firewall log that gave no event, as a table beside it: `fw.unparsed` for `fw`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from pier_node.sources.firewall import FirewallLog
from query.batch import Batch, from_pydict

UNPARSED_SCHEMA = pa.schema(
    [("seen", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("text", pa.string())]
)


class UnparsedLines:
    """The latest lines that did not parse, at most `UNPARSED_KEPT_MAX` of the tail and as many of the last scan."""

    def __init__(self, table: str, log: FirewallLog) -> None:
        self._table = table
        self._log = log

    def schema(self) -> pa.Schema:
        return UNPARSED_SCHEMA

    def scan(self, keys: Batch | None) -> Iterator[Batch]:
        kept = self._log.unparsed()
        columns: dict[str, list[object]] = {
            "seen": [seen for seen, _ in kept],
            "line": [each.number for _, each in kept],
            "reason": [each.reason for _, each in kept],
            "text": [each.text.decode("utf-8", "replace") for _, each in kept],
        }
        yield from_pydict(self._table, columns, UNPARSED_SCHEMA)

    def follow(self, handler: Callable[[Batch], None]) -> Callable[[], None]:
        """They are kept to be asked for; nobody is told of each."""
        return lambda: None
