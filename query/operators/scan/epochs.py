"""Scan, Epochs: the results of every epoch of a put Epochs, at the node that was asked.

A row has the columns `epoch`, `revision` and `nodes` before the keys and results: which epoch it belongs to, whether it
replaces an earlier result because data came late (above 0), and how many nodes' data is in it. The rows of a result
come together in one batch. With `sets` each result is a set of its own, to sort, limit and give out by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa

from query import plan
from query.aggregation.gather import Gather, Whole
from query.aggregation.messages import EpochResult
from query.batch import Batch
from query.causes import Cause, added
from query.dataflow.budget import LimitReached
from query.dataflow.flow import Probe
from query.dataflow.marks import Mark
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.dataflow.source import Source
from query.engine.epochs import TOO_LARGE, session_id
from query.engine.splits import PARTS_MAX, PARTS_STEP, Split
from query.engine.stages import EPOCHS
from query.engine.trees import CHANNEL_BYTES_MAX, Shape, unpack
from query.engine.trees import OPTIONS as TREE_OPTIONS
from query.expr.errors import EvalError, ExprError
from query.operators.groupby.calls import GroupSettings
from query.wire import WireError
from runtime.api import Address, Timer

#: How long the parts of an epoch wait for each other.
PARTS_S = 5.0
#: The columns before keys and results.
COLUMNS = ("epoch", "revision", "nodes")


class OutgrewTree(LimitReached):
    """The groups of an epoch are more than a tree carries."""


@register
class ScanEpochs(Source):
    """Results of a continuous aggregation."""

    TYPE = "scan"
    IMPLEMENTATION = "Epochs"
    OPTIONS: ClassVar = (
        *TREE_OPTIONS,
        Option("table", "text", "the table name of the rows", "epochs"),
        Option(
            "sets",
            "flag",
            "each result is a set of its own, without the columns epoch, revision and nodes: for result Epochs",
            False,
        ),
        Option("states", "flag", "partial states instead of results", False),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        GroupSettings.check(options, spec, opgraph)
        for name in (*options["keys"], *options["aggregates"]):
            if name in COLUMNS and not options["sets"]:
                raise SettingError("keys", f"{name!r} is a column that every result has")

    def open(self) -> None:
        super().open()
        self._shape = Shape(self.options)
        self._id = session_id(self.context.query_id, self.options["channel"])
        self._service = self.context.services["aggregations"]
        self._stops: list[Callable[[], None]] = []
        self._tag: int | None = None
        #: The first epoch of each division; all of it was in one part before.
        self._split: Split | None = None
        self._gathers: list[tuple[int, Gather]] = [(0, Gather())]
        self._timers: dict[int, Timer] = {}
        self._held_bytes = 0

    def brings(self) -> bool:
        return False

    def probe(self, probe: Probe) -> None:
        """The first probe of any kind gets all results as they come."""
        if self._tag is not None:
            self.deliver_end(probe.tag)
            return
        self._tag = probe.tag
        self._listen(self._id, 0, 0)
        exchange, channel = self.context.services["exchange"], self.options["channel"]
        exchange.when_complete(EPOCHS + channel, lambda: self.context.guard(self._end))

    def close(self) -> None:
        self.context.services["splits"].forget(self._id)
        for stop in self._stops:
            stop()
        for timer in self._timers.values():
            timer.cancel()
        self.context.budget.hold(-self._held_bytes, self.name)
        self._held_bytes = 0
        super().close()

    def _listen(self, session: str, generation: int, part: int) -> None:
        def got(root: Address, result: EpochResult) -> None:
            self.context.guard(lambda: self._take(generation, part, root, result))

        self._stops.append(self._service.listen(session, got))

    def _end(self) -> None:
        assert self._tag is not None
        for generation, (_, gather) in enumerate(self._gathers):
            for whole in gather.incomplete():
                self._give(generation, whole)
        if self._split is not None and self._gathers[-1][1].is_empty:
            raise OutgrewTree(
                f"limit {CHANNEL_BYTES_MAX} bytes of partial states in a tree reached in epoch {self._split.first}, "
                "too late in the query to divide them"
            )
        self.deliver_end(self._tag)

    def _take(self, generation: int, part: int, root: Address, result: EpochResult) -> None:
        first, gather = self._gathers[generation]
        if generation + 1 < len(self._gathers) and result.epoch >= self._gathers[generation + 1][0]:
            # What a division has taken over; late data of the epochs before it still counts.
            return
        if result.state == TOO_LARGE:
            self._divide(gather.first_missing(first, result.epoch), gather.parts)
            return
        whole = gather.take(part, root, result)
        self._charge()
        if whole is not None:
            self._give(generation, whole)
        elif gather.parts > 1 and result.epoch not in self._timers:
            self._timers[result.epoch] = self.context.clock.call_later(
                PARTS_S, lambda _: self.context.guard(lambda: self._overdue(generation, result.epoch)), None
            )

    def _overdue(self, generation: int, epoch: int) -> None:
        """Parts of an epoch are missing: what there is goes out, and the rest when it comes."""
        del self._timers[epoch]
        for whole in self._gathers[generation][1].incomplete(epoch):
            self._give(generation, whole)

    def _divide(self, epoch: int, parts: int) -> None:
        """The groups of an epoch were too many for one aggregation: there will be one for each part of them."""
        parts *= PARTS_STEP
        if not self.options["keys"] or parts > PARTS_MAX:
            raise OutgrewTree(
                f"limit {CHANNEL_BYTES_MAX} bytes of partial states in a tree reached in epoch {epoch}"
                + ("" if self.options["keys"] else ", with one group that cannot be divided")
            )
        split = self._split = Split(self._id, len(self._gathers), parts, epoch)
        self._gathers.append((epoch, Gather(parts)))
        for part in range(parts):
            self._listen(split.part_id(part), split.generation, part)
        self.context.services["splits"].announce(split)

    def _give(self, generation: int, whole: Whole) -> None:
        """One result for the client, all its rows in one batch."""
        timer = self._timers.pop(whole.epoch, None)
        if timer is not None:
            timer.cancel()
        tables, causes = [], whole.causes
        for states in whole.states:
            grouping = self._shape.grouping()
            try:
                for state in states:
                    if state:
                        self._shape.add(grouping, unpack(state))
                tables.append(grouping.states() if self.options["states"] else grouping.results())
            except (WireError, ExprError, EvalError, pa.ArrowException) as error:
                self.drop(1, f"malformed states: {error}", Cause.UNREADABLE)
                causes = added(causes, {Cause.UNREADABLE.number: 1})
        if not tables:
            return
        table = pa.concat_tables([each for each in tables if each.num_rows] or tables[:1])
        if self.options["sets"]:
            self._give_set(replace(whole, causes=causes), table)
            return
        columns = [pa.repeat(pa.scalar(getattr(whole, name), pa.int64()), table.num_rows) for name in COLUMNS]
        columns += [column.combine_chunks() for column in table.columns]
        data = pa.RecordBatch.from_arrays(columns, names=[*COLUMNS, *table.column_names])
        assert self._tag is not None
        self.deliver(Batch(self.options["table"], data), self._tag)

    def _give_set(self, whole: Whole, table: pa.Table) -> None:
        """Under a tag of its own, with its end: what is above takes it for the answer to a probe."""
        tag = self.context.next_tag()
        self.context.marks[tag] = Mark(whole.epoch, whole.revision, whole.nodes, causes=whole.causes)
        for data in table.combine_chunks().to_batches():
            self.deliver(Batch(self.options["table"], data), tag)
        self.deliver_end(tag)

    def _charge(self) -> None:
        size = sum(gather.nbytes for _, gather in self._gathers)
        self.context.budget.hold(size - self._held_bytes, self.name)
        self._held_bytes = size
