"""Put, IP: sends rows straight to one node (PIER Table 3.3): a root whose address the query names.

Rows are taken up there by a scan IP of the same channel. While too much is unacknowledged, producers pause; a node
that cannot be reached costs the rows, which are counted.
"""

from __future__ import annotations

from typing import ClassVar

from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.engine.messages import PAYLOAD_BYTES_MAX, PeerBatch
from query.wire import encode, split

#: Unacknowledged bytes above which producers pause.
OUTSTANDING_BYTES_MAX = 4 << 20


@register
class PutIp(Operator):
    """Rows to one node, by address."""

    TYPE = "put"
    IMPLEMENTATION = "IP"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("address", "text", "host:port of the node; the node that was asked when absent"),
        Option(
            "channel",
            "text",
            "the name of the scan IP that takes the rows",
            required=True,
            most=NAME_CHARS_MAX,
        ),
    )

    def open(self) -> None:
        services = self.context.services
        self._messenger = services["messenger"]
        self._exchange = services["exchange"]
        self._address = self.options["address"] or services["run"].spec.proxy.address
        self._outstanding_bytes = 0
        self._finished = self._paused = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        for piece in split(batch):
            self._send(piece.num_rows, encode(piece, inline_schema=True))
        if self._outstanding_bytes > OUTSTANDING_BYTES_MAX:
            self._paused = True
            return Flow.PAUSE
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self._finished = True
        self._settle()

    def idle(self) -> bool:
        return self._outstanding_bytes == 0

    def _send(self, rows: int, payload: bytes) -> None:
        if len(payload) > PAYLOAD_BYTES_MAX:
            self.drop(rows, f"a row of more than {PAYLOAD_BYTES_MAX} bytes", Cause.LIMIT)
            return
        self.context.budget.send(0, len(payload), self.name)
        self._outstanding_bytes += len(payload)
        self._exchange.count_sent(f"ip:{self.options['channel']}", 1)
        self.counters.rows_out += rows

        def told(delivered: bool) -> None:
            self._outstanding_bytes -= len(payload)
            self.context.guard(lambda: self._told(rows, delivered))

        message = PeerBatch(self.context.query_id, self.options["channel"], payload)
        self._messenger.send(self._address, message, told)

    def _told(self, rows: int, delivered: bool) -> None:
        if not delivered:
            self._exchange.count_sent(f"ip:{self.options['channel']}", -1)
            self.drop(rows, f"node {self._address} could not be reached", Cause.NOT_DELIVERED)
        if self._paused and self._outstanding_bytes <= OUTSTANDING_BYTES_MAX // 2:
            self._paused = False
            self.resume()
        self._settle()

    def _settle(self) -> None:
        if self._outstanding_bytes == 0:
            if self._finished:
                self.context.sink_ended(self.name)
            self.context.settle()
