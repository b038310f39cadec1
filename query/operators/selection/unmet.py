"""Selection, Unmet: keeps the pairs whose rows have not met at an earlier node. An addition to PIER's operators: what
keeps its hierarchical join from giving a pair twice (PIER 4.3.4).

Two columns say which nodes the rows of a pair had passed before this one (scan DHTMessage with `path`). If they
have one in common, the pair was made there. Both columns are left out of what goes on.
"""

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
class SelectionUnmet(Operator):
    """Pairs that meet here for the first time."""

    TYPE = "selection"
    IMPLEMENTATION = "Unmet"
    OPTIONS: ClassVar = (
        Option("left", "text", "the column with the path of the left row", required=True),
        Option("right", "text", "the column with the path of the right row", required=True),
    )

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        columns = [self.options["left"], self.options["right"]]
        for name in columns:
            if name not in batch.schema.names:
                raise MissingColumn(f"no column {name!r} with a path")
        left, right = (batch.column(name).to_numpy() for name in columns)
        apart = self.context.services["exchange"].paths.apart(left, right)
        kept = Batch(batch.table, batch.data.drop_columns(columns))
        return self.emit(kept if apart.all() else kept.take(pa.array(apart)), tag)
