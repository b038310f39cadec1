"""Columns of the ring as columns of Spark, and batches cast to exactly the schema that Spark expects.

Spark has no unsigned integers, no 256-bit decimals and no months-and-days intervals: the next type that holds every
value stands for them. The way back needs nothing: nodes take Spark's Arrow batches as they are.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import DataType, MapType, StructField, StructType

from pyspark_pier.errors import PierSparkError
from query.batch.types import UnsupportedType, canonical_type

#: Spark's largest decimals.
DECIMAL_DIGITS_MAX = 38

_WIDER = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.null(): pa.string(),
    pa.month_day_nano_interval(): pa.string(),
}


def spark_schema(schema: pa.Schema) -> StructType:
    """What rows of this schema look like in Spark."""
    doubled = [name for name in schema.names if schema.names.count(name) > 1]
    if doubled:
        raise PierSparkError(f"two columns are called {doubled[0]!r}; give one of them an alias in the query")
    return StructType([StructField(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> DataType:
    return from_arrow_type(_standing(kind))


def _standing(kind: pa.DataType) -> pa.DataType:
    """The type that Spark can hold, with room for every value."""
    if kind in _WIDER:
        return _WIDER[kind]
    if pa.types.is_decimal(kind) and kind.precision > DECIMAL_DIGITS_MAX:
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_standing(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _standing(field.type)) for field in kind])
    return kind


def is_plain(kind: DataType, arrow: pa.DataType) -> bool:
    """Whether a column means the same to Spark and to the nodes, so that a condition on it does."""
    simple = not pa.types.is_nested(arrow) and _standing(arrow) == arrow
    return simple and bool(from_arrow_type(arrow) == kind)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow form in which Spark takes rows of a schema."""
    return to_arrow_schema(schema, timezone="UTC")


#: A column of this name in the schema of a stream is the epoch of a continuous query that a row belongs to.
EPOCH = "_epoch"


def fitted(batch: pa.RecordBatch, schema: pa.Schema, epoch: int | None = None) -> pa.RecordBatch:
    """A batch with exactly these columns: a column it lacks is NULL, one that nobody wants is left out."""
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0 and field.name == EPOCH:
            arrays.append(pa.array([epoch] * batch.num_rows, field.type))
        elif at < 0:
            arrays.append(pa.nulls(batch.num_rows, field.type))
        else:
            arrays.append(_cast(batch.column(at), field))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    if column.type == pa.month_day_nano_interval():
        texts = [None if value is None else _interval(value) for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    try:
        return column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PierSparkError(f"column {field.name!r} does not fit its type in Spark: {error}") from None


def _interval(value: tuple[int, int, int]) -> str:
    return f"{value[0]} months {value[1]} days {value[2] / 1e9:g} seconds"


def check_writable(schema: StructType, keys: tuple[str, ...]) -> None:
    """Refuses, before a task runs, rows that nodes do not carry."""
    missing = [name for name in keys if name not in schema.fieldNames()]
    if missing:
        has = ", ".join(schema.fieldNames())
        raise PierSparkError(f"option key: there is no column {missing[0]!r}; there is {has}")
    for field in schema.fields:
        for part in _parts(field.dataType):
            if isinstance(part, MapType):
                raise PierSparkError(
                    f"column {field.name!r}: nodes carry no maps; make it an array of structs"
                )
        try:
            canonical_type(to_arrow_schema(StructType([field]), timezone="UTC").field(0).type)
        except (UnsupportedType, TypeError) as error:
            raise PierSparkError(f"column {field.name!r} cannot be published: {error}") from None
        except Exception as error:
            # Spark has its own error for types without an Arrow form.
            raise PierSparkError(
                f"column {field.name!r} of type {field.dataType.simpleString()}: {error}"
            ) from None


def _parts(kind: DataType) -> Iterator[DataType]:
    yield kind
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _parts(field.dataType)
    elif hasattr(kind, "elementType"):
        yield from _parts(kind.elementType)
