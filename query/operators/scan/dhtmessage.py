"""Scan, DHTMessage: rows that were sent through the overlay, at their owner or on their way (PIER Table 3.3).

With `midway` a node takes what passes through it and stops it there: the upcall with which hierarchical operators
combine on the way to the root (PIER 3.2.2, 4.2). Otherwise it is a scan of what arrives at the owner.
"""

from __future__ import annotations

from typing import ClassVar

from overlay.dht.watch import Passing
from overlay.router import Verdict
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.operators.scan.dht import ScanDht


@register
class ScanDhtMessage(ScanDht):
    """Rows sent with put DHTMessage."""

    TYPE = "scan"
    IMPLEMENTATION = "DHTMessage"
    OPTIONS: ClassVar = (
        *ScanDht.OPTIONS,
        Option("midway", "flag", "whether to take rows that are on their way to another node", False),
    )

    def follow(self, tag: int) -> None:
        super().follow(tag)
        if not self.options["midway"]:
            return

        def passing(object_: Passing) -> Verdict:
            if object_.passage.at_owner or object_.passage.locally_sent:
                return Verdict.FORWARD
            self.context.guard(lambda: self.take(object_.value, tag))
            return Verdict.STOP

        self.subscriptions.append(self.dht.upcall(self.prefix, passing))
