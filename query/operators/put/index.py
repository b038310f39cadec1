"""Put, Index: makes an index of a published table known to the ring, or takes it back. An addition to PIER's operators,
for CREATE INDEX and DROP INDEX. What it does is said by its settings; a row that comes is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from overlay.dht.messages import Code
from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.engine.facts import IndexFacts
from query.index.keys import PHT, USINGS


@register
class PutIndex(Operator):
    """Defines or drops an index."""

    TYPE = "put"
    IMPLEMENTATION = "Index"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = (
        Option("ns", "text", "the published table", required=True),
        Option("index", "text", "the name of the index", required=True),
        Option("column", "text", "the column; the index is dropped when absent"),
        Option("using", "choice", "in order, or by equality alone", PHT, choices=USINGS),
    )

    @classmethod
    def writes(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (options["ns"],)

    def open(self) -> None:
        self._storing = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return Flow.MORE

    def finish(self, tag: int) -> None:
        options = self.options
        facts = None
        if options["column"] is not None:
            facts = IndexFacts(options["index"], options["column"], options["using"])
        self._storing = True
        self.context.services["indexes"].define(options["ns"], facts, options["index"], self._stored)

    def idle(self) -> bool:
        return not self._storing

    def _stored(self, code: Code) -> None:
        self._storing = False
        if code is not Code.OK:
            message = f"the index {self.options['index']!r} could not be written down: {code.name}"
            self.context.fail(ConnectionError(message))
            return
        self.context.guard(lambda: self.context.sink_ended(self.name))
