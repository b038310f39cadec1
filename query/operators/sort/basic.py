"""Sort, Basic: all rows of a probe in order, when it ends. An addition to PIER's operators, for SQL's ORDER BY.

Sorting needs all rows at once, within the query's memory; sort TopK needs only those it returns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from query import plan
from query.batch import Batch
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns
from query.operators.sort.held import HeldRows
from query.operators.sort.order import KEYS, directions

#: Probes answered at a time.
TAGS_MAX = 1_024


@register
class Sort(InTurns):
    """Rows in order."""

    TYPE = "sort"
    IMPLEMENTATION = "Basic"
    OPTIONS: ClassVar[Sequence[Option]] = KEYS

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        directions(options)

    def open(self) -> None:
        super().open()
        self._keys = Evaluator(self, self.options["keys"])
        self._order = directions(self.options)
        self._held: dict[int, HeldRows] = {}
        self._charged_bytes = 0

    def rows_max(self) -> int | None:
        """How many rows can count at all."""
        return None

    def offset(self) -> int:
        return 0

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, keys = self._keys(batch)
        held = self._held.get(tag)
        if held is None:
            assert len(self._held) < TAGS_MAX, "too many open probes"
            held = self._held[tag] = HeldRows(self._order, self.rows_max())
        held.add(rows, keys)
        self._charge()
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self.work(self._give(tag))

    def close(self) -> None:
        super().close()
        self._held.clear()
        self._charge()

    def _give(self, tag: int) -> Iterator[Flow]:
        held = self._held.get(tag)
        if held is not None:
            for batch in held.take(self.offset()):
                yield self.emit(batch, tag)
            del self._held[tag]
            self._charge()
        self.emit_end(tag)

    def _charge(self) -> None:
        size = sum(held.nbytes for held in self._held.values())
        self.context.budget.hold(size - self._charged_bytes, self.name)
        self._charged_bytes = size
