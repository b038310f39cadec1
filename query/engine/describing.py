"""What lies on this node, told to the data dictionary: an entry for each table it has rows of.

A node notices within seconds that a table came, went, or has more or fewer keys; rows are counted then, and from time
to time, because that may mean to open files. What has changed enough to matter is published anew; what has not is
renewed with the rest of the node's publications, and what is gone is withdrawn. A node that dies is forgotten when its
entries end.
"""

from __future__ import annotations

import msgspec

from overlay.dht.operations import PutObject
from overlay.dht.publisher import Publisher
from overlay.dht.verbs import Dht
from overlay.objects.name import Name
from query.batch import Batch, type_name
from query.dataflow.context import Tables, with_size
from query.engine.facts import COLUMNS_MAX, DICTIONARY, HIDDEN, TableFacts, by_name, dictionary_key, write
from query.wire import SchemaReceiver, WireError, count_rows, decode
from runtime.api import Runtime

#: Between looks at what tables there are, and at how large they have become.
LOOK_S = 2.0
REVIEW_S = 30.0
#: How long an entry outlives its node.
LIFETIME_S = 150.0
#: Of each entry: a table must not look as if it had lost rows when the node that keeps its entries dies.
COPIES = 2
#: A table that has grown or shrunk by this share is told anew.
CHANGE_SHARE = 0.2
#: Objects of a published table that are looked at, and those of them whose rows are counted.
LOOKED_AT_OBJECTS = 512
COUNTED_OBJECTS = 32


class Holdings:
    """What tables this node has rows of."""

    def __init__(self, dht: Dht, tables: Tables) -> None:
        self._dht = dht
        self._tables = tables
        #: What was said last, and of which shape of the store and names of tables it holds.
        self._stamps: dict[str, int] = {}
        self._shape: tuple[int, list[str]] = (-1, [])

    def here(self) -> list[TableFacts]:
        """One record for each table."""
        return by_name((*self.sources(), *self.published()), one_node=True)

    def sources(self) -> list[TableFacts]:
        return [self._source(name) for name in self._tables.names()]

    def published(self) -> list[TableFacts]:
        found = (self._stored(namespace) for namespace in self._namespaces())
        return [each for each in found if each is not None]

    def stamps(self) -> dict[str, int]:
        """What can be said of all tables without looking into them: own ones count as one, published by keys."""
        shape = (self._dht.shape(), self._tables.names())
        if self._shape != shape:
            self._shape = shape
            keys = {namespace: self._dht.keys_under(namespace) for namespace in self._namespaces()}
            self._stamps = {**dict.fromkeys(self._tables.names(), 1), **keys}
        return self._stamps

    def _namespaces(self) -> list[str]:
        return [each for each in self._dht.namespaces() if not each.startswith(HIDDEN)]

    def _source(self, name: str) -> TableFacts:
        table = self._tables.open(name)
        schema = None if table is None else table.schema()
        if table is None or schema is None:
            return TableFacts(name, "source")
        sized = with_size(table)
        size = None if sized is None else sized.size()
        rows, size_bytes = (0, 0) if size is None else size
        return TableFacts(
            name,
            "source",
            tuple(schema.names[:COLUMNS_MAX]),
            tuple(type_name(kind) for kind in schema.types[:COLUMNS_MAX]),
            rows=rows,
            bytes=size_bytes,
            sized=int(size is not None),
            columns_left_out=max(0, len(schema) - COLUMNS_MAX),
        )

    def _stored(self, namespace: str) -> TableFacts | None:
        """This node's part of a published table, from some of its objects."""
        values, scale = self._dht.sample(namespace, LOOKED_AT_OBJECTS)
        counted = values[:COUNTED_OBJECTS]
        first = next((batch for batch in map(_batch, counted) if batch is not None), None)
        if first is None:
            return None
        schema = first.schema
        counts = [rows for rows in map(_rows, counted) if rows is not None]
        rows_each = sum(counts) / len(counts)
        return TableFacts(
            namespace,
            "published",
            tuple(schema.names),
            tuple(type_name(kind) for kind in schema.types),
            rows=round(rows_each * len(values) * scale),
            bytes=round(sum(map(len, values)) * scale),
            sized=1,
        )


class Describing:
    """Keeps the dictionary's entries of this node as they should be."""

    def __init__(self, runtime: Runtime, publisher: Publisher, holdings: Holdings, node: bytes) -> None:
        self._runtime = runtime
        self._publisher = publisher
        self._holdings = holdings
        self._suffix = node.hex()
        self._told: dict[str, TableFacts] = {}
        self._stamps: dict[str, int] = {}
        self._fresh_until_s = 0.0
        runtime.call_later(LOOK_S, self._look, None)

    def _look(self, _: None) -> None:
        now_s, stamps = self._runtime.now(), self._holdings.stamps()
        if stamps != self._stamps or now_s >= self._fresh_until_s:
            self._stamps, self._fresh_until_s = stamps, now_s + REVIEW_S
            self._tell([each for each in self._holdings.here() if each.columns])
        self._runtime.call_later(LOOK_S, self._look, None)

    def _tell(self, facts: list[TableFacts]) -> None:
        news = [each for each in facts if _differs(each, self._told.get(each.name))]
        names = {each.name for each in facts}
        gone = [name for name in self._told if name not in names]
        for name in gone:
            del self._told[name]
        self._told.update((each.name, each) for each in news)
        self._publisher.withdraw([self._name(name) for name in gone])
        puts = [PutObject(self._name(each.name), write([each]), LIFETIME_S, copies=COPIES) for each in news]
        if puts:
            self._publisher.publish(puts)

    def _name(self, table: str) -> Name:
        return Name(DICTIONARY, dictionary_key(table), f"{self._suffix}/{table}")


def _differs(now: TableFacts, told: TableFacts | None) -> bool:
    """Whether a plan might come out differently."""
    if told is None or msgspec.structs.replace(now, rows=told.rows, bytes=told.bytes) != told:
        return True
    return abs(now.rows - told.rows) > CHANGE_SHARE * told.rows or (
        abs(now.bytes - told.bytes) > CHANGE_SHARE * told.bytes
    )


def _rows(value: bytes) -> int | None:
    """How many rows an object says it has; None for one that has none."""
    try:
        return count_rows(value)
    except WireError:
        return None


def _batch(value: bytes) -> Batch | None:
    """The rows of an object; None for one that has none."""
    try:
        batch = decode(value, SchemaReceiver())
    except WireError:
        return None
    return batch if isinstance(batch, Batch) else None
