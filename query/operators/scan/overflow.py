"""Scan, Overflow: this node's own partial states, where those of all nodes outgrew the tree; otherwise nothing.

What follows is a put DHT by the keys of the groups: the query goes on as if it had rehashed from the beginning
(HashGrouping, CAN 4).
"""

from __future__ import annotations

from typing import ClassVar

from query.batch import Batch
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.dataflow.source import Source
from query.operators.groupby.calls import OUT_ROWS


@register
class ScanOverflow(Source):
    """States that a tree did not carry."""

    TYPE = "scan"
    IMPLEMENTATION = "Overflow"
    OPTIONS: ClassVar = (
        Option(
            "channel", "text", "the channel of this opgraph's put Tree", required=True, most=NAME_CHARS_MAX
        ),
    )

    def brings(self) -> bool:
        return False

    def probe(self, probe: Probe) -> None:
        if probe.kind is not ProbeKind.STREAM:
            exchange = self.context.services["exchange"]
            exchange.when_complete(
                f"tree:{self.options['channel']}", lambda: self.context.guard(lambda: self._take(probe.tag))
            )

    def _take(self, tag: int) -> None:
        exchange, channel = self.context.services["exchange"], self.options["channel"]
        if channel in exchange.overflowed and channel in exchange.states:
            for data in exchange.states[channel].combine_chunks().to_batches(max_chunksize=OUT_ROWS):
                self.deliver(Batch("", data), tag)
        self.deliver_end(tag)
