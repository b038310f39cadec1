"""Put, Heavy: counts the keys of what it receives, and stores those that occur most. An addition to PIER's operators:
how a join of skewed keys learns of them before it rehashes. `projection Heavy` reads what all nodes have counted.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from query.batch import Batch
from query.dataflow.context import Filters
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.keys import stable_hash
from query.keys.encode import Words
from query.keys.heavy import HeavyKeys
from query.operators.put.placement import without_nulls


@register
class PutHeavy(Operator):
    """Stores which keys are frequent."""

    TYPE = "put"
    IMPLEMENTATION = "Heavy"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("name", "text", "the name of the summary", required=True),
        Option("keys", "expressions", "the key of a row: keys[0] = $dst", required=True),
    )

    def open(self) -> None:
        self._filters: Filters = self.context.services["bloom"]
        self._keys = Evaluator(self, self.options["keys"])
        self._hashes: list[Words] = []
        self._held_bytes = 0

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, keys = without_nulls(*self._keys(batch))
        self._hashes.append(stable_hash(keys, rows.num_rows))
        self._hold(self._held_bytes + self._hashes[-1].nbytes)
        return Flow.MORE

    def finish(self, tag: int) -> None:
        hashed = np.concatenate(self._hashes) if self._hashes else np.empty(0, dtype=np.uint64)
        self._filters.give(self.options["name"], HeavyKeys.counted(hashed).to_bytes())
        self._hashes.clear()
        self._hold(0)
        self.context.sink_ended(self.name)

    def close(self) -> None:
        self._hashes.clear()
        self._hold(0)

    def _hold(self, bytes_: int) -> None:
        self.context.budget.hold(bytes_ - self._held_bytes, self.name)
        self._held_bytes = bytes_
