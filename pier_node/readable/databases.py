"""Tables of SQL databases that the node's owner gave a name: SQLite with what Python brings, others through ADBC
drivers.

The owner may list the tables open to queries. SQLite is opened read-only, some thousand rows are fetched at a time,
and no text of a query becomes SQL: tables and columns are quoted, keys are bound.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from pier_node.sources.reader import READ_ROWS, ReadError
from pier_node.sources.sql import query_reader, sqlite_path
from query.batch import Batch, UnsupportedType, from_arrow
from query.causes import Cause
from query.dataflow.context import Dropped, SourceUnavailable

#: Values bound in one statement: SQLite's oldest builds take 999.
BOUND_MAX = 400
#: SQLite's rules of affinity: what a declared type contains decides (sqlite.org/datatype3.html, 3.1). Dates are texts.
_AFFINITIES = (
    (("BOOL",), pa.bool_()),
    (("INT",), pa.int64()),
    (("CHAR", "CLOB", "TEXT", "DATE", "TIME"), pa.string()),
    (("BLOB",), pa.binary()),
    (("REAL", "FLOA", "DOUB", "NUM", "DEC"), pa.float64()),
)
#: The Python types that a column of each type may hold.
_HOLDS: dict[pa.DataType, tuple[type, ...]] = {
    pa.int64(): (int,),
    pa.float64(): (float, int),
    pa.string(): (str,),
    pa.binary(): (bytes,),
    pa.bool_(): (int,),
}


@dataclass(frozen=True, slots=True)
class Database:
    """A database open to queries; no tables listed means all of them."""

    url: str
    tables: tuple[str, ...] = ()


class ReadableDatabases:
    """The service "databases" of a node."""

    def __init__(self, databases: Mapping[str, Database]) -> None:
        self._databases = dict(databases)

    def open_table(
        self, connection: str, table: str, columns: tuple[str, ...], keys: Batch | None, dropped: Dropped
    ) -> Iterator[Batch]:
        database = self._databases.get(connection)
        if database is None:
            raise SourceUnavailable(f"this node has no database {connection!r}")
        if database.tables and table not in database.tables:
            raise SourceUnavailable(f"the table {table!r} of {connection!r} is not open to queries")
        if urlsplit(database.url).scheme in ("sqlite", "sqlite3"):
            return _sqlite_rows(database.url, table, columns, keys, dropped)
        return _driver_rows(database.url, table, columns, dropped)


def _quoted(name: str) -> str:
    if "\0" in name:
        raise SourceUnavailable("the name of a table or column cannot hold NUL")
    return '"' + name.replace('"', '""') + '"'


def _select(table: str, columns: Sequence[str]) -> str:
    listed = ", ".join(_quoted(column) for column in columns) if columns else "*"
    return f"SELECT {listed} FROM {_quoted(table)}"


def _driver_rows(url: str, table: str, columns: Sequence[str], dropped: Dropped) -> Iterator[Batch]:
    """Rows through an ADBC driver; keys are left to the scan."""
    try:
        for data in query_reader(url, _select(table, columns)).batches():
            try:
                yield from_arrow(table, data)
            except (UnsupportedType, pa.ArrowInvalid) as error:
                dropped(data.num_rows, str(error), Cause.NOT_READ)
    except ReadError as error:
        # The address of a database may hold a password; whoever asked does not get to see it.
        raise SourceUnavailable(str(error).replace(url, "the database")[:300]) from None


def _sqlite_rows(
    url: str, table: str, columns: tuple[str, ...], keys: Batch | None, dropped: Dropped
) -> Iterator[Batch]:
    path = sqlite_path(url)
    if not path.is_file():
        raise SourceUnavailable("the database is not there")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            connection.execute("PRAGMA query_only = 1")
            types = _declared(connection, table, columns)
            for statement, values in _statements(_select(table, list(types)), keys, types):
                cursor = connection.execute(statement, values)
                while rows := cursor.fetchmany(READ_ROWS):
                    yield from _batches(table, types, rows, dropped)
    except sqlite3.Error as error:
        raise SourceUnavailable(f"the database cannot be read: {error}") from None


def _declared(
    connection: sqlite3.Connection, table: str, columns: Sequence[str]
) -> dict[str, pa.DataType | None]:
    """The columns to read and their types, as far as the table declares them."""
    info = connection.execute(f"PRAGMA table_info({_quoted(table)})")
    declared = {name: _affinity(kind) for _, name, kind, *_ in info}
    if not declared:
        raise SourceUnavailable(f"there is no table {table!r} in the database")
    for column in columns:
        if column not in declared:
            raise SourceUnavailable(f"there is no column {column!r} in {table!r}")
    return {column: declared[column] for column in columns or declared}


def _affinity(declared: str) -> pa.DataType | None:
    for words, kind in _AFFINITIES:
        if any(word in declared.upper() for word in words):
            return kind
    return None


def _statements(select: str, keys: Batch | None, types: Mapping[str, Any]) -> Iterator[tuple[str, list[Any]]]:
    """The whole table, or one statement for some keys each. Keys on columns not read are left to the scan."""
    if keys is None or any(name not in types for name in keys.schema.names):
        yield select, []
        return
    names = keys.schema.names
    rows = list(zip(*(column.to_pylist() for column in keys.data.columns), strict=True))
    step = max(1, BOUND_MAX // len(names))
    left = "(" + ", ".join(_quoted(name) for name in names) + ")"
    one = "(" + ", ".join("?" * len(names)) + ")"
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        values = [_bound(value) for row in part for value in row]
        yield f"{select} WHERE {left} IN (VALUES {', '.join([one] * len(part))})", values


def _bound(value: Any) -> Any:
    """A value as SQLite binds it; an integer it cannot hold matches nothing."""
    if value is None or isinstance(value, bool | float | str | bytes):
        return value
    if isinstance(value, int):
        return value if -(1 << 63) <= value < 1 << 63 else None
    return str(value)


def _batches(
    table: str, types: dict[str, pa.DataType | None], rows: list[tuple[Any, ...]], dropped: Dropped
) -> Iterator[Batch]:
    """Rows as a batch. SQLite lets a column hold anything: rows that do not fit its type are dropped."""
    fitting = rows
    for position, (name, kind) in enumerate(types.items()):
        if kind is None:
            types[name] = kind = _guessed(row[position] for row in fitting)
        holds = (*_HOLDS[kind], type(None))
        fitting = [row for row in fitting if isinstance(row[position], holds)]
    if len(fitting) < len(rows):
        dropped(len(rows) - len(fitting), "a value is not of the column's type", Cause.UNFIT)
    if fitting:
        columns = [
            pa.array([_typed(value, kind) for value in values], kind)
            for values, kind in zip(zip(*fitting, strict=True), types.values(), strict=True)
        ]
        yield from_arrow(table, pa.RecordBatch.from_arrays(columns, names=list(types)))


def _typed(value: Any, kind: pa.DataType | None) -> Any:
    if value is None:
        return None
    return bool(value) if kind == pa.bool_() else float(value) if kind == pa.float64() else value


def _guessed(values: Iterator[Any]) -> pa.DataType:
    """The type of a column that declares none, as in a view: that of its first value."""
    for value in values:
        for kind in (pa.int64(), pa.float64(), pa.string(), pa.binary()):
            if value is not None and isinstance(value, _HOLDS[kind]):
                return kind
    return pa.string()
