"""Put, EpochRows: the rows of every epoch, straight to the node that was asked. An addition to PIER's operators.

As put Epochs, but what comes from below are rows, not states: they go to the asker as they are, and only their number
climbs by the aggregation's algorithm. So the asker knows when it has all rows of an epoch, and of how many nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from query import plan
from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.engine.epochs import COUNTED, EPOCH_BYTES, OPTIONS
from query.engine.messages import PAYLOAD_BYTES_MAX, PeerBatch
from query.operators.put.epochs import FIRST, PutEpochs
from query.operators.put.ip import OUTSTANDING_BYTES_MAX
from query.wire import encode, split


@register
class PutEpochRows(PutEpochs):
    """Rows of every epoch."""

    IMPLEMENTATION = "EpochRows"
    OPTIONS: ClassVar[Sequence[Option]] = (
        *(option for option in OPTIONS if option.name not in COUNTED),
        FIRST,
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        cls.check_times(options)

    def open(self) -> None:
        self.options.update(COUNTED)
        super().open()
        self._messenger = self.context.services["messenger"]
        self._address = self._run.spec.proxy.address
        self._outstanding_bytes = 0
        self._paused = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        reading = self._reading.get(tag)
        if reading is None:
            return Flow.MORE
        reading.grouping.add([], [[]], batch.num_rows)
        head = reading.epoch.to_bytes(EPOCH_BYTES, "big")
        for piece in split(batch):
            self._send(piece.num_rows, head + encode(piece, inline_schema=True))
        self._paused = self._outstanding_bytes > OUTSTANDING_BYTES_MAX
        return Flow.PAUSE if self._paused else Flow.MORE

    def _send(self, rows: int, payload: bytes) -> None:
        if len(payload) > PAYLOAD_BYTES_MAX:
            self.drop(rows, f"a row of more than {PAYLOAD_BYTES_MAX} bytes", Cause.LIMIT)
            return
        self.context.budget.send(rows, len(payload), self.name)
        self._outstanding_bytes += len(payload)

        def told(delivered: bool) -> None:
            self._outstanding_bytes -= len(payload)
            self.context.guard(lambda: self._told(rows, delivered))

        message = PeerBatch(self.context.query_id, self.options["channel"], payload)
        self._messenger.send(self._address, message, told)

    def _told(self, rows: int, delivered: bool) -> None:
        if not delivered:
            self.drop(rows, f"node {self._address} could not be reached", Cause.NOT_DELIVERED)
        if self._paused and self._outstanding_bytes <= OUTSTANDING_BYTES_MAX // 2:
            self._paused = False
            self.resume()
