"""Put, Bloom: a Bloom filter over the keys of what it receives, stored at the end (PIER Table 3.3, Bloom join).

The filter goes to the service "bloom" under its name, where those of all nodes merge; `selection Bloom` reads it
there. How many keys there are in all is known when all filters have met, so each node makes room for as many keys from
every node as it has itself; the whole is then cut to what it needs. Keys with a NULL match nothing and are left out.
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
from query.keys.encode import Words

#: Room of the smallest filter: a node with few keys must not crowd the filters of those with many.
KEYS_LEAST = 4_096


@register
class PutBloom(Operator):
    """Stores which keys occur."""

    TYPE = "put"
    IMPLEMENTATION = "Bloom"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("name", "text", "the name of the filter", required=True),
        Option("keys", "expressions", "the key of a row: keys[0] = $dst", required=True),
        Option(
            "rows",
            "integer",
            "distinct keys, of all nodes, for which it is made; from this node's count when absent",
            least=1,
        ),
        Option("error", "number", "the rate of false positives at that number", 0.01, least=1e-6, most=0.5),
    )

    def open(self) -> None:
        self._filters: Filters = self.context.services["bloom"]
        self._keys = Evaluator(self, self.options["keys"])
        #: Hashes of keys seen, and the bytes of them that are charged.
        self._hashes: list[Words] = []
        self._held_bytes = 0
        self._storing = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, keys = self._keys(batch)
        missing = nulls(*keys)
        count = rows.num_rows
        if missing is not None:
            there = pa.array(~missing)
            keys = [key.filter(there) for key in keys]
            count = int(np.count_nonzero(~missing))
        self._hashes.append(np.unique(stable_hash(keys, count)))
        self._hold(self._held_bytes + self._hashes[-1].nbytes)
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self._storing = True
        hashes = np.unique(np.concatenate(self._hashes)) if self._hashes else np.empty(0, dtype=np.uint64)
        rows = self.options["rows"] or max(KEYS_LEAST, len(hashes) * self._filters.nodes)
        filter_ = BloomFilter.sized(rows, self.options["error"])
        filter_.add(hashes)
        self._hashes.clear()
        self._hold(filter_.nbytes)
        self._filters.put(self.options["name"], filter_, self._stored)

    def idle(self) -> bool:
        return not self._storing

    def close(self) -> None:
        self._hashes.clear()
        self._hold(0)

    def _stored(self) -> None:
        self._storing = False
        self.context.guard(lambda: self.context.sink_ended(self.name))

    def _hold(self, bytes_: int) -> None:
        self.context.budget.hold(bytes_ - self._held_bytes, self.name)
        self._held_bytes = bytes_
