"""Schemas as small integers: operators key what they resolved (columns, compiled expressions) by them.

Hashing an Arrow schema costs 5 us, a look-up by integer 0.1, so a batch carries the number of its schema
and an operator hands the number of its output schema to every batch it makes. Numbers are never used
twice in a process and never decide anything but which cache entry is used: a schema that was forgotten
and comes back gets a new number and costs one more compilation. On the wire schemas are named by content
(`query.wire.schemas`), never by these numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NewType

import pyarrow as pa

SchemaId = NewType("SchemaId", int)

#: Schemas arrive from outside, so the table is bounded; a process that sees more distinct live schemas
#: than this only recompiles more often.
SCHEMAS_MAX = 4_096


class SchemaTable:
    """Numbers for schemas, the least recently used forgotten beyond `schemas_max`."""

    __slots__ = ("_ids", "_next", "schemas_max")

    def __init__(self, schemas_max: int = SCHEMAS_MAX) -> None:
        self.schemas_max = schemas_max
        self._ids: OrderedDict[pa.Schema, SchemaId] = OrderedDict()
        self._next = 0

    def __len__(self) -> int:
        return len(self._ids)

    def intern(self, schema: pa.Schema) -> SchemaId:
        """The number of a schema; equal schemas share one."""
        ids = self._ids
        known = ids.get(schema)
        if known is not None:
            ids.move_to_end(schema)
            return known
        fresh = SchemaId(self._next)
        self._next += 1
        ids[schema] = fresh
        if len(ids) > self.schemas_max:
            ids.popitem(last=False)
        return fresh


_table = SchemaTable()


def schema_id(schema: pa.Schema) -> SchemaId:
    """The number of a schema in this process."""
    return _table.intern(schema)
