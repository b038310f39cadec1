"""Tables of SQL databases: SQLite is built in, others come through their ADBC driver where it is installed.

Rows are fetched some thousands at a time. SQLite's columns have the type of their declaration, by its own rules of
affinity; a value that is of another type ends the reading with its column's name.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from pier_node.sources.reader import READ_ROWS, Reader, ReadError, distinct, naming

#: ADBC drivers by the scheme of their URLs.
ADBC_DRIVERS = {
    "postgresql": "adbc_driver_postgresql",
    "postgres": "adbc_driver_postgresql",
    "snowflake": "adbc_driver_snowflake",
    "flightsql": "adbc_driver_flightsql",
    "grpc": "adbc_driver_flightsql",
}
#: SQLite's affinities, by what a declared type contains, in the order of its manual (datatype3, 3.1).
_AFFINITIES = (
    ("BOOL", pa.bool_()),
    ("INT", pa.int64()),
    ("CHAR", pa.string()),
    ("CLOB", pa.string()),
    ("TEXT", pa.string()),
    ("BLOB", pa.binary()),
    ("REAL", pa.float64()),
    ("FLOA", pa.float64()),
    ("DOUB", pa.float64()),
    ("DEC", pa.float64()),
    ("NUM", pa.float64()),
)
_KINDS = {int: pa.int64(), float: pa.float64(), bytes: pa.binary()}


def sql_reader(url: str, table: str) -> Reader:
    """All rows of a table. Raises ReadError for a database that cannot be read at all."""
    return query_reader(url, f"SELECT * FROM {quoted(table)}")


def query_reader(url: str, query: str) -> Reader:
    """The rows of a query in the database's own SQL."""
    scheme = urlsplit(url).scheme
    if scheme in ("sqlite", "sqlite3"):
        return SqliteReader(sqlite_path(url), query)
    if scheme not in ADBC_DRIVERS:
        known = ", ".join(("sqlite", *ADBC_DRIVERS))
        raise ReadError(f"{url}: there is no reader for {scheme!r} databases; there are {known}")
    return AdbcReader(url, ADBC_DRIVERS[scheme], query)


def quoted(table: str) -> str:
    """A name, perhaps with its schema, as SQL writes it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))


def sqlite_path(url: str) -> Path:
    """`sqlite:///data/r.db` and `sqlite:/data/r.db` are absolute, `sqlite:r.db` is relative to the node's directory."""
    return Path(unquote(urlsplit(url).path))


class SqliteReader:
    """A query of a SQLite file, which is never written."""

    def __init__(self, path: Path, query: str) -> None:
        self._path = path
        self._query = query

    def schema(self) -> pa.Schema:
        with _sqlite(self._path) as connection:
            return self._schema(connection, connection.execute(self._query))

    def batches(self) -> Iterator[pa.RecordBatch]:
        with _sqlite(self._path) as connection:
            cursor = connection.execute(self._query)
            schema = self._schema(connection, connection.execute(self._query))
            while rows := cursor.fetchmany(READ_ROWS):
                yield self._batch(rows, schema)

    def _schema(self, connection: sqlite3.Connection, cursor: sqlite3.Cursor) -> pa.Schema:
        """Types by declaration; of columns that have none, as results of functions, by the first value."""
        declared = _declared(connection, self._query)
        first = cursor.fetchone() or ()
        fields = []
        for number, column in enumerate(cursor.description):
            name = column[0]
            value = first[number] if first else None
            fields.append((name, declared.get(name) or _KINDS.get(type(value), pa.string())))
        with naming(self._path):
            return distinct(pa.schema(fields))

    def _batch(self, rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
        arrays = []
        for field, values in zip(schema, zip(*rows, strict=True), strict=True):
            with naming(f"{self._path}, column {field.name}"):
                try:
                    arrays.append(_array(values, field.type))
                except TypeError as error:
                    raise pa.ArrowInvalid(str(error)) from None
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


class AdbcReader:
    """A query through an ADBC driver, which gives Arrow batches by itself."""

    def __init__(self, url: str, driver: str, query: str) -> None:
        try:
            self._dbapi = importlib.import_module(f"{driver}.dbapi")
        except ImportError:
            raise ReadError(f"{url}: this needs the package {driver.replace('_', '-')}") from None
        self._url = url
        self._query = query

    def schema(self) -> pa.Schema:
        with self._reader() as reader:
            return reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self._reader() as reader:
            yield from reader

    def _reader(self) -> Any:
        try:
            cursor = self._dbapi.connect(self._url).cursor()
            cursor.execute(self._query)
            return cursor.fetch_record_batch()
        except Exception as error:
            raise ReadError(f"{self._url}: {error}") from None


@contextmanager
def _sqlite(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reading; what goes wrong names the file."""
    if not path.is_file():
        raise ReadError(f"{path}: there is no such file")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise ReadError(f"{path}: {error}") from None


def _declared(connection: sqlite3.Connection, query: str) -> dict[str, pa.DataType]:
    """Declared types of a query's columns, found by making an empty view of it."""
    found: dict[str, pa.DataType] = {}
    connection.execute(f"CREATE TEMP VIEW pier_columns AS {query}")
    for _, name, declared, *_rest in connection.execute("PRAGMA temp.table_info(pier_columns)"):
        for word, kind in _AFFINITIES:
            if word in declared.upper():
                found[name] = kind
                break
    connection.execute("DROP VIEW temp.pier_columns")
    return found


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if kind == pa.bool_():
        return pa.array([None if value is None else bool(value) for value in values], kind)
    if kind == pa.float64():
        return pa.array([float(value) if isinstance(value, int) else value for value in values], kind)
    return pa.array(values, kind)
