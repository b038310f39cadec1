"""Put, Bloom: a Bloom filter over the keys of what it receives, stored at the end (PIER Table 3.3, Bloom join).

The filter goes to the service "bloom" under its name, where those of all nodes merge; `selection Bloom` reads it
there. All filters of one name must be given the same `rows` and `error`. Keys with a NULL match nothing and are left
out.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.dataflow.context import Filters
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.expr.columns import nulls
from query.keys import stable_hash
from query.keys.bloom import BloomFilter


@register
class PutBloom(Operator):
    """Stores which keys occur."""

    TYPE = "put"
    IMPLEMENTATION = "Bloom"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("name", "text", "the name of the filter", required=True),
        Option("keys", "expressions", "the key of a row: keys[0] = $dst", required=True),
        Option("rows", "integer", "distinct keys, of all nodes, for which it is made", 100_000, least=1),
        Option("error", "number", "the rate of false positives at that number", 0.01, least=1e-6, most=0.5),
    )

    def open(self) -> None:
        self._filters: Filters = self.context.services["bloom"]
        self._keys = Evaluator(self, self.options["keys"])
        self._filter = BloomFilter.sized(self.options["rows"], self.options["error"])
        self.context.budget.hold(self._filter.nbytes, self.name)
        self._storing = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, keys = self._keys(batch)
        missing = nulls(*keys)
        count = rows.num_rows
        if missing is not None:
            there = pa.array(~missing)
            keys = [key.filter(there) for key in keys]
            count = int(np.count_nonzero(~missing))
        self._filter.add(stable_hash(keys, count))
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self._storing = True
        self._filters.put(self.options["name"], self._filter, self._stored)

    def idle(self) -> bool:
        return not self._storing

    def close(self) -> None:
        self.context.budget.hold(-self._filter.nbytes, self.name)
        self._filter = BloomFilter.sized(1, 0.5)

    def _stored(self) -> None:
        self._storing = False
        self.context.guard(lambda: self.context.sink_ended(self.name))
