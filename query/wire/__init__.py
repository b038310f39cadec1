"""Batches on the network. See `codec.py` for the form and `schemas.py` for how schemas travel."""

from query.wire.codec import count_rows, decode, decode_many, encode, encode_parts, split
from query.wire.limits import BatchTooLarge, WireError
from query.wire.schemas import MissingSchema, SchemaReceiver, SchemaSender, WireSchema, describe

__all__ = [
    "BatchTooLarge",
    "MissingSchema",
    "SchemaReceiver",
    "SchemaSender",
    "WireError",
    "WireSchema",
    "count_rows",
    "decode",
    "decode_many",
    "describe",
    "encode",
    "encode_parts",
    "split",
]
