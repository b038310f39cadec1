"""The column types a batch may have, and the names by which UFL and SQL call them.

Arrow has many types that hold the same values (five strings, four timestamps). Data enters through one
door (`Batch.from_arrow`) which turns each into the one canonical type below, so that operators, the
wire and the expression compiler each handle a short list. Addresses are strings in canonical text;
functions over them are in `query.expr`.
"""

from __future__ import annotations

import re
from functools import lru_cache

import pyarrow as pa

NULL = pa.null()
BOOL = pa.bool_()
INT8, INT16, INT32, INT64 = pa.int8(), pa.int16(), pa.int32(), pa.int64()
UINT8, UINT16, UINT32, UINT64 = pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
STRING, BINARY = pa.string(), pa.binary()
DATE, TIME = pa.date32(), pa.time64("us")
TIMESTAMP, TIMESTAMP_UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
DURATION, INTERVAL = pa.duration("us"), pa.month_day_nano_interval()
#: SQL's HUGEINT: 38 digits, as DuckDB shows it to Arrow.
HUGEINT = pa.decimal128(38, 0)

#: A list of lists of structs deeper than this is not data anyone queries, and recursion must end.
NESTING_MAX = 8

_NAMES: dict[str, pa.DataType] = {
    "null": NULL,
    "bool": BOOL,
    "boolean": BOOL,
    "logical": BOOL,
    "byte": INT8,
    "tinyint": INT8,
    "int8": INT8,
    "int1": INT8,
    "short": INT16,
    "smallint": INT16,
    "int16": INT16,
    "int2": INT16,
    "int": INT32,
    "integer": INT32,
    "int32": INT32,
    "int4": INT32,
    "signed": INT32,
    "long": INT64,
    "bigint": INT64,
    "int64": INT64,
    "hugeint": HUGEINT,
    "utinyint": UINT8,
    "uint8": UINT8,
    "usmallint": UINT16,
    "uint16": UINT16,
    "uinteger": UINT32,
    "uint32": UINT32,
    "ubigint": UINT64,
    "uint64": UINT64,
    "float": FLOAT,
    "real": FLOAT,
    "float4": FLOAT,
    "float32": FLOAT,
    "double": DOUBLE,
    "float8": DOUBLE,
    "float64": DOUBLE,
    "string": STRING,
    "varchar": STRING,
    "text": STRING,
    "char": STRING,
    "bpchar": STRING,
    "nvarchar": STRING,
    "binary": BINARY,
    "varbinary": BINARY,
    "blob": BINARY,
    "bytea": BINARY,
    "date": DATE,
    "time": TIME,
    "timestamp": TIMESTAMP,
    "datetime": TIMESTAMP,
    "timestamptz": TIMESTAMP_UTC,
    "timestamp with time zone": TIMESTAMP_UTC,
    "timestamp without time zone": TIMESTAMP,
    "double precision": DOUBLE,
    "character varying": STRING,
    "interval": INTERVAL,
    "duration": DURATION,
}

_DECIMAL = re.compile(r"(?:decimal|numeric|dec)(?:\((\d{1,2})(?:,(-?\d{1,2}))?\))?\Z")
_SIZED_TEXT = re.compile(r"(varchar|char|bpchar|nvarchar|text|character varying)\(\d+\)\Z")
DECIMAL_DIGITS_MAX = 38
DECIMAL256_DIGITS_MAX = 76


class UnsupportedType(ValueError):
    """A column type that batches do not carry; the fault of the source that produced it."""


def type_names() -> tuple[str, ...]:
    """Every plain name `parse_type` knows, for suggestions and documentation."""
    return tuple(_NAMES)


@lru_cache(maxsize=1024)
def parse_type(text: str) -> pa.DataType | None:
    """The type of a name such as `long`, `VARCHAR`, `decimal(10,2)` or `long[]`; None when unknown."""
    name = " ".join(text.lower().split()).replace(" (", "(").replace(", ", ",").replace(" ,", ",")
    depth = 0
    while name.endswith("[]") and depth < NESTING_MAX:
        name, depth = name[:-2].rstrip(), depth + 1
    base = _parse_plain(name)
    for _ in range(depth):
        base = None if base is None else pa.list_(base)
    return base


def _parse_plain(name: str) -> pa.DataType | None:
    if name in _NAMES:
        return _NAMES[name]
    if _SIZED_TEXT.match(name):
        return STRING
    found = _DECIMAL.match(name)
    if found is None:
        return None
    precision = int(found[1] or 18)
    scale = int(found[2] or (0 if found[1] else 3))
    if not (1 <= precision <= DECIMAL256_DIGITS_MAX and 0 <= scale <= precision):
        return None
    return decimal_type(precision, scale)


def decimal_type(precision: int, scale: int) -> pa.DataType:
    return (
        pa.decimal128(precision, scale)
        if precision <= DECIMAL_DIGITS_MAX
        else pa.decimal256(precision, scale)
    )


_PRINTED = {
    INT8: "byte",
    INT16: "short",
    INT32: "int",
    INT64: "long",
    UINT8: "uint8",
    UINT16: "uint16",
    UINT32: "uint32",
    UINT64: "uint64",
    FLOAT: "float",
    TIME: "time",
    TIMESTAMP: "timestamp",
    TIMESTAMP_UTC: "timestamptz",
    INTERVAL: "interval",
    DURATION: "duration",
    DATE: "date",
}


def type_name(kind: pa.DataType) -> str:
    """The UFL name of a type, as error messages show it; `parse_type` reads it back (structs excepted)."""
    if kind in _PRINTED:
        return _PRINTED[kind]
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"{type_name(kind.value_type)}[]"
    if pa.types.is_struct(kind):
        return "struct(" + ", ".join(f"{f.name} {type_name(f.type)}" for f in kind) + ")"
    return str(kind)


def canonical_type(kind: pa.DataType, depth: int = 0) -> pa.DataType:
    """The one type that batches use for the values of `kind`; raises UnsupportedType."""
    if depth > NESTING_MAX:
        raise UnsupportedType(f"type nested deeper than {NESTING_MAX}")
    t = pa.types
    if (
        kind in _PRINTED
        or kind in (NULL, BOOL, DOUBLE, STRING, BINARY)
        or t.is_decimal128(kind)
        or t.is_decimal256(kind)
    ):
        return kind
    if t.is_dictionary(kind) or t.is_run_end_encoded(kind):
        return canonical_type(kind.value_type, depth + 1)
    for matches, canonical in _CANONICAL:
        if matches(kind):
            return canonical
    if t.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMP_UTC
    if t.is_decimal32(kind) or t.is_decimal64(kind):
        return pa.decimal128(kind.precision, kind.scale)
    if t.is_list(kind) or t.is_large_list(kind) or t.is_fixed_size_list(kind):
        return pa.list_(canonical_type(kind.value_type, depth + 1))
    if t.is_struct(kind):
        return pa.struct([pa.field(f.name, canonical_type(f.type, depth + 1)) for f in kind])
    raise UnsupportedType(f"batches do not carry columns of type {kind}")


_CANONICAL = (
    (pa.types.is_large_string, STRING),
    (pa.types.is_string_view, STRING),
    (pa.types.is_large_binary, BINARY),
    (pa.types.is_binary_view, BINARY),
    (pa.types.is_fixed_size_binary, BINARY),
    (pa.types.is_float16, FLOAT),
    (pa.types.is_date64, DATE),
    (pa.types.is_time, TIME),
    (pa.types.is_duration, DURATION),
)


def is_canonical(kind: pa.DataType) -> bool:
    try:
        return bool(canonical_type(kind) == kind)
    except UnsupportedType:
        return False
