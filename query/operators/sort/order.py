"""The order of rows: by several keys, each ascending or descending, with NULLs first or last.

NaN counts as greater than every other number, as DuckDB and PostgreSQL have it. Rows with equal keys keep the order
in which they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from query.dataflow.settings import Option, SettingError
from query.plan_hints import quoted

KEYS = (
    Option(
        "keys",
        "expressions",
        "what rows are ordered by, the first key first: keys[0] = $bytes",
        required=True,
    ),
    Option(
        "order",
        "texts",
        'for each key asc or desc, and where NULLs go: order[0] = "desc nulls first"; asc nulls last when absent',
        (),
    ),
)


class Direction(NamedTuple):
    descending: bool
    nulls_first: bool


def directions(options: Mapping[str, Any]) -> list[Direction]:
    """The direction of each key; raises SettingError."""
    given: Sequence[str] = options["order"]
    keys = len(options["keys"])
    if keys == 0:
        raise SettingError("keys", "is empty", "for example keys[0] = $bytes")
    if len(given) > keys:
        raise SettingError("order", f"has {len(given)} entries for {keys} keys")
    return [_direction(text) for text in given] + [Direction(False, False)] * (keys - len(given))


def _direction(text: str) -> Direction:
    words = text.lower().split()
    descending = words[:1] in (["desc"], ["descending"])
    if words and words[0] in ("asc", "ascending", "desc", "descending"):
        words = words[1:]
    if words not in ([], ["nulls", "first"], ["nulls", "last"]):
        raise SettingError(
            "order", f"{quoted(text)} is no order", "for example asc, desc or desc nulls first"
        )
    return Direction(descending, words == ["nulls", "first"])


def sorted_rows(keys: Sequence[pa.ChunkedArray], order: Sequence[Direction]) -> pa.Array:
    """The numbers of the rows in their order."""
    columns: list[pa.ChunkedArray] = []
    sort_keys: list[tuple[str, str]] = []

    def by(column: pa.ChunkedArray, descending: bool) -> None:
        sort_keys.append((str(len(columns)), "descending" if descending else "ascending"))
        columns.append(column)

    for key, (descending, nulls_first) in zip(keys, order, strict=True):
        if key.null_count:
            by(pc.is_null(key), nulls_first)
        if pa.types.is_floating(key.type) and pc.any(pc.is_nan(key)).as_py():
            by(pc.fill_null(pc.is_nan(key), False), descending)
        by(key, descending)
    table = pa.table(columns, names=[str(number) for number in range(len(columns))])
    return pc.sort_indices(table, sort_keys=sort_keys)
