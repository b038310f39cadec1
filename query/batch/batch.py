"""The unit of flow: a table name and an Arrow record batch (docs/decisions/0009, PIER 3.3.1).

Sources make batches, operators push them to each other, the wire carries them between nodes. Every batch
says its own table, columns and types; nothing else in the system knows a schema beforehand. Invariant:
columns have canonical types (`types.py`) and the schema has no metadata; `from_arrow` establishes it for
data that comes from elsewhere, and operators keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from query.batch.schemas import SchemaId, schema_id
from query.batch.types import canonical_type


class Batch:
    """Rows of one table under one schema. Immutable; making one costs well under a microsecond."""

    __slots__ = ("_schema_id", "data", "table")

    def __init__(self, table: str, data: pa.RecordBatch, schema: SchemaId | None = None) -> None:
        """`schema`, when the caller knows it, is the interned number of `data.schema`."""
        self.table = table
        self.data = data
        self._schema_id = schema

    @property
    def schema_id(self) -> SchemaId:
        known = self._schema_id
        if known is None:
            known = self._schema_id = schema_id(self.data.schema)
        return known

    @property
    def schema(self) -> pa.Schema:
        return self.data.schema

    @property
    def num_rows(self) -> int:
        rows: int = self.data.num_rows
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes that these rows occupy; a slice counts only its own."""
        size: int = self.data.nbytes
        return size

    def column(self, name: str) -> pa.Array:
        return self.data.column(name)

    def slice(self, offset: int, length: int | None = None) -> Batch:
        """Rows from `offset` on, without copying."""
        return Batch(self.table, self.data.slice(offset, length), self._schema_id)

    def with_table(self, table: str) -> Batch:
        return Batch(table, self.data, self._schema_id)

    def take(self, keep: pa.Array) -> Batch:
        """The rows where `keep` is true; NULL means no, as WHERE says."""
        return Batch(self.table, self.data.filter(keep), self._schema_id)

    def to_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.data.to_pylist()
        return rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Batch):
            return NotImplemented
        return self.table == other.table and bool(self.data.equals(other.data))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        columns = ", ".join(f"{f.name} {f.type}" for f in self.data.schema)
        return f"Batch({self.table!r}, {self.num_rows} rows: {columns})"


def from_arrow(table: str, data: pa.RecordBatch) -> Batch:
    """A batch of data from elsewhere, its types made canonical; raises UnsupportedType or ArrowInvalid."""
    schema = data.schema
    fields = [pa.field(f.name, canonical_type(f.type)) for f in schema]
    wanted = pa.schema(fields)
    if schema.equals(wanted, check_metadata=True):
        return Batch(table, data)
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(data.columns, fields, strict=True)
    ]
    return Batch(table, pa.RecordBatch.from_arrays(columns, schema=wanted))


def from_pydict(table: str, columns: Mapping[str, Sequence[Any]], schema: pa.Schema | None = None) -> Batch:
    """A batch of Python columns; without `schema` the types are inferred from the values."""
    if schema is not None:
        return Batch(table, pa.RecordBatch.from_pydict(dict(columns), schema=schema))
    return from_arrow(table, pa.RecordBatch.from_pydict(dict(columns)))


def from_rows(table: str, rows: Iterable[Sequence[Any]], schema: pa.Schema) -> Batch:
    """A batch of tuples in the order of the schema's columns."""
    rows = list(rows)
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(values, type=field.type) for values, field in zip(columns, schema, strict=True)]
    return Batch(table, pa.RecordBatch.from_arrays(arrays, schema=schema))


def concat(batches: Sequence[Batch]) -> Batch:
    """One batch of all rows, in order. All share table and schema: the caller grouped them."""
    first = batches[0]
    if len(batches) == 1:
        return first
    data = pa.concat_batches([b.data for b in batches])
    return Batch(first.table, data, first._schema_id)
