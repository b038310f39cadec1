"""Projection, Basic: picks and renames columns (PIER Table 3.3). No row changes, so it costs a microsecond a batch."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.expr import MissingColumn


@register
class Projection(Operator):
    """Keeps the columns named in `columns`, under the names in `rename` where given."""

    TYPE = "projection"
    IMPLEMENTATION = "Basic"
    OPTIONS: ClassVar = (
        Option("columns", "texts", "the columns to keep, in this order", required=True),
        Option("rename", "text table", "new names by old: rename[src] = source", {}),
        Option("table", "text", "the table name of the result; that of the input when absent"),
    )

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        names = self.options["columns"]
        known = set(batch.schema.names)
        for name in names:
            if name not in known:
                raise MissingColumn(f"no column {name!r} in {batch.table}", name, batch.schema.names)
        data = batch.data.select(names)
        rename = self.options["rename"]
        if rename:
            data = data.rename_columns([rename.get(name, name) for name in names])
        return self.emit(Batch(self.options["table"] or batch.table, pa.record_batch(data)), tag)
