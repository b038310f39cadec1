"""Batches to bytes and back: what exchange operators put in a message (DESIGN D6).

One byte says the form, eight name the schema, then the schema itself where the peer may not know it,
then the columns: msgpack for a few rows, narrowed and compressed Arrow buffers for many.
Decoding raises WireError for any bytes that are no batch, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from query.batch import Batch
from query.wire import raw, rawread, small
from query.wire.limits import BATCH_BYTES_MAX, ROWS_MAX, SCHEMA_BYTES_MAX, BatchTooLarge, WireError
from query.wire.schemas import ID_BYTES, MissingSchema, SchemaReceiver, describe

SMALL, RAW, INLINE = 0x10, 0x20, 0x01
_LENGTH_BYTES = 3


def encode(batch: Batch, inline_schema: bool) -> bytes:
    """The bytes of a batch; `inline_schema` as the peer's SchemaSender says. Raises BatchTooLarge."""
    rows = batch.num_rows
    if rows > ROWS_MAX or (
        batch.data.get_total_buffer_size() > BATCH_BYTES_MAX and batch.nbytes > BATCH_BYTES_MAX
    ):
        raise BatchTooLarge(
            f"batch of {rows} rows: a message holds {ROWS_MAX} rows or {BATCH_BYTES_MAX} bytes"
        )
    schema = describe(batch)
    form, pack = (
        (SMALL, small.pack) if 0 < rows <= small.SMALL_ROWS_MAX and len(schema.schema) else (RAW, raw.pack)
    )
    if not inline_schema:
        return bytes((form,)) + schema.id + pack(batch.data)
    description = schema.description
    length = len(description).to_bytes(_LENGTH_BYTES, "big")
    return bytes((form | INLINE,)) + schema.id + length + description + pack(batch.data)


def decode(message: bytes, schemas: SchemaReceiver) -> Batch | MissingSchema:
    """The batch; MissingSchema when the peer must be asked for its schema first. Raises WireError."""
    form = message[0] if message else 0
    at = 1 + ID_BYTES
    if form & ~INLINE not in (SMALL, RAW) or len(message) < at:
        raise WireError("no batch")
    wire_id = message[1:at]
    if form & INLINE:
        start = at + _LENGTH_BYTES
        length = int.from_bytes(message[at:start], "big")
        if length > SCHEMA_BYTES_MAX or len(message) < start + length:
            raise WireError("malformed schema")
        at = start + length
        schema = schemas.learn(message[start:at], wire_id)
    else:
        known = schemas.get(wire_id)
        if known is None:
            return MissingSchema(wire_id, message)
        schema = known
    if form & SMALL:
        data = small.unpack(message[at:], schema.schema)
    else:
        data = rawread.unpack(memoryview(message)[at:], schema.schema)
    return Batch(schema.table, data, schema.number)


#: What `split` aims for: a message that is a small part of a transport window and of the limits above.
SPLIT_ROWS = 65_536
SPLIT_BYTES = 8 << 20


def split(batch: Batch, rows_max: int = SPLIT_ROWS, bytes_max: int = SPLIT_BYTES) -> Iterator[Batch]:
    """The batch in pieces that fit a message, in order; a batch that fits is returned as it is."""
    rows = batch.num_rows
    if rows <= rows_max and batch.nbytes <= bytes_max:
        yield batch
        return
    if rows == 1:
        yield batch
        return
    middle = rows // 2
    yield from split(batch.slice(0, middle), rows_max, bytes_max)
    yield from split(batch.slice(middle), rows_max, bytes_max)
