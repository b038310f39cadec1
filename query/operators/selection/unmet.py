"""Selection, Unmet: keeps the pairs whose rows have not met at an earlier node. An addition to PIER's operators: what
keeps its hierarchical join from giving a pair twice (PIER 4.3.4).

Two columns say which nodes the rows of a pair had passed before this one (scan DHTMessage with `path`). If they
have one in common, the pair was made there. The columns of paths and ids are left out of what goes on; in their place
comes one with an id of the pair.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.batch.hashing import hash_columns
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.engine.paths import id_column
from query.expr import MissingColumn


@register
class SelectionUnmet(Operator):
    """Pairs that meet here for the first time."""

    TYPE = "selection"
    IMPLEMENTATION = "Unmet"
    OPTIONS: ClassVar = (
        Option("left", "text", "the column with the path of the left row", required=True),
        Option("right", "text", "the column with the path of the right row", required=True),
        Option("pair", "text", "the column for the pair's id", "pair"),
    )

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        paths = [self.options["left"], self.options["right"]]
        ids = [id_column(name) for name in paths]
        for name in (*paths, *ids):
            if name not in batch.schema.names:
                raise MissingColumn(f"no column {name!r} of a path")
        left, right = (batch.column(name).to_numpy() for name in paths)
        apart = self.context.services["exchange"].paths.apart(left, right)
        pairs = pa.array(hash_columns([batch.column(name) for name in ids]).view(np.int64))
        data = batch.data.drop_columns([*paths, *ids]).append_column(self.options["pair"], pairs)
        kept = Batch(batch.table, data)
        return self.emit(kept if apart.all() else kept.take(pa.array(apart)), tag)
