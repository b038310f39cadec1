"""What is known of a table, by one node or by several together: the record of the data dictionary.

The dictionary lives in the DHT, in the namespace `pier.tables`, under the table's name in small letters. It has two
kinds of entries, all of them soft state:

    of a publisher   columns, types and the columns of the partitioning key; kept as long as the rows
    of a node        what lies with it: columns, types, and about how many rows of how many bytes (`describing.py`)

The SQL planner gets the sum of a table's entries as a `TableInfo` (`ufl.sql.tables`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from query.counts import Count, total

#: Tables one answer may name.
TABLES_MAX = 4_096
#: Columns of one table in an answer.
COLUMNS_MAX = 4_096
#: Ways of partitioning one table that are told apart; with more than one, no key can be trusted anyway.
KEY_WAYS_MAX = 8
#: Indexes of one table.
INDEXES_MAX = 64
#: The type of a column that nodes do not agree on.
UNKNOWN_TYPE = ""
#: The dictionary's namespace.
DICTIONARY = "pier.tables"
#: Namespaces that are the system's own or a query's begin so and are not listed.
HIDDEN = ("pier.",)


class IndexFacts(msgspec.Struct, frozen=True, array_like=True):
    """An index of a published table: its name, the column, and how it finds values (`query.index.keys`)."""

    name: str
    column: str
    using: str
    #: Tells it from others that have had its name.
    mark: str = ""
    #: Whether every row that there was when it was made is in it; only then it is used.
    whole: bool = False

    @property
    def namespace(self) -> str:
        """Where its entries lie."""
        return f"pier.x.{self.name}.{self.mark}"


class TableFacts(msgspec.Struct, frozen=True, array_like=True):
    """A table as one or more nodes know it."""

    name: str
    #: source, published, or both.
    kind: str
    columns: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    #: Nodes that have rows of it.
    nodes: Count = 1
    #: The columns whose texts are the partitioning keys, each way in which the table was published.
    key_columns: Annotated[tuple[tuple[str, ...], ...], msgspec.Meta(max_length=KEY_WAYS_MAX)] = ()
    #: About how many rows of how many bytes there are, as far as `sized` of the nodes could tell.
    rows: Count = 0
    bytes: Count = 0
    sized: Count = 0
    indexes: Annotated[tuple[IndexFacts, ...], msgspec.Meta(max_length=INDEXES_MAX)] = ()
    #: Columns that there are beside those above, at least.
    columns_left_out: Count = 0

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
            total(self.nodes, other.nodes),
            tuple(dict.fromkeys((*self.key_columns, *other.key_columns)))[:KEY_WAYS_MAX],
            total(self.rows, other.rows),
            total(self.bytes, other.bytes),
            total(self.sized, other.sized),
            tuple(dict.fromkeys((*self.indexes, *other.indexes)))[:INDEXES_MAX],
            max(self.columns_left_out, other.columns_left_out, len(columns) - COLUMNS_MAX),
        )

    def beside(self, other: TableFacts) -> TableFacts:
        """The same for two things on one node: its own source and its part of what is published."""
        merged = self.plus(other)
        return msgspec.structs.replace(
            merged, nodes=max(self.nodes, other.nodes), sized=max(self.sized, other.sized)
        )


def _merged_type(one: str, other: str) -> str:
    if one == other or other == "null":
        return one
    return other if one == "null" else UNKNOWN_TYPE


def by_name(facts: Iterable[TableFacts], one_node: bool = False) -> list[TableFacts]:
    """One record for each table, of what several say."""
    found: dict[str, TableFacts] = {}
    for each in facts:
        here = found.get(each.name)
        merged = each if here is None else here.beside(each) if one_node else here.plus(each)
        found[each.name] = merged
    return list(found.values())


def dictionary_key(table: str) -> str:
    """The partitioning key of a table's entries: SQL finds names in any case of letters."""
    return table.lower()


def publisher_entry(table: str, columns: Sequence[str], types: Sequence[str], keys: Sequence[str]) -> bytes:
    """What a publisher stores about its table; it is no node that holds rows, so it counts none."""
    return write([TableFacts(table, "published", tuple(columns), tuple(types), 0, (tuple(keys),))])


_Facts = Annotated[list[TableFacts], msgspec.Meta(max_length=TABLES_MAX)]
_decoder: msgspec.msgpack.Decoder[list[TableFacts]] = msgspec.msgpack.Decoder(_Facts)


def write(facts: list[TableFacts]) -> bytes:
    return msgspec.msgpack.encode(facts[:TABLES_MAX])


def read(data: bytes) -> list[TableFacts]:
    """A peer's facts; none when they cannot be read."""
    try:
        return _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return []


def merge(left: bytes, right: bytes) -> bytes:
    return write(by_name((*read(left), *read(right))))
