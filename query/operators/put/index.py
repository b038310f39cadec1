"""Put, Index: makes an index of a published table known to the ring, or takes it back. An addition to PIER's operators,
for CREATE INDEX and DROP INDEX. What it does is said by its settings; rows that come are passed on when it is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.engine.facts import IndexFacts, dictionary_key
from query.index.defining import Made
from query.index.keys import PHT, USINGS


class IndexExists(ValueError):
    """Another index has the name: it was made at the same time, or the planner had not heard of it."""


@register
class PutIndex(Operator):
    """Defines or drops an index."""

    TYPE = "put"
    IMPLEMENTATION = "Index"
    OPTIONS: ClassVar = (
        Option("ns", "text", "the published table", required=True, most=NAME_CHARS_MAX),
        Option("index", "text", "the name of the index", required=True, most=NAME_CHARS_MAX),
        Option("column", "text", "the column; the index is dropped when absent"),
        Option("using", "choice", "in order, or by equality alone", PHT, choices=USINGS),
    )

    @classmethod
    def writes(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Tables whose names differ in capitals alone share their entries in the dictionary."""
        table: str = options["ns"]
        return tuple(dict.fromkeys((table, dictionary_key(table))))

    def open(self) -> None:
        self._storing = False
        self._closed = False
        self._rows: list[Batch] = []

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        self.context.budget.hold(batch.nbytes, self.name)
        self._rows.append(batch)
        return Flow.MORE

    def close(self) -> None:
        self._closed = True
        self.context.budget.hold(-sum(batch.nbytes for batch in self._rows), self.name)
        self._rows = []

    def finish(self, tag: int) -> None:
        options, defining = self.options, self.context.services["indexes"].defining
        self._storing = True

        def stored(made: Made) -> None:
            if not self._closed:
                self.context.guard(lambda: self._stored(made, tag))

        if options["column"] is None:
            defining.drop(options["ns"], options["index"], stored)
        else:
            facts = IndexFacts(options["index"], options["column"], options["using"])
            defining.create(options["ns"], facts, stored)

    def idle(self) -> bool:
        return not self._storing

    def _stored(self, made: Made, tag: int) -> None:
        self._storing = False
        name = self.options["index"]
        if made is Made.TAKEN:
            self.context.fail(IndexExists(f"there is an index {name!r} already; DROP INDEX takes it away"))
            return
        if made is Made.NOT_STORED:
            self.context.fail(ConnectionError(f"the index {name!r} could not be written down; try again"))
            return
        if made is Made.BUILDING:
            self.context.complain(
                self.name, f"the index {name!r} is being built; it is used when it is whole"
            )
        for batch in self._rows:
            self.emit(batch, tag)
        self.emit_end(tag)
