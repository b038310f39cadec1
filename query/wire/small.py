"""Small batches: msgpack columns. One row of (string, int, int, int) takes about 30 bytes where Arrow's own
message takes 350, and most messages of an aggregation tree are of this kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import chain
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from query.batch.types import DATE, DURATION, INT32, INT64, INTERVAL, TIME, TIMESTAMP, TIMESTAMP_UTC
from query.wire.limits import COLUMNS_MAX, WireError

#: Above this many rows Arrow buffers are smaller and faster (bench/wire.py shows the crossing).
SMALL_ROWS_MAX = 32

_AS_INTEGER = {DATE: INT32, TIME: INT64, TIMESTAMP: INT64, TIMESTAMP_UTC: INT64, DURATION: INT64}
_DAY_US = 86_400_000_000
_INTEGERS = frozenset((int, type(None)))


def pack(data: pa.RecordBatch) -> bytes:
    return msgspec.msgpack.encode([_plain_column(c) for c in data.columns])


def pack_parts(data: pa.RecordBatch, bounds: Sequence[tuple[int, int]]) -> list[bytes]:
    """The same for many parts of a batch at once: columns are turned into values once, not for each part."""
    columns = [_plain_column(c) for c in data.columns]
    return [msgspec.msgpack.encode([column[start:end] for column in columns]) for start, end in bounds]


def _plain_column(column: pa.Array) -> list[Any]:
    kind = column.type
    stored = _AS_INTEGER.get(kind)
    if stored is not None:
        column = column.view(stored)
    values: list[Any] = column.to_pylist()
    if stored is not None or not _needs_change(kind):
        return values
    return [_plain(v, kind) for v in values]


def _needs_change(kind: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(kind) or pa.types.is_nested(kind) or kind == INTERVAL)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value as msgpack has it: decimals and intervals as text and numbers, lists and structs by position."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        return str(value)
    if kind == INTERVAL:
        return [value.months, value.days, value.nanoseconds]
    if pa.types.is_list(kind):
        inner = pa.array(value, type=kind.value_type)
        return _plain_column(inner)
    if pa.types.is_struct(kind):
        return [_plain_column(pa.array([value[f.name]], type=f.type))[0] for f in kind]
    return value


_Rows = Annotated[list[Any], msgspec.Meta(max_length=SMALL_ROWS_MAX)]
_decoder = msgspec.msgpack.Decoder(Annotated[list[_Rows], msgspec.Meta(max_length=COLUMNS_MAX)])
_outline = msgspec.msgpack.Decoder(list[msgspec.Raw])
_rows = msgspec.msgpack.Decoder(_Rows)


def count_rows(body: bytes) -> int:
    """The rows of a batch by its first column, unread. Raises WireError."""
    try:
        columns = _outline.decode(body)
        return len(_rows.decode(columns[0])) if columns else 0
    except (ValueError, RecursionError) as error:
        raise WireError(f"malformed columns: {error}") from None


def unpack_many(bodies: Iterable[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of several batches of one schema as one: an Arrow array costs more to make than its few values. Raises
    WireError if any of them is not a batch of this schema."""
    try:
        parts = [_decoder.decode(body) for body in bodies]
        for columns in parts:
            if len(columns) != len(schema) or not columns:
                raise WireError("malformed columns")
            if len(set(map(len, columns))) != 1:
                raise WireError("columns of different lengths")
        together = [list(chain.from_iterable(column)) for column in zip(*parts, strict=True)]
        arrays = [_column(values, field.type) for values, field in zip(together, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    except WireError:
        raise
    except (ValueError, TypeError, ArithmeticError, RecursionError, pa.lib.ArrowException) as error:
        raise WireError(f"malformed columns: {error}") from None


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if not isinstance(values, list):
        raise WireError("a column is no list")
    if _needs_change(kind):
        return pa.array([_value(v, kind) for v in values], type=kind)
    stored = _AS_INTEGER.get(kind)
    if kind == TIME and any(isinstance(v, int) and not 0 <= v <= _DAY_US for v in values):
        raise WireError("time of day out of range")
    whole = pa.types.is_integer(kind) or stored is not None
    # Arrow would take 1.0 and True for 1.
    if whole and not _INTEGERS.issuperset(map(type, values)):
        raise WireError("not an integer")
    if stored is not None:
        return pa.array(values, type=stored).view(kind)
    return pa.array(values, type=kind)


def _value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        if not isinstance(value, str) or len(value) > _DECIMAL_CHARS_MAX:
            raise WireError("not a decimal")
        return Decimal(value)
    if not isinstance(value, list):
        raise WireError("not a nested value")
    if kind == INTERVAL:
        months, days, nanos = value
        return pa.MonthDayNano([months, days, nanos])
    if pa.types.is_list(kind):
        return _column(value, kind.value_type).to_pylist()
    if len(value) != kind.num_fields:
        raise WireError("not a struct of this type")
    return {f.name: _column([v], f.type).to_pylist()[0] for v, f in zip(value, kind, strict=True)}


#: Sign, point, exponent and 76 digits with room to spare.
_DECIMAL_CHARS_MAX = 100
