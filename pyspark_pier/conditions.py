"""Filters that Spark offers, as conditions of the query: tested at the nodes, before rows travel.

A filter is taken only if it means the same on both sides, that is on columns whose type both know alike; the rest goes
back to Spark. Texts are quoted here, once; nothing else of a filter enters the query.
"""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from pyspark_pier.spark_types import is_plain

#: Values of one IN that travel with the query.
IN_VALUES_MAX = 1_000

_COMPARED: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "IS NOT DISTINCT FROM",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_FOUND: dict[type[Filter], Callable[[str], str]] = {
    StringStartsWith: lambda text: f"{text}%",
    StringEndsWith: lambda text: f"%{text}",
    StringContains: lambda text: f"%{text}%",
}


class _NotHere(Exception):
    """This filter is Spark's to test."""


def condition_of(offered: Filter, schema: StructType, columns: pa.Schema) -> str | None:
    """SQL that is true for exactly the rows that the filter lets through; None when there is none."""
    try:
        return _condition(offered, schema, columns)
    except _NotHere:
        return None


def _condition(offered: Filter, schema: StructType, columns: pa.Schema) -> str:
    if isinstance(offered, Not):
        return f"NOT ({_condition(offered.child, schema, columns)})"
    column = _column(offered, schema, columns)
    if isinstance(offered, IsNull):
        return f"{column} IS NULL"
    if isinstance(offered, IsNotNull):
        return f"{column} IS NOT NULL"
    if isinstance(offered, In):
        if len(offered.value) > IN_VALUES_MAX or any(value is None for value in offered.value):
            raise _NotHere
        return f"{column} IN ({', '.join(_literal(value) for value in offered.value)})"
    for kind, operator in _COMPARED.items():
        if type(offered) is kind:
            return f"{column} {operator} {_literal(offered.value)}"  # type: ignore[attr-defined]
    for kind, pattern in _FOUND.items():
        if type(offered) is kind:
            text: str = offered.value  # type: ignore[attr-defined]
            escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
            return f"{column} LIKE {_literal(pattern(escaped))} ESCAPE '\\'"
    raise _NotHere


def _column(offered: Filter, schema: StructType, columns: pa.Schema) -> str:
    path: tuple[str, ...] = getattr(offered, "attribute", ())
    if len(path) != 1 or path[0] not in schema.fieldNames() or path[0] not in columns.names:
        raise _NotHere
    if not is_plain(schema[path[0]].dataType, columns.field(path[0]).type):
        raise _NotHere
    return quoted(path[0])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return f"CAST('{value!r}' AS DOUBLE)"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, decimal.Decimal) and value.is_finite():
        digits, scale = len(value.as_tuple().digits), max(0, -int(value.as_tuple().exponent))
        return f"CAST('{value:f}' AS DECIMAL({max(digits, scale, 1)}, {scale}))"
    if isinstance(value, datetime.datetime):
        kind = "TIMESTAMP" if value.tzinfo is None else "TIMESTAMPTZ"
        return f"CAST('{value.isoformat(sep=' ')}' AS {kind})"
    if isinstance(value, datetime.date):
        return f"CAST('{value.isoformat()}' AS DATE)"
    raise _NotHere
