"""Where a row was read: columns that a scan adds to its rows when it is asked to.

The node that reads or holds a row says its own id, as the ring shows it, and the name of its host. A table that has a
column of that name itself keeps it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from query.batch import Batch
from query.batch.types import STRING
from query.dataflow.context import Context
from query.dataflow.settings import Option, SettingError

NODE, HOST = "_node", "_host"
ORIGINS = (NODE, HOST)
ORIGIN = Option(
    "origin",
    "texts",
    f"columns to add that say where a row was read: {NODE}, the id of the node; {HOST}, the name of its host. NULL for "
    "rows that are fetched from other nodes",
    (),
)


def check_origin(options: Mapping[str, Any]) -> None:
    for name in options["origin"]:
        if name not in ORIGINS:
            raise SettingError("origin", f"{name!r} is none of {', '.join(ORIGINS)}")


class Origin:
    """Adds the columns that were asked for."""

    __slots__ = ("_texts",)

    def __init__(self, context: Context, options: Mapping[str, Any]) -> None:
        services = context.services
        known = {NODE: services["node"].hex(), HOST: services["host"]} if options["origin"] else {}
        self._texts: dict[str, str] = {name: known[name] for name in options["origin"]}

    def added(self, batch: Batch, here: bool = True) -> Batch:
        """The rows with where they were read; `here` unless they came from elsewhere."""
        if not self._texts:
            return batch
        data = batch.data
        for name, text in self._texts.items():
            if name not in data.schema.names:
                value = pa.scalar(text if here else None, STRING)
                data = data.append_column(name, pa.repeat(value, data.num_rows))
        return Batch(batch.table, data)
