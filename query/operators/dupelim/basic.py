"""Duplicate elimination, Basic: a row passes when it is first seen (PIER Table 3.3).

Rows are equal when the columns compared are, NULL being equal to NULL; the name of the table does not count. Rows of
other columns are other rows. What was seen is kept per probe and charged to the query's memory.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.expr.errors import ExprLimit
from query.keys import KeyIndex
from query.keys.lookup import key_columns

#: Probes answered at a time.
TAGS_MAX = 1_024
#: Sets of columns told apart under one probe; batches of more are dropped.
SHAPES_MAX = 1_024


@register
class DupElim(Operator):
    """Passes the first of equal rows."""

    TYPE = "dupelim"
    IMPLEMENTATION = "Basic"
    OPTIONS: ClassVar = (
        Option("columns", "texts", "the columns that make rows equal; all of them when absent"),
    )

    def open(self) -> None:
        self._seed = self.context.rng.bits64()
        #: By tag, then by the names of the columns compared.
        self._seen: dict[int, dict[tuple[str, ...], KeyIndex]] = {}
        self._held_bytes: dict[int, int] = {}

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        names = tuple(self.options["columns"] or batch.schema.names)
        columns = key_columns(batch, names)
        index = self._index(tag, names)
        _, fresh = index.add(columns, batch.num_rows)
        self._charge(tag)
        if len(fresh) == batch.num_rows:
            return self.emit(batch, tag)
        keep = np.zeros(batch.num_rows, dtype=np.bool_)
        keep[fresh] = True
        return self.emit(batch.take(pa.array(keep)), tag)

    def finish(self, tag: int) -> None:
        self._forget(tag)
        self.emit_end(tag)

    def close(self) -> None:
        for tag in list(self._seen):
            self._forget(tag)

    def _index(self, tag: int, names: tuple[str, ...]) -> KeyIndex:
        shapes = self._seen.get(tag)
        if shapes is None:
            assert len(self._seen) < TAGS_MAX, "too many open probes"
            shapes = self._seen[tag] = {}
        index = shapes.get(names)
        if index is None:
            if len(shapes) >= SHAPES_MAX:
                raise ExprLimit(f"more than {SHAPES_MAX} sets of columns (SHAPES_MAX)")
            index = shapes[names] = KeyIndex(len(names), self._seed)
        return index

    def _charge(self, tag: int) -> None:
        size = sum(index.nbytes for index in self._seen[tag].values())
        self.context.budget.hold(size - self._held_bytes.get(tag, 0), self.name)
        self._held_bytes[tag] = size

    def _forget(self, tag: int) -> None:
        self._seen.pop(tag, None)
        self.context.budget.hold(-self._held_bytes.pop(tag, 0), self.name)
