"""Record batches as bytes and back: Arrow's IPC messages, without a stream around them.

Batches go out in pieces of bounded size; what comes in is checked before anything reads it. Arrow keeps
buffers inside the body it was given, so a batch can only lie in three ways, all refused here: a compressed
body that grows without bound, a row count with nothing behind it (columns without buffers), and values that
contradict their type (offsets, UTF-8), which `validate` finds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

from pier_node.protocol.errors import LocalProtocolError, UnfitRequest
from pier_node.protocol.fields import SCHEMA_BYTES_MAX
from pier_node.protocol.frames import FRAME_BYTES_MAX

#: A batch is cut so that a piece is about this large: big enough to carry its header, small enough that
#: queries sharing a connection take turns.
PIECE_BYTES = 1 << 20
#: More rows than this in one piece cannot be honest: a row takes at least a bit.
PIECE_ROWS_MAX = 8 << 20
COLUMNS_MAX = 4_096
#: Room for the rest of a frame around a piece.
_ENVELOPE_BYTES = 1 << 10

_U16, _I32, _U32 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<I")
_CONTINUATION = 0xFFFFFFFF
#: Field numbers in Arrow's flatbuffer tables Message and RecordBatch.
_MESSAGE_HEADER, _BATCH_COMPRESSION = 2, 3


def pieces(batch: pa.RecordBatch) -> Iterator[memoryview]:
    """A batch as IPC messages of about PIECE_BYTES each; an empty batch is one piece."""
    rows = batch.num_rows
    per_row = max(1, batch.nbytes // max(1, rows))
    step = max(1, min(PIECE_ROWS_MAX, PIECE_BYTES // per_row))
    start = 0
    while True:
        yield from _piece(batch.slice(start, step))
        start += step
        if start >= rows:
            return


def _piece(batch: pa.RecordBatch) -> Iterator[memoryview]:
    """One message; halved as often as needed where rows differ much in size."""
    data = memoryview(batch.serialize())
    if len(data) <= FRAME_BYTES_MAX - _ENVELOPE_BYTES:
        yield data
        return
    if batch.num_rows == 1:
        raise LocalProtocolError(f"one row of {len(data)} bytes does not fit a frame of {FRAME_BYTES_MAX}")
    half = batch.num_rows // 2
    yield from _piece(batch.slice(0, half))
    yield from _piece(batch.slice(half))


def schema_bytes(schema: pa.Schema) -> bytes:
    """As the peer will take it; raises LocalProtocolError for one that it would not."""
    if len(schema) > COLUMNS_MAX:
        raise LocalProtocolError(f"{len(schema)} columns, the limit is {COLUMNS_MAX} (COLUMNS_MAX)")
    data: bytes = schema.serialize().to_pybytes()
    if len(data) > SCHEMA_BYTES_MAX:
        raise LocalProtocolError(
            f"names and types of the columns take {len(data)} bytes, the limit is {SCHEMA_BYTES_MAX}"
        )
    return data


def read_schema(data: bytes) -> pa.Schema:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise UnfitRequest(f"not an Arrow schema: {error}") from None
    if len(schema) > COLUMNS_MAX:
        raise UnfitRequest(f"{len(schema)} columns, the limit is {COLUMNS_MAX}")
    return schema


def read_piece(data: memoryview, schema: pa.Schema) -> pa.RecordBatch:
    if _is_compressed(data):
        raise UnfitRequest("a compressed batch: this protocol carries plain ones")
    try:
        batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
        if batch.num_rows <= PIECE_ROWS_MAX:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        raise UnfitRequest(f"not an Arrow batch: {error}") from None
    if batch.num_rows > PIECE_ROWS_MAX:
        raise UnfitRequest(f"{batch.num_rows} rows in a batch, the limit is {PIECE_ROWS_MAX}")
    return batch


def _is_compressed(data: memoryview) -> bool:
    """Whether an IPC message holds a record batch whose body is compressed; no if it is no batch at all."""
    try:
        (marker,) = _U32.unpack_from(data, 0)
        base = 8 if marker == _CONTINUATION else 4
        (root,) = _U32.unpack_from(data, base)
        header = _field(data, base + root, _MESSAGE_HEADER)
        if header is None:
            return False
        (offset,) = _U32.unpack_from(data, header)
        return _field(data, header + offset, _BATCH_COMPRESSION) is not None
    except (struct.error, IndexError):
        return False


def _field(data: memoryview, table: int, number: int) -> int | None:
    """Where a flatbuffer table keeps one of its fields, if it has it."""
    (back,) = _I32.unpack_from(data, table)
    vtable = table - back
    (size,) = _U16.unpack_from(data, vtable)
    slot = 4 + 2 * number
    if vtable < 0 or slot + 2 > size:
        return None
    (offset,) = _U16.unpack_from(data, vtable + slot)
    return table + offset if offset else None
