"""Scan, Index: rows of a published table found through one of its indexes. An addition to PIER's operators: a secondary
index followed by fetches (PIER 3.3.3).

The index tells under which partitioning keys rows with the wanted values lie; these keys are fetched, wherever their
owners are. What comes has all rows of a key: a selection above keeps those that were meant. It runs at one node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got
from overlay.pht.walk import Range
from query import plan
from query.batch import Batch
from query.batch.key_text import key_texts
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.dataflow.source import Source
from query.engine.facts import IndexFacts
from query.expr import ExprError, literal
from query.index.keys import HASH, PHT, USINGS, can_index, ordered_keys
from query.plan import Constant, Expression
from query.wire import SchemaReceiver, WireError, decode

#: Partitioning keys fetched at a time.
FETCHED_KEYS = 1_024


@register
class ScanIndex(Source):
    """Rows by the value of an indexed column."""

    TYPE = "scan"
    IMPLEMENTATION = "Index"
    OPTIONS: ClassVar = (
        Option("ns", "text", "the published table", required=True),
        Option("index", "text", "the name of the index", required=True),
        Option("using", "choice", "how it was made", PHT, choices=USINGS),
        Option("low", "expression", "the least value that is wanted; no bound when absent"),
        Option("high", "expression", "the largest value that is wanted; for a hash index the same as low"),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        for bound in ("low", "high"):
            value = _value(bound, options[bound])
            if value is None and options["using"] == HASH:
                raise SettingError(bound, "is required for a hash index", "it finds one value")
        if options["using"] == HASH and options["low"] != options["high"]:
            raise SettingError("high", "must be the same as low for a hash index", "it finds one value")

    def open(self) -> None:
        super().open()
        self._schemas = SchemaReceiver()
        self._reading: dict[int, None] = {}
        self._bounds = [_value(bound, self.options[bound]) for bound in ("low", "high")]

    def idle(self) -> bool:
        return not self._reading and super().idle()

    def probe(self, probe: Probe) -> None:
        """Set probes get what the index finds now; nothing arrives for a stream probe."""
        if probe.kind is ProbeKind.STREAM:
            return
        self._reading[probe.tag] = None
        indexes = self.context.services["indexes"]
        facts = IndexFacts(self.options["index"], "", self.options["using"])

        def found(keys: list[str] | None) -> None:
            self.context.guard(lambda: self._found(keys, probe.tag))

        if self.options["using"] == HASH:
            assert self._bounds[0] is not None, "checked"
            indexes.equal(facts, key_texts([self._bounds[0]]), found)
        else:
            low, high = (None if each is None else ordered_keys(each)[0] for each in self._bounds)
            indexes.between(facts, Range(low, high), found)

    def _found(self, keys: list[str] | None, tag: int) -> None:
        if keys is None:
            self.drop(0, "parts of the index could not be read: rows may be missing")
        self._fetch(keys or [], tag)

    def _fetch(self, keys: list[str], tag: int) -> None:
        now, rest = keys[:FETCHED_KEYS], keys[FETCHED_KEYS:]
        if not now:
            self._reading.pop(tag, None)
            self.deliver_end(tag)
            return

        def got(answers: list[Got]) -> None:
            self.context.guard(lambda: self._fetched(answers, rest, tag))

        self.context.services["dht"].get_many([GetObject(self.options["ns"], key) for key in now], got)

    def _fetched(self, answers: list[Got], rest: list[str], tag: int) -> None:
        for answer in answers:
            if answer.code is not Code.OK:
                self.drop(0, f"not all rows of a key could be read: {answer.code.name}")
            for found in answer.objects:
                self._take(found.value, tag)
        self._fetch(rest, tag)

    def _take(self, value: bytes, tag: int) -> None:
        try:
            batch = decode(value, self._schemas)
        except WireError as error:
            self.drop(1, f"malformed object: {error}")
            return
        if isinstance(batch, Batch):
            self.deliver(batch, tag)
        else:
            self.drop(1, "an object without its schema")


def _value(name: str, expression: Expression | None) -> pa.Array | None:
    """A bound as a column of one value; None for no bound."""
    if expression is None:
        return None
    if not isinstance(expression, Constant):
        raise SettingError(name, "is a constant", 'for example low = "10"::long')
    try:
        scalar = literal(expression)
    except ExprError as error:
        raise SettingError(name, str(error)) from None
    if not scalar.is_valid or not can_index(scalar.type):
        raise SettingError(name, "is not a value that an index can find")
    return pa.array([scalar.as_py()], scalar.type)
