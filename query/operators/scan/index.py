"""Scan, Index: rows of a published table found through one of its indexes. An addition to PIER's operators: a secondary
index followed by fetches (PIER 3.3.3).

The index tells under which partitioning keys rows with the wanted values lie; these keys are fetched, wherever their
owners are. What comes has all rows of a key: a selection above keeps those that were meant. It runs at one node.

Where the first rows by the column are enough, entries are read from that end of the index, and more of them as long as
fewer rows than wanted lie before the last entry read: entries may be of rows that changed or went meanwhile, and rows
of the last value may be among those not read. What lies before the last entry is complete: a sort above is right.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got
from overlay.pht.walk import Range
from query import plan
from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option, SettingError
from query.dataflow.source import Source
from query.engine.facts import IndexFacts
from query.expr import ExprError, literal
from query.index.keys import HASH, PHT, USINGS, can_index, equal_keys, ordered_keys
from query.index.service import Reading, partitioning_keys
from query.operators.scan.dht import KEY_UNSURE
from query.plan import Constant, Expression
from query.wire import SchemaReceiver, WireError, decode

#: Partitioning keys fetched at a time.
FETCHED_KEYS = 1_024
#: Entries read beyond the rows wanted at first, and by how much more each time that was not enough.
SPARE_ENTRIES, MORE_ENTRIES = 16, 4
NOT_WHOLE = (
    "the index is not known to be whole, since parts of it were lost or not read; asked again, it is not used"
)


class _First:
    """How far the first rows have been read."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.entries = rows + SPARE_ENTRIES
        #: Partitioning keys whose rows have been fetched, and the values of all these rows.
        self.fetched: set[str] = set()
        self.values: list[bytes] = []

    def has_enough(self, wanted: Range, last: bytes) -> bool:
        """Whether enough rows lie before the last entry that was read: what is unread comes behind them."""
        inside = (key for key in self.values if wanted.has(key))
        return sum(key > last if wanted.descending else key < last for key in inside) >= self._rows


@register
class ScanIndex(Source):
    """Rows by the value of an indexed column."""

    TYPE = "scan"
    IMPLEMENTATION = "Index"
    OPTIONS: ClassVar = (
        Option("ns", "text", "the published table", required=True, most=NAME_CHARS_MAX),
        Option("index", "text", "the name of the index", required=True, most=NAME_CHARS_MAX),
        Option("mark", "text", "what tells it from others that have had its name", "", most=NAME_CHARS_MAX),
        Option("using", "choice", "how it was made", PHT, choices=USINGS),
        Option("low", "expression", "the least value that is wanted; no bound when absent"),
        Option("high", "expression", "the largest value that is wanted; for a hash index the same as low"),
        Option("first", "integer", "so many rows are enough, those first in order; all when absent", least=1),
        Option(
            "order",
            "choice",
            "what is first: the least values or the largest",
            "asc",
            choices=("asc", "desc"),
        ),
        Option("column", "text", "the column that is indexed; needed with first"),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        for bound in ("low", "high"):
            value = _value(bound, options[bound])
            if value is None and options["using"] == HASH:
                raise SettingError(bound, "is required for a hash index", "it finds one value")
        if options["using"] == HASH and options["low"] != options["high"]:
            raise SettingError("high", "must be the same as low for a hash index", "it finds one value")
        if options["first"] is not None and (options["using"] == HASH or not options["column"]):
            raise SettingError("first", "needs an index in order (using = pht) and its column")

    @classmethod
    def reads(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (options["ns"],)

    def open(self) -> None:
        super().open()
        self._schemas = SchemaReceiver()
        self._reading: dict[int, None] = {}
        self._bounds = [_value(bound, self.options[bound]) for bound in ("low", "high")]
        self._facts = IndexFacts(self.options["index"], "", self.options["using"], self.options["mark"])
        self._column: str | None = self.options["column"] if self.options["first"] is not None else None

    def idle(self) -> bool:
        return not self._reading and super().idle()

    def probe(self, probe: Probe) -> None:
        """Set probes get what the index finds now; nothing arrives for a stream probe."""
        if probe.kind is ProbeKind.STREAM:
            return
        self._reading[probe.tag] = None
        indexes = self.context.services["indexes"]

        def found(reading: Reading) -> None:
            self.context.guard(lambda: self._found(reading, probe.tag))

        if self.options["using"] == HASH:
            assert self._bounds[0] is not None, "checked"
            indexes.equal(self._facts, [key for key in equal_keys(self._bounds[0]) if key is not None], found)
        elif self._column is not None:
            self._read_first(_First(self.options["first"]), probe.tag)
        else:
            indexes.between(self._facts, self._range(), found)

    def _range(self, limit: int | None = None) -> Range:
        low, high = (None if each is None else ordered_keys(each)[0] for each in self._bounds)
        return Range(low, high, limit, self.options["order"] == "desc")

    def _found(self, reading: Reading, tag: int) -> None:
        self._require_whole(reading)
        self._fetch(partitioning_keys(reading.entries), tag, lambda: self._answered(tag))

    def _require_whole(self, reading: Reading) -> None:
        if not reading.whole:
            self.drop(1, NOT_WHOLE, Cause.INDEX_NOT_WHOLE)

    def _answered(self, tag: int) -> None:
        self._reading.pop(tag, None)
        self.deliver_end(tag)

    # -- the first rows

    def _read_first(self, first: _First, tag: int) -> None:
        def found(reading: Reading) -> None:
            self.context.guard(lambda: self._found_first(first, reading, tag))

        self.context.services["indexes"].between(self._facts, self._range(first.entries), found)

    def _found_first(self, first: _First, reading: Reading, tag: int) -> None:
        self._require_whole(reading)
        read = reading.entries
        keys = [key for key in partitioning_keys(read) if key not in first.fetched]
        first.fetched.update(keys)

        def fetched() -> None:
            if len(read) < first.entries or first.has_enough(self._range(), read[-1].key):
                self._answered(tag)
            else:
                first.entries *= MORE_ENTRIES
                self._read_first(first, tag)

        self._fetch(keys, tag, fetched, first)

    # -- rows

    def _fetch(
        self, keys: list[str], tag: int, done: Callable[[], None], first: _First | None = None
    ) -> None:
        now, rest = keys[:FETCHED_KEYS], keys[FETCHED_KEYS:]
        if not now:
            done()
            return

        def got(answers: list[Got]) -> None:
            self.context.guard(lambda: self._fetched(answers, tag, first))
            self.context.guard(lambda: self._fetch(rest, tag, done, first))

        self.context.services["dht"].get_many([GetObject(self.options["ns"], key) for key in now], got)

    def _fetched(self, answers: list[Got], tag: int, first: _First | None) -> None:
        for answer in answers:
            if answer.code is not Code.OK:
                self.drop(1, f"not all rows of a key could be read: {answer.code.name}", Cause.NOT_FETCHED)
            elif not answer.sure:
                self.drop(1, KEY_UNSURE, Cause.UNOWNED)
            for found in answer.objects:
                self._take(found.value, tag, first)

    def _take(self, value: bytes, tag: int, first: _First | None) -> None:
        try:
            batch = decode(value, self._schemas)
        except WireError as error:
            self.drop(1, f"malformed object: {error}", Cause.UNREADABLE)
            return
        if isinstance(batch, Batch):
            if first is not None and self._column is not None and self._column in batch.schema.names:
                first.values += [key for key in ordered_keys(batch.column(self._column)) if key is not None]
            self.deliver(batch, tag)
        else:
            self.drop(1, "an object without its schema", Cause.UNREADABLE)


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
