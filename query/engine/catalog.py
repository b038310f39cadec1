"""What tables there are, asked of the nodes themselves: each says what lies with it, answers are merged on the way.

No catalog is kept anywhere for this, so it is right at the moment of asking: a table is what some live node has, in its
own sources or in its part of the DHT.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from overlay.dht.operations import GotObject
from overlay.dht.verbs import Dht
from overlay.objects.name import Prefix
from overlay.spread.account import Account as Coverage
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.batch import Batch, type_name
from query.dataflow.context import Tables
from query.wire import SchemaReceiver, WireError, decode

TOPIC = "tables"
#: Tables one answer may name.
TABLES_MAX = 4_096
#: Columns of one table in an answer.
COLUMNS_MAX = 4_096
#: Ways of partitioning one table that are told apart; with more than one, no key can be trusted anyway.
KEY_WAYS_MAX = 8
#: The type of a column that nodes do not agree on.
UNKNOWN_TYPE = ""
#: Where publishers say what their tables look like: an entry per table and set of key columns (row Q10).
DICTIONARY = "pier.tables"
#: Namespaces that are the system's own or a query's begin so and are not listed.
HIDDEN = ("pier.",)


class TableFacts(msgspec.Struct, frozen=True, array_like=True):
    """A table as one or more nodes know it."""

    name: str
    #: source, published, or both.
    kind: str
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    nodes: int = 1
    #: Partitioning keys in the DHT.
    keys: int = 0
    #: The columns whose texts are the partitioning keys, each way in which the table was published.
    key_columns: Annotated[tuple[tuple[str, ...], ...], msgspec.Meta(max_length=KEY_WAYS_MAX)] = ()

    def plus(self, other: TableFacts) -> TableFacts:
        """What both know together: all columns; a column whose types differ has none that counts."""
        kinds = sorted({*self.kind.split("+"), *other.kind.split("+")})
        columns = dict(zip(self.columns, self.types, strict=False))
        for name, kind in zip(other.columns, other.types, strict=False):
            columns[name] = _merged_type(columns.get(name, kind), kind)
        return TableFacts(
            self.name,
            "+".join(kinds),
            tuple(columns)[:COLUMNS_MAX],
            tuple(columns.values())[:COLUMNS_MAX],
            self.nodes + other.nodes,
            self.keys + other.keys,
            tuple(dict.fromkeys((*self.key_columns, *other.key_columns)))[:KEY_WAYS_MAX],
        )


def _merged_type(one: str, other: str) -> str:
    if one == other or other == "null":
        return one
    return other if one == "null" else UNKNOWN_TYPE


_Facts = Annotated[list[TableFacts], msgspec.Meta(max_length=TABLES_MAX)]
_decoder = msgspec.msgpack.Decoder(_Facts)


class Catalog:
    """Answers for this node, asks for all."""

    def __init__(self, spread: Spread, dht: Dht, tables: Tables) -> None:
        self._spread = spread
        self._dht = dht
        self._tables = tables
        spread.on_arrival(TOPIC, self._asked)

    def ask(self, done: Callable[[list[TableFacts], Coverage], None]) -> None:
        """Tables of the whole ring, by name."""

        def answered(reply: bytes | None, coverage: Coverage) -> None:
            facts = [] if reply is None else _read(reply)
            done(sorted(facts, key=lambda each: each.name), coverage)

        self._spread.start(TOPIC, b"", answered, combine=_merge)

    def _asked(self, branch: Branch) -> None:
        branch.combine = _merge
        entries: list[TableFacts] = []

        def each(objects: list[GotObject]) -> None:
            entries.extend(entry for found in objects for entry in _read(found.value))

        def done() -> None:
            branch.reply(_write(self._here(entries)))

        self._dht.local_scan(Prefix(DICTIONARY), each, done)

    def _here(self, entries: list[TableFacts]) -> list[TableFacts]:
        facts: dict[str, TableFacts] = {}
        for entry in entries[:TABLES_MAX]:
            _add(facts, entry)
        for name in self._tables.names():
            _add(facts, self._source(name))
        for namespace in self._dht.namespaces():
            if not namespace.startswith(HIDDEN):
                published = self._published(namespace)
                if published is not None:
                    _add(facts, published)
        return list(facts.values())

    def _source(self, name: str) -> TableFacts:
        table = self._tables.open(name)
        schema = None if table is None else table.schema()
        if schema is None:
            return TableFacts(name, "source")
        return TableFacts(
            name, "source", tuple(schema.names), tuple(type_name(kind) for kind in schema.types)
        )

    def _published(self, namespace: str) -> TableFacts | None:
        sample, count = self._dht.sample(namespace)
        if sample is None:
            return None
        try:
            batch = decode(sample, SchemaReceiver())
        except WireError:
            return None
        if not isinstance(batch, Batch):
            return None
        types = tuple(type_name(kind) for kind in batch.schema.types)
        return TableFacts(namespace, "published", tuple(batch.schema.names), types, keys=count)


def _add(facts: dict[str, TableFacts], more: TableFacts) -> None:
    here = facts.get(more.name)
    if here is None:
        facts[more.name] = more
    else:
        merged = here.plus(more)
        facts[more.name] = msgspec.structs.replace(merged, nodes=max(here.nodes, more.nodes))


def _merge(left: bytes, right: bytes) -> bytes:
    facts: dict[str, TableFacts] = {}
    for each in (*_read(left), *_read(right)):
        here = facts.get(each.name)
        facts[each.name] = each if here is None else here.plus(each)
    return _write(list(facts.values()))


def dictionary_entry(table: str, columns: Sequence[str], types: Sequence[str], keys: Sequence[str]) -> bytes:
    """What a publisher stores about its table; it is no node that holds rows, so it counts none."""
    return _write([TableFacts(table, "published", tuple(columns), tuple(types), 0, 0, (tuple(keys),))])


def _write(facts: list[TableFacts]) -> bytes:
    return msgspec.msgpack.encode(facts[:TABLES_MAX])


def _read(data: bytes) -> list[TableFacts]:
    """A peer's facts; none when they cannot be read."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []
