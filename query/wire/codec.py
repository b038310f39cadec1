"""Batches to bytes and back: what exchange operators put in a message (docs/decisions/0010).

One byte says the form, eight name the schema, then the schema itself where the peer may not know it,
then the columns: msgpack for a few rows, narrowed and compressed Arrow buffers for many, and a form of their own for
the small objects of bulk loads, which are read by the thousand.
Decoding raises WireError for any bytes that are no batch, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.wire import plain, raw, rawread, small
from query.wire.limits import BATCH_BYTES_MAX, ROWS_MAX, SCHEMA_BYTES_MAX, BatchTooLarge, WireError
from query.wire.schemas import ID_BYTES, MissingSchema, SchemaReceiver, WireSchema, describe

SMALL, RAW, PLAIN, INLINE = 0x10, 0x20, 0x40, 0x01
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


def encode_parts(batch: Batch, bounds: Sequence[tuple[int, int]]) -> list[bytes]:
    """Each part of a batch with its schema, for many parts: as `encode` would, but small ones in the form of
    `plain.py` where their columns allow it."""
    schema = describe(batch)
    length = len(schema.description).to_bytes(_LENGTH_BYTES, "big")
    head = schema.id + length + schema.description
    sizes = [end - start for start, end in bounds]
    small_rows_max = small.SMALL_ROWS_MAX if len(schema.schema) else 0
    few = [number for number, rows in enumerate(sizes) if 0 < rows <= small_rows_max]
    many = [number for number, rows in enumerate(sizes) if not 0 < rows <= small_rows_max]
    encoded = [b""] * len(bounds)
    form = PLAIN if plain.is_plain(schema.schema) else SMALL
    for numbers in _chunks(few, sizes):
        # Side by side, so that columns are looked into once for all of them.
        lengths = [sizes[number] for number in numbers]
        ends = np.cumsum(lengths)
        starts = ends - lengths
        moved = np.array([bounds[number][0] for number in numbers]) - starts
        together = batch.data.take(pa.array(np.arange(ends[-1]) + np.repeat(moved, lengths)))
        bodies = (
            plain.pack_parts(together, lengths)
            if form == PLAIN
            else small.pack_parts(together, list(zip(starts.tolist(), ends.tolist(), strict=True)))
        )
        for number, body in zip(numbers, bodies, strict=True):
            encoded[number] = bytes((form | INLINE,)) + head + body
    for number, body in zip(many, raw.pack_parts(batch.data, [bounds[n] for n in many]), strict=True):
        encoded[number] = bytes((RAW | INLINE,)) + head + body
    return encoded


def _chunks(numbers: list[int], sizes: list[int]) -> Iterator[list[int]]:
    """Parts by the rows they have together."""
    chunk: list[int] = []
    rows = 0
    for number in numbers:
        if rows + sizes[number] > _PARTS_ROWS:
            yield chunk
            chunk, rows = [], 0
        chunk.append(number)
        rows += sizes[number]
    if chunk:
        yield chunk


def decode(message: bytes, schemas: SchemaReceiver) -> Batch | MissingSchema:
    """The batch; MissingSchema when the peer must be asked for its schema first. Raises WireError."""
    at = _body_at(message)
    schema = _schema(message, at, schemas)
    if schema is None:
        return MissingSchema(message[1 : 1 + ID_BYTES], message)
    return _read([message], at, schema)


def _schema(message: bytes, at: int, schemas: SchemaReceiver) -> WireSchema | None:
    """The schema of a message whose columns begin at `at`; None if it names one that is not known."""
    wire_id = message[1 : 1 + ID_BYTES]
    if message[0] & INLINE:
        return schemas.learn(message[1 + ID_BYTES + _LENGTH_BYTES : at], wire_id)
    return schemas.get(wire_id)


def _read(messages: list[bytes], at: int, schema: WireSchema) -> Batch:
    """The rows of messages that are alike up to their columns."""
    if messages[0][0] & RAW:
        data = rawread.unpack_many([memoryview(message)[at:] for message in messages], schema.schema)
    else:
        unpack_many = small.unpack_many if messages[0][0] & SMALL else plain.unpack_many
        data = unpack_many([message[at:] for message in messages], schema.schema)
    return Batch(schema.table, data, schema.number)


def count_rows(message: bytes) -> int:
    """How many rows a message says it has, without reading them. Raises WireError."""
    at = _body_at(message)
    if message[0] & SMALL:
        return small.count_rows(message[at:])
    if message[0] & PLAIN:
        return plain.count_rows(message[at:])
    return rawread.header_of(memoryview(message)[at:]).rows


def _body_at(message: bytes) -> int:
    """Where the columns begin. Raises WireError."""
    form = message[0] if message else 0
    at = 1 + ID_BYTES
    if form & ~INLINE not in (SMALL, RAW, PLAIN) or len(message) < at:
        raise WireError("no batch")
    if form & INLINE:
        start = at + _LENGTH_BYTES
        length = int.from_bytes(message[at:start], "big")
        if length > SCHEMA_BYTES_MAX or len(message) < start + length:
            raise WireError("malformed schema")
        at = start + length
    return at


#: Bytes of columns that `decode_many` reads into one batch, and what a row has for each note in a header: a column of
#: eight bytes has three.
TOGETHER_BYTES = 8 << 20
_NOTE_BYTES = 3


def decode_many(
    messages: Iterable[bytes], schemas: SchemaReceiver
) -> Iterator[tuple[int, Batch | MissingSchema | WireError]]:
    """As `decode`, for many: batches of one schema and form come as one, with their number, up to TOGETHER_BYTES. What
    is no batch comes as its error, alone."""
    runs: dict[bytes, _Run] = {}
    head: bytes | None = None
    for message in messages:
        try:
            # Most follow one of their kind.
            if head is None or not message.startswith(head):
                head = message[: _body_at(message)]
            size = _size(message, len(head))
        except WireError as error:
            head = None
            yield 1, error
            continue
        run = runs.get(head)
        if run is None:
            run = runs[head] = _Run(len(head))
        run.messages.append(message)
        run.bytes += size
        if run.bytes >= TOGETHER_BYTES:
            yield from _decoded(runs.pop(head), schemas)
    for run in runs.values():
        yield from _decoded(run, schemas)


@dataclass(slots=True)
class _Run:
    """Messages with the same beginning."""

    at: int
    messages: list[bytes] = field(default_factory=list)
    bytes: int = 0


def _size(message: bytes, at: int) -> int:
    """About the bytes that a message's columns take in memory: equal values take none on the wire."""
    if not message[0] & RAW:
        return len(message) - at
    header = rawread.header_of(memoryview(message)[at:])
    return max(header.size, header.rows * len(header.notes) * _NOTE_BYTES)


def _decoded(run: _Run, schemas: SchemaReceiver) -> Iterator[tuple[int, Batch | MissingSchema | WireError]]:
    """Messages of one head: together if they can be, else one by one."""
    if len(run.messages) > 1:
        try:
            schema = _schema(run.messages[0], run.at, schemas)
            together = None if schema is None else _read(run.messages, run.at, schema)
        except WireError:
            # One of them is at fault: each for itself tells which.
            together = None
        if together is not None:
            yield len(run.messages), together
            return
    for message in run.messages:
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
