"""Scan, Tree: the partial states of all nodes, combined on their way up the tree; at the node that was asked.

They come when every node has given its own or is known to be gone. Nothing comes when states outgrew the tree: then
scan Overflow has them on each node.
"""

from __future__ import annotations

from typing import ClassVar

from query.causes import Cause
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.dataflow.source import Source
from query.engine.trees import EMPTY, unpack
from query.wire import WireError


@register
class ScanTree(Source):
    """States from the root of the tree."""

    TYPE = "scan"
    IMPLEMENTATION = "Tree"
    OPTIONS: ClassVar = (
        Option("channel", "text", "the name that put Tree sends to", required=True, most=NAME_CHARS_MAX),
    )

    def brings(self) -> bool:
        return False

    def probe(self, probe: Probe) -> None:
        """A stream probe gets nothing: states are complete or not there."""
        if probe.kind is not ProbeKind.STREAM:
            exchange = self.context.services["exchange"]
            exchange.when_complete(
                f"tree:{self.options['channel']}", lambda: self.context.guard(lambda: self._take(probe.tag))
            )

    def _take(self, tag: int) -> None:
        payload = self.context.services["exchange"].taken.get(self.options["channel"], EMPTY)
        if payload != EMPTY:
            try:
                self.deliver(unpack(payload), tag)
            except WireError as error:
                self.drop(1, f"malformed states: {error}", Cause.UNREADABLE)
        self.deliver_end(tag)
