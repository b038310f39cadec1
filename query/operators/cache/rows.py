"""Cache, Rows: keeps rows at this node and passes on only their keys and where they are. An addition to PIER's
operators: one side of its symmetric semi-join (PIER 4.3.2), whose other end is `join Rows`.

Of each row go up the columns of `keys`, and `<id>.at` and `<id>.row`: this node's address and the number of the row
here. The rows stay until the query is over on all nodes (`query.engine.kept`).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option


def id_columns(name: str) -> tuple[str, str]:
    """The columns that say where a row is: the node's address, and its number there."""
    return f"{name}.at", f"{name}.row"


@register
class CacheRows(Operator):
    """Rows stay, what identifies them goes on."""

    TYPE = "cache"
    IMPLEMENTATION = "Rows"
    OPTIONS: ClassVar = (
        Option(
            "channel",
            "text",
            "the name under which join Rows fetches them",
            required=True,
            most=NAME_CHARS_MAX,
        ),
        Option("keys", "expression table", "columns that go on: keys[k] = $src", required=True),
        Option("id", "text", "what the columns that identify a row are called in front of the dot", "id"),
    )

    def open(self) -> None:
        services = self.context.services
        self._keys = Evaluator(self, list(self.options["keys"].values()))
        self._names = [*self.options["keys"], *id_columns(self.options["id"])]
        self._address: str = services["address"]
        limits = services["run"].spec.limits
        self._store = services["kept"].keep(self.context.query_id, self.options["channel"], limits.time_s)
        self._held_bytes = 0

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, keys = self._keys(batch)
        if rows.num_rows == 0:
            return Flow.MORE
        first = self._store.rows
        self._store.append(rows)
        self._hold(self._store.nbytes)
        at = pa.array([self._address]).take(pa.array(np.zeros(rows.num_rows, dtype=np.int32)))
        numbers = pa.array(np.arange(first, first + rows.num_rows))
        data = pa.RecordBatch.from_arrays([*keys, at, numbers], names=self._names)
        return self.emit(Batch(rows.table, data), tag)

    def close(self) -> None:
        self._hold(0)

    def _hold(self, bytes_: int) -> None:
        self.context.budget.hold(bytes_ - self._held_bytes, self.name)
        self._held_bytes = bytes_
