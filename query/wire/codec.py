"""Batches to bytes and back: what exchange operators put in a message (DESIGN D6).

One byte says the form, eight name the schema, then the schema itself where the peer may not know it,
then the columns: msgpack for a few rows, narrowed and compressed Arrow buffers for many.
Decoding raises WireError for any bytes that are no batch, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

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


#: Rows whose values are held as Python objects at a time.
_PARTS_ROWS = 16_384


def encode_parts(batch: Batch, bounds: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """What `encode` with its schema makes of each part of a batch, several times as fast for many small ones.
    Parts follow each other."""
    schema = describe(batch)
    length = len(schema.description).to_bytes(_LENGTH_BYTES, "big")
    head = schema.id + length + schema.description
    small_head, at = bytes((SMALL | INLINE,)) + head, 0
    while at < len(bounds):
        if bounds[at][1] - bounds[at][0] > small.SMALL_ROWS_MAX or not len(schema.schema):
            start, end = bounds[at]
            yield encode(batch.slice(start, end - start), inline_schema=True)
            at += 1
            continue
        first, until = bounds[at][0], at
        while until < len(bounds) and (
            bounds[until][1] - bounds[until][0] <= small.SMALL_ROWS_MAX
            and bounds[until][1] - first <= _PARTS_ROWS
        ):
            until += 1
        together = batch.data.slice(first, bounds[until - 1][1] - first)
        inside = [(start - first, end - first) for start, end in bounds[at:until]]
        for body in small.pack_parts(together, inside):
            yield small_head + body
        at = until


def decode(message: bytes, schemas: SchemaReceiver) -> Batch | MissingSchema:
    """The batch; MissingSchema when the peer must be asked for its schema first. Raises WireError."""
    form = message[0] if message else 0
    at = _body_at(message)
    wire_id = message[1 : 1 + ID_BYTES]
    if form & INLINE:
        schema = schemas.learn(message[1 + ID_BYTES + _LENGTH_BYTES : at], wire_id)
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


def _body_at(message: bytes) -> int:
    """Where the columns begin. Raises WireError."""
    form = message[0] if message else 0
    at = 1 + ID_BYTES
    if form & ~INLINE not in (SMALL, RAW) or len(message) < at:
        raise WireError("no batch")
    if form & INLINE:
        start = at + _LENGTH_BYTES
        length = int.from_bytes(message[at:start], "big")
        if length > SCHEMA_BYTES_MAX or len(message) < start + length:
            raise WireError("malformed schema")
        at = start + length
    return at


def decode_many(
    messages: Iterable[bytes], schemas: SchemaReceiver
) -> Iterator[tuple[int, Batch | MissingSchema | WireError]]:
    """As `decode`, for many: small batches of one schema that follow each other come as one, with their number. What is
    no batch comes as its error, alone."""
    head = b""
    run: list[bytes] = []
    bodies: list[bytes] = []
    for message in messages:
        try:
            at = _body_at(message)
        except WireError as error:
            yield from _decoded(run, bodies, schemas)
            yield 1, error
            head, run, bodies = b"", [], []
            continue
        if run and not (message[0] & SMALL and message[:at] == head):
            yield from _decoded(run, bodies, schemas)
            run, bodies = [], []
        head = message[:at]
        run.append(message)
        bodies.append(message[at:])
    yield from _decoded(run, bodies, schemas)


def _decoded(
    run: list[bytes], bodies: list[bytes], schemas: SchemaReceiver
) -> Iterator[tuple[int, Batch | MissingSchema | WireError]]:
    """Messages of one head: together if they can be, else one by one."""
    if len(run) > 1:
        try:
            first = decode(run[0], schemas)
            if isinstance(first, Batch):
                data = small.unpack_many(bodies, first.schema)
                yield len(run), Batch(first.table, data, first.schema_id)
                return
        except WireError:
            # One of them is at fault: each for itself tells which.
            first = None
    for message in run:
        try:
            yield 1, decode(message, schemas)
        except WireError as error:
            yield 1, error


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
