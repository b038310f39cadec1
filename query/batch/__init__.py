"""Batches: what flows between operators and nodes. See `batch.py` and `coalesce.py`."""

from query.batch.batch import Batch, concat, from_arrow, from_pydict, from_rows
from query.batch.coalesce import CoalesceLimits, Coalescer
from query.batch.schemas import SchemaId, schema_id
from query.batch.types import UnsupportedType, canonical_type, parse_type, type_name

__all__ = [
    "Batch",
    "CoalesceLimits",
    "Coalescer",
    "SchemaId",
    "UnsupportedType",
    "canonical_type",
    "concat",
    "from_arrow",
    "from_pydict",
    "from_rows",
    "parse_type",
    "schema_id",
    "type_name",
]
