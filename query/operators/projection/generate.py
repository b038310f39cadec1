"""Projection, Generate: computes columns from expressions (PIER Table 3.3)."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from query.batch import Batch, SchemaId
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option


@register
class Generate(Operator):
    """A row of expressions for each row; with `keep` the columns of the input stay in front of them."""

    TYPE = "projection"
    IMPLEMENTATION = "Generate"
    OPTIONS: ClassVar = (
        Option(
            "columns",
            "expression table",
            "name and expression: columns[bits] = multiply($bytes, …)",
            required=True,
        ),
        Option(
            "keep", "flag", "whether the columns of the input stay; one of the same name is replaced", False
        ),
        Option("table", "text", "the table name of the result; that of the input when absent"),
    )

    def open(self) -> None:
        columns = self.options["columns"]
        self._names = list(columns)
        self._evaluator = Evaluator(self, list(columns.values()))
        #: The interned schema of the last output, so that it is not looked up for each batch.
        self._last: tuple[pa.Schema, SchemaId] | None = None

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, columns = self._evaluator(batch)
        names = self._names
        if self.options["keep"]:
            computed = set(names)
            kept = [name for name in rows.schema.names if name not in computed]
            columns = [*(rows.column(name) for name in kept), *columns]
            names = [*kept, *names]
        data = pa.RecordBatch.from_arrays(columns, names=names)
        out = Batch(self.options["table"] or batch.table, data)
        if self._last is not None and self._last[0].equals(data.schema):
            out = Batch(out.table, data, self._last[1])
        else:
            self._last = (data.schema, out.schema_id)
        return self.emit(out, tag)
