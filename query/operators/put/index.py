"""Put, Index: makes an index of a published table known to the ring, or takes it back. An addition to PIER's operators,
for CREATE INDEX and DROP INDEX. What it does is said by its settings; a row that comes is passed over.
"""

from __future__ import annotations

from typing import ClassVar

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.engine.facts import IndexFacts
from query.index.defining import Made
from query.index.keys import PHT, USINGS


class IndexExists(ValueError):
    """Another index has the name: it was made at the same time, or the planner had not heard of it."""


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

    def open(self) -> None:
        self._storing = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        return Flow.MORE

    def finish(self, tag: int) -> None:
        options, defining = self.options, self.context.services["indexes"].defining
        self._storing = True
        if options["column"] is None:
            defining.drop(options["ns"], options["index"], self._stored)
        else:
            facts = IndexFacts(options["index"], options["column"], options["using"])
            defining.create(options["ns"], facts, self._stored)

    def idle(self) -> bool:
        return not self._storing

    def _stored(self, made: Made) -> None:
        self._storing = False
        name = self.options["index"]
        if made is Made.TAKEN:
            self.context.fail(IndexExists(f"there is an index {name!r} already; DROP INDEX takes it away"))
            return
        if made is Made.NOT_STORED:
            self.context.fail(ConnectionError(f"the index {name!r} could not be written down; try again"))
            return
        self.context.guard(lambda: self.context.sink_ended(self.name))
