"""Types of results that are NULL for want of rows: a group-by that saw none does not know them, its author may.

Without them an aggregate over nothing is a NULL of no type, and rows of one answer would have two schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from query.batch.types import NULL, parse_type
from query.dataflow.settings import Option, SettingError

TYPES = Option(
    "types", "text table", "types of columns, for when there were no rows to tell them: types[n] = long", {}
)


def check_types(options: Mapping[str, Any]) -> None:
    for name, text in options.get("types", {}).items():
        if parse_type(text) is None:
            raise SettingError(f"types[{name}]", f"{text!r} is no type")


def kinds_of(options: Mapping[str, Any]) -> dict[str, pa.DataType]:
    return {
        name: kind
        for name, text in options.get("types", {}).items()
        if (kind := parse_type(text)) is not None
    }


def typed(data: pa.RecordBatch, kinds: Mapping[str, pa.DataType]) -> pa.RecordBatch:
    """The rows with a type for columns that have none."""
    lacking = [at for at, field in enumerate(data.schema) if field.type == NULL and field.name in kinds]
    if not lacking:
        return data
    columns, names = list(data.columns), data.schema.names
    for at in lacking:
        columns[at] = columns[at].cast(kinds[names[at]])
    return pa.RecordBatch.from_arrays(columns, names=names)
