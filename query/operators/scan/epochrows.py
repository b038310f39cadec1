"""Scan, EpochRows: the rows of every epoch of a put EpochRows, each epoch a set of its own, at the node that was asked.

Rows come straight from the nodes, their number by the aggregation's algorithm. An epoch is given out when its rows are
there, or a moment after their number is; when more nodes' rows come late, all of it is given out again, as a revision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from query.aggregation.gather import Gather, Whole
from query.aggregation.messages import EpochResult
from query.batch import Batch
from query.causes import Cause, added
from query.dataflow.flow import Probe
from query.dataflow.marks import Mark
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.dataflow.source import Source
from query.engine.epochs import COUNTED, EPOCH_BYTES, session_id
from query.engine.stages import EPOCHS
from query.engine.trees import Shape, unpack
from query.expr.errors import EvalError, ExprError
from query.wire import SchemaReceiver, WireError, decode
from runtime.api import Address, Timer

#: Epochs whose rows are kept in case more come late.
KEPT_EPOCHS = 3
#: What a node says of an epoch further ahead than this is not believed.
AHEAD_EPOCHS = 16
#: A moment: rows left before their number did, on a shorter way.
ROWS_WAIT_S = 0.5


@dataclass(slots=True)
class _Epoch:
    batches: list[Batch] = field(default_factory=list)
    rows: int = 0
    bytes: int = 0
    #: How many rows there are, as the nodes counted them, and the result that said so.
    expected: int = 0
    result: Whole | None = None
    #: The result that was given, and how often.
    last: Whole | None = None
    given: int = 0
    #: Whether rows were missing from it then.
    short: bool = False
    timer: Timer | None = None


@register
class ScanEpochRows(Source):
    """Rows of every epoch."""

    TYPE = "scan"
    IMPLEMENTATION = "EpochRows"
    OPTIONS: ClassVar = (
        Option("channel", "text", "the name that put EpochRows sends to", required=True, most=NAME_CHARS_MAX),
    )

    def open(self) -> None:
        super().open()
        self._shape = Shape(COUNTED)
        self._gather = Gather()
        self._schemas = SchemaReceiver()
        self._epochs: dict[int, _Epoch] = {}
        #: Epochs below this are forgotten.
        self._oldest = 0
        self._stops: list[Callable[[], None]] = []
        self._timer: Timer | None = None

    def brings(self) -> bool:
        return False

    def probe(self, probe: Probe) -> None:
        """The first probe of any kind gets everything as it comes."""
        if self._stops:
            self.deliver_end(probe.tag)
            return
        services, channel, query_id = self.context.services, self.options["channel"], self.context.query_id
        guard = self.context.guard
        self._stops = [
            services["aggregations"].listen(
                session_id(query_id, channel), lambda root, result: guard(lambda: self._counted(root, result))
            ),
            services["peers"].listen(query_id, channel, lambda payload: guard(lambda: self._take(payload))),
        ]
        services["exchange"].when_complete(EPOCHS + channel, lambda: guard(lambda: self._complete(probe.tag)))

    def close(self) -> None:
        for stop in self._stops:
            stop()
        if self._timer is not None:
            self._timer.cancel()
        for number in list(self._epochs):
            self._forget(number)
        super().close()

    def _complete(self, tag: int) -> None:
        """All nodes are done; rows of the last epoch may still be on their way."""
        waits = any(epoch.result is not None for epoch in self._epochs.values())
        self._timer = self.context.clock.call_later(
            ROWS_WAIT_S if waits else 0.0, lambda _: self.context.guard(lambda: self._end(tag)), None
        )

    def _end(self, tag: int) -> None:
        for epoch in list(self._epochs.values()):
            if epoch.result is not None:
                self._give(epoch, epoch.result)
            self._count_missing(epoch)
        self.deliver_end(tag)

    def _count_missing(self, epoch: _Epoch) -> None:
        """Rows that were counted and have not come when nobody waits for them any more."""
        if epoch.given and epoch.short:
            self.drop(epoch.expected - epoch.rows, "rows of an epoch that never came", Cause.NOT_DELIVERED)

    def _take(self, payload: bytes) -> None:
        number = int.from_bytes(payload[:EPOCH_BYTES], "big")
        try:
            batch = decode(payload[EPOCH_BYTES:], self._schemas)
        except WireError as error:
            self.drop(1, f"malformed message: {error}", Cause.UNREADABLE)
            return
        if not isinstance(batch, Batch):
            self.drop(1, "a message without its schema", Cause.UNREADABLE)
            return
        if not self._oldest <= number <= self._oldest + AHEAD_EPOCHS:
            self.drop(batch.num_rows, "late: their epoch is over", Cause.TOO_LATE)
            return
        epoch = self._epochs.setdefault(number, _Epoch())
        self.context.budget.hold(batch.nbytes, self.name)
        epoch.batches.append(batch)
        epoch.rows += batch.num_rows
        epoch.bytes += batch.nbytes
        self._give_if_all(number, epoch)

    def _counted(self, root: Address, result: EpochResult) -> None:
        whole = self._gather.take(0, root, result)
        if whole is None or result.epoch < self._oldest:
            return
        grouping = self._shape.grouping()
        try:
            for state in whole.states[0]:
                if state:
                    self._shape.add(grouping, unpack(state))
            counted = grouping.results().column(0).to_pylist()
        except (WireError, ExprError, EvalError) as error:
            self.drop(1, f"malformed states: {error}", Cause.UNREADABLE)
            return
        epoch = self._epochs.setdefault(result.epoch, _Epoch())
        epoch.expected, epoch.result = counted[0] if counted else 0, whole
        if not self._give_if_all(result.epoch, epoch) and epoch.timer is None:
            epoch.timer = self.context.clock.call_later(ROWS_WAIT_S, self._overdue, result.epoch)
        for number in [each for each in self._epochs if each < result.epoch - KEPT_EPOCHS]:
            self._count_missing(self._epochs[number])
            self._forget(number)
        self._oldest = max(self._oldest, result.epoch - KEPT_EPOCHS)

    def _overdue(self, number: int) -> None:
        epoch = self._epochs.get(number)
        if epoch is not None and epoch.result is not None:
            result = epoch.result
            self.context.guard(lambda: self._give(epoch, result))

    def _give_if_all(self, number: int, epoch: _Epoch) -> bool:
        if epoch.rows < epoch.expected:
            return False
        if epoch.result is not None:
            self._give(epoch, epoch.result)
        elif epoch.last is not None and epoch.short:
            # It was given without some of its rows, which are here now.
            self._give(epoch, epoch.last)
        return True

    def _give(self, epoch: _Epoch, result: Whole) -> None:
        """All rows that are here; those of it that are missing make it partial, and their coming revises it."""
        missing = max(0, epoch.expected - epoch.rows)
        epoch.result, epoch.last, epoch.short = None, result, missing > 0
        revision, epoch.given = epoch.given, epoch.given + 1
        causes = added(result.causes, {Cause.NOT_DELIVERED.number: missing} if missing else {})
        if epoch.timer is not None:
            epoch.timer.cancel()
            epoch.timer = None
        tag = self.context.next_tag()
        self.context.marks[tag] = Mark(result.epoch, revision, result.nodes, causes=causes)
        for batch in epoch.batches:
            self.deliver(batch, tag)
        self.deliver_end(tag)

    def _forget(self, number: int) -> None:
        epoch = self._epochs.pop(number)
        self.context.budget.hold(-epoch.bytes, self.name)
        if epoch.timer is not None:
            epoch.timer.cancel()
