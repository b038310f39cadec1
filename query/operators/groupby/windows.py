"""Group-by, Windows: results of windows of time, whose partial states come in one epoch or in several. An addition to
PIER's operators; at the asker, above a scan Epochs with `states`.

The groups of an epoch are given out when it ends. Groups that were given out before, because rows of their window
came late or a node's clock is behind, are combined with what came then and given out again, whole, as a revision of
their own. So many groups are remembered; the oldest are forgotten first, and then count as new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from query import plan
from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns
from query.engine.trees import OPTIONS as TREE_OPTIONS
from query.engine.trees import Shape
from query.operators.groupby.calls import GroupSettings

#: Groups that are remembered in case rows come late.
GROUPS_MAX = 100_000


@register
class GroupWindows(InTurns):
    """Results and revised results."""

    TYPE = "groupby"
    IMPLEMENTATION = "Windows"
    OPTIONS: ClassVar = (
        *(option for option in TREE_OPTIONS if option.name != "channel"),
        Option(
            "groups", "integer", "groups remembered in case rows come late", GROUPS_MAX, least=1, most=1 << 30
        ),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        GroupSettings.check(options, spec, opgraph)

    def open(self) -> None:
        super().open()
        self._shape = Shape(self.options)
        self._keys = list(self.options["keys"])
        #: States by the values of the keys, a batch of one row each, in the order in which they were last given.
        self._given: dict[tuple[Any, ...], pa.RecordBatch] = {}
        self._coming: dict[int, list[Batch]] = {}

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        self._coming.setdefault(tag, []).append(batch)
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self.work(self._give(tag))

    def close(self) -> None:
        super().close()
        self._given.clear()
        self._coming.clear()

    def _give(self, tag: int) -> Iterator[Flow]:
        mark = self.context.marks.get(tag)
        fresh, again = self._divided(self._coming.pop(tag, []))
        if fresh is not None:
            yield self.emit(fresh, tag)
        self.emit_end(tag)
        if again is not None and mark is not None:
            # Its own mark: what follows replaces rows that were given before.
            revised = self.context.next_tag()
            self.context.marks[revised] = mark._replace(revision=mark.revision + 1)
            yield self.emit(again, revised)
            self.emit_end(revised)

    def _divided(self, batches: list[Batch]) -> tuple[Batch | None, Batch | None]:
        """Results of groups that are new, and of those that were given before."""
        fresh, again = self._shape.grouping(), self._shape.grouping()
        for batch in batches:
            keys = list(zip(*(batch.column(name).to_pylist() for name in self._keys), strict=True))
            known = [key in self._given for key in keys]
            for grouping, wanted in ((fresh, False), (again, True)):
                rows = [at for at, each in enumerate(known) if each is wanted]
                if rows:
                    self._shape.add(grouping, Batch(batch.table, batch.data.take(pa.array(rows))))
            for key in dict.fromkeys(key for key, was in zip(keys, known, strict=True) if was):
                self._shape.add(again, Batch(batch.table, self._given.pop(key)))
        results = []
        for grouping in (fresh, again):
            results.append(self._result(grouping))
        return results[0], results[1]

    def _result(self, grouping: Any) -> Batch | None:
        states = grouping.states().combine_chunks()
        if states.num_rows == 0:
            return None
        data = states.to_batches()[0]
        keys = zip(*(data.column(name).to_pylist() for name in self._keys), strict=True)
        for at, key in enumerate(keys):
            self._given[key] = data.slice(at, 1)
        while len(self._given) > self.options["groups"]:
            del self._given[next(iter(self._given))]
        return Batch("epochs", grouping.results().combine_chunks().to_batches()[0])
