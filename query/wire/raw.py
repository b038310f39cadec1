"""Large batches: Arrow buffers, narrowed and compressed together. Encoding; `rawread.py` is the other side.

Integers travel as their distance from the column's smallest value in as few bytes as hold the largest
distance, texts as lengths and bytes, so that zstd sees a third of the data; it then needs a third of the
time. Rows that are NULL are written as zeros: no stale memory leaves the node, and zeros compress.
The order of parts is fixed by the schema, depth first: validity, then values, then children.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from query.batch.types import INTERVAL, NULL
from query.wire.limits import DECODED_BYTES_MAX, ROWS_MAX

#: Below this compression costs time and saves nothing.
COMPRESS_BYTES_MIN = 200
#: The fastest level: three times the speed of the default for 5-10 % more bytes.
ZSTD_LEVEL = 1

_WIDTHS = ((1 << 8, np.uint8), (1 << 16, np.uint16), (1 << 32, np.uint32))
_INTEGER_DTYPES = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_UNSIGNED_DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


HEADER_LENGTH_BYTES = 3


class Header(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """What a reader must know before the body."""

    rows: Annotated[int, msgspec.Meta(ge=0, le=ROWS_MAX)]
    #: Of the body, decompressed.
    size: Annotated[int, msgspec.Meta(ge=0, le=DECODED_BYTES_MAX)]
    compressed: bool
    #: For each column, depth first: 1 if it has NULLs, else 0; then base and width of integers or lengths.
    notes: list[int]


encode_header = msgspec.msgpack.Encoder().encode


def integer_dtype(kind: pa.DataType) -> Any:
    """The numpy type of an integer-like column: integers, dates, times."""
    dtypes = _UNSIGNED_DTYPES if pa.types.is_unsigned_integer(kind) else _INTEGER_DTYPES
    return dtypes[kind.bit_width // 8]


def is_integer_like(kind: pa.DataType) -> bool:
    t = pa.types
    return bool(
        t.is_integer(kind)
        or t.is_date32(kind)
        or t.is_time64(kind)
        or t.is_timestamp(kind)
        or t.is_duration(kind)
    )


def fixed_bytes(kind: pa.DataType) -> int:
    """Bytes a value of a column that is copied as it is; 0 for other kinds."""
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        width: int = kind.bit_width // 8
        return width
    return 16 if kind == INTERVAL else 0


def pack(data: pa.RecordBatch) -> bytes:
    writer = _Writer()
    for column in data.columns:
        writer.column(column)
    return writer.packed(data.num_rows)


def pack_parts(data: pa.RecordBatch, bounds: Sequence[tuple[int, int]]) -> list[bytes]:
    """What `pack` makes of each part of a batch; the columns are looked into once for all of them."""
    writers = [_Writer() for _ in bounds]
    for column in data.columns if bounds else ():
        _write_parts(writers, column, bounds)
    return [writer.packed(end - start) for writer, (start, end) in zip(writers, bounds, strict=True)]


def _write_parts(writers: list[_Writer], column: pa.Array, bounds: Sequence[tuple[int, int]]) -> None:
    kind = column.type
    texts = pa.types.is_string(kind) or pa.types.is_binary(kind)
    empty = any(start == end for start, end in bounds)
    if column.null_count or empty or not (texts or is_integer_like(kind)):
        for writer, (start, end) in zip(writers, bounds, strict=True):
            writer.column(column.slice(start, end - start))
        return
    rows = len(column)
    if not texts:
        values = _view(column, integer_dtype(kind), rows)
        for writer, (start, end), (low, high) in zip(writers, bounds, _ranges(values, bounds), strict=True):
            writer.notes.append(0)
            writer.narrowed(values[start:end], low, high)
        return
    offsets = _offsets(column, rows)
    lengths = np.diff(offsets)
    content = column.buffers()[2]
    content = memoryview(b"" if content is None else content)
    for writer, (start, end), (low, high) in zip(writers, bounds, _ranges(lengths, bounds), strict=True):
        writer.notes.append(0)
        writer.narrowed(lengths[start:end], low, high)
        writer.parts.append(content[offsets[start] : offsets[end]])


def _ranges(values: npt.NDArray[Any], bounds: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The smallest and the largest value of each part; no part is empty."""
    edges = np.array(bounds, np.int64).ravel()
    # Every second range lies between two parts. An edge at the end would be no index, and the last range goes there.
    edges = edges[:-1] if edges[-1] == len(values) else edges
    lows = np.minimum.reduceat(values, edges)[::2]
    highs = np.maximum.reduceat(values, edges)[::2]
    return zip(lows.tolist(), highs.tolist(), strict=True)


