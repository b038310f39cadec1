"""Group-by, Windows: results of windows of time, whose partial states come in one epoch or in several. An addition to
PIER's operators; at the asker, above a scan Epochs with `states`.

The groups of an epoch are given out when it ends. Groups that were given out before, because rows of their window
came late or a node's clock is behind, are combined with what came then and given out again, whole, as a revision of
their own. An epoch that is revised itself replaces what it had said. So many groups are remembered; the oldest are
forgotten first, and then count as new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

import msgspec
import pyarrow as pa

from query import plan
from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns
from query.engine.trees import OPTIONS as TREE_OPTIONS
from query.engine.trees import Shape
from query.operators.groupby.calls import OUT_ROWS, GroupSettings

#: Groups that are remembered in case rows come late.
GROUPS_MAX = 100_000

Key: TypeAlias = tuple[Any, ...]


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
        #: By the values of the keys: states of each epoch that had some, a batch of one row, in the order in which
        #: groups were last given.
        self._given: dict[Key, dict[int, pa.RecordBatch]] = {}
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
        epoch, revision = (0, 0) if mark is None else (mark.epoch, mark.revision)
        fresh, again = self._divided(self._coming.pop(tag, []), epoch)
        if revision:
            # All of the epoch came again, and is marked so: what has changed is given, new or not.
            fresh, again = [*fresh, *again], []
        for batch in self._results(fresh):
            yield self.emit(batch, tag)
        self.emit_end(tag)
        if again and mark is not None:
            # Its own mark: what follows replaces rows that were given before.
            revised = self.context.next_tag()
            self.context.marks[revised] = msgspec.structs.replace(mark, revision=1)
            for batch in self._results(again):
                yield self.emit(batch, revised)
            self.emit_end(revised)
        while len(self._given) > self.options["groups"]:
            del self._given[next(iter(self._given))]

    def _divided(self, batches: list[Batch], epoch: int) -> tuple[list[Key], list[Key]]:
        """Takes states in; the keys of groups that are new, and of those that were given before and have changed."""
        fresh: list[Key] = []
        again: list[Key] = []
        for batch in batches:
            for at, key in enumerate(_keys(batch.data, self._keys)):
                states = batch.data.slice(at, 1)
                known = self._given.pop(key, {})
                if not known:
                    fresh.append(key)
                elif epoch not in known or not known[epoch].equals(states):
                    again.append(key)
                self._given[key] = {**known, epoch: states}
        return fresh, again

    def _results(self, keys: list[Key]) -> Iterator[Batch]:
        if not keys:
            return
        grouping = self._shape.grouping()
        for key in keys:
            for states in self._given[key].values():
                self._shape.add(grouping, Batch("", states))
        for data in grouping.results().combine_chunks().to_batches(max_chunksize=OUT_ROWS):
            yield Batch("epochs", data)


def _keys(data: pa.RecordBatch, names: list[str]) -> Iterator[Key]:
    return zip(*(data.column(name).to_pylist() for name in names), strict=True)