class _Writer:
    """Collects the parts of the body, and the notes a reader needs to take them apart."""

    __slots__ = ("notes", "parts")

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.notes: list[int] = []

    def packed(self, rows: int) -> bytes:
        """Everything written so far, as one body behind its header."""
        body = b"".join(self.parts)
        stored, compressed = body, False
        if len(body) >= COMPRESS_BYTES_MIN:
            shorter = pa.Codec("zstd", compression_level=ZSTD_LEVEL).compress(body, asbytes=True)
            if len(shorter) < len(body):
                stored, compressed = shorter, True
        header = encode_header(Header(rows, len(body), compressed, self.notes))
        return len(header).to_bytes(HEADER_LENGTH_BYTES, "big") + header + stored

    def column(self, column: pa.Array) -> None:
        kind = column.type
        if kind == NULL:
            return
        null = self._validity(column)
        rows = len(column)
        if is_integer_like(kind):
            self._integers(_view(column, integer_dtype(kind), rows), null)
        elif pa.types.is_boolean(kind):
            values = column if null is None else column.fill_null(False)
            self.parts.append(np.packbits(values.to_numpy(zero_copy_only=False), bitorder="little"))
        elif pa.types.is_string(kind) or pa.types.is_binary(kind):
            self._bytes(column, null)
        elif pa.types.is_list(kind):
            self._list(column, null)
        elif pa.types.is_struct(kind):
            for child in column.flatten():
                self.column(child)
        else:
            self._fixed(column, fixed_bytes(kind), null)

    def _validity(self, column: pa.Array) -> npt.NDArray[np.bool_] | None:
        if not column.null_count:
            self.notes.append(0)
            return None
        self.notes.append(1)
        null: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
        self.parts.append(np.packbits(~null, bitorder="little"))
        return null

    def _integers(self, values: npt.NDArray[Any], null: npt.NDArray[np.bool_] | None) -> None:
        """Notes: the smallest value and the width of the distances (0: all the same)."""
        if not len(values):
            self.notes += [0, 0]
            return
        if null is not None:
            valid = values[~null]
            values = np.where(null, valid.min() if len(valid) else 0, values).astype(values.dtype)
        self.narrowed(values, int(values.min()), int(values.max()))

    def narrowed(self, values: npt.NDArray[Any], low: int, high: int) -> None:
        """Values between two bounds, as distances from the lower one."""
        if low == high:
            self.notes += [low, 0]
            return
        width = next((w for limit, w in _WIDTHS if high - low < limit), np.uint64)
        itemsize = np.dtype(width).itemsize
        self.notes += [low, itemsize]
        if itemsize == values.dtype.itemsize and low >= 0:
            self.notes[-2] = 0
            self.parts.append(np.ascontiguousarray(values))
            return
        # Wraps for columns that span more than half their range, as it should: the distance is unsigned.
        self.parts.append((values - values.dtype.type(low)).astype(width))

    def _bytes(self, column: pa.Array, null: npt.NDArray[np.bool_] | None) -> None:
        rows = len(column)
        _, offsets_buffer, data = column.buffers()
        if rows == 0 or offsets_buffer is None:
            self.notes += [0, 0]
            return
        offsets = _offsets(column, rows)
        lengths = np.diff(offsets)
        if null is not None and lengths[null].any():
            # Rare: a NULL that still has bytes. Rebuilt so that they do not travel.
            self._bytes(pa.array(column.to_pylist(), type=column.type), null)
            return
        self._integers(lengths, None)
        if data is not None:
            self.parts.append(memoryview(data)[int(offsets[0]) : int(offsets[-1])])

    def _list(self, column: pa.Array, null: npt.NDArray[np.bool_] | None) -> None:
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
        self._integers(lengths, None)
        self.column(column.flatten())

    def _fixed(self, column: pa.Array, width: int, null: npt.NDArray[np.bool_] | None) -> None:
        rows = len(column)
        if not rows:
            return
        values = _view(column, np.dtype((np.void, width)), rows)
        if null is not None:
            values = values.copy()
            values[null] = np.zeros(1, dtype=values.dtype)[0]
        self.parts.append(np.ascontiguousarray(values))


def _offsets(column: pa.Array, rows: int) -> npt.NDArray[np.int32]:
    """Where texts begin, and where the last ends."""
    buffer = column.buffers()[1]
    offsets: npt.NDArray[np.int32] = np.frombuffer(buffer, np.int32, column.offset + rows + 1)[
        column.offset :
    ]
    return offsets


def _view(column: pa.Array, dtype: Any, rows: int) -> npt.NDArray[Any]:
    data = column.buffers()[1]
    if data is None:
        return np.zeros(rows, dtype=dtype)
    view: npt.NDArray[Any] = np.frombuffer(data, dtype=dtype, count=column.offset + rows)[column.offset :]
    return view
