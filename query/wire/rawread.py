"""Large batches, the receiving side: buffers to columns, trusting nothing.

Every length is checked against what is left of the body and of the memory budget before it is used;
offsets are summed here and so cannot point outside; text is checked to be UTF-8 and decimals to have no
more digits than their type. What passes is a valid Arrow batch, or WireError is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from query.batch.types import NULL, TIME
from query.wire.limits import DECODED_BYTES_MAX, DECODING_BYTES_MAX, WireError
from query.wire.raw import HEADER_LENGTH_BYTES, Header, fixed_bytes, integer_dtype, is_integer_like

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_DAY_US = 86_400_000_000


def unpack(body: memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Raises WireError for anything that is not a batch of this schema."""
    try:
        rows, notes, content = _open(body)
        reader = _Reader(notes, content)
        arrays = [reader.column(field.type, rows) for field in schema]
        reader.finish()
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _columnless(rows)
    except WireError:
        raise
    except (
        ValueError,
        TypeError,
        ArithmeticError,
        OSError,
        RecursionError,
        pa.lib.ArrowException,
    ) as error:
        raise WireError(f"malformed buffers: {error}") from None


def _columnless(rows: int) -> pa.RecordBatch:
    if rows:
        raise WireError("rows without columns")
    return pa.RecordBatch.from_arrays([], names=[])


_decode_header = msgspec.msgpack.Decoder(Header).decode
_LIMITS = {np.dtype(d): (int(np.iinfo(d).min), int(np.iinfo(d).max)) for d in "bhilBHIL"}


def _open(body: memoryview) -> tuple[int, list[int], memoryview]:
    """The header's rows and notes, and the content, decompressed."""
    start = HEADER_LENGTH_BYTES + int.from_bytes(body[:HEADER_LENGTH_BYTES], "big")
    header = _decode_header(body[HEADER_LENGTH_BYTES:start])
    content = body[start:]
    if header.compressed:
        content = memoryview(pa.Codec("zstd").decompress(content, decompressed_size=header.size))
    if len(content) != header.size:
        raise WireError("body has another length than its header says")
    return header.rows, header.notes, content


class _Reader:
    __slots__ = ("_at", "_budget", "_content", "_notes")

    def __init__(self, notes: list[int], content: memoryview) -> None:
        self._notes: Iterator[int] = iter(notes)
        self._content = content
        self._at = 0
        self._budget = DECODING_BYTES_MAX

    def finish(self) -> None:
        if self._at != len(self._content) or next(self._notes, None) is not None:
            raise WireError("bytes left over")

    def column(self, kind: pa.DataType, rows: int) -> pa.Array:
        if kind == NULL:
            return pa.nulls(rows)
        validity = self._validity(rows)
        if is_integer_like(kind):
            values = self._integers(rows, integer_dtype(kind))
            if kind == TIME and rows and not (values.min() >= 0 and values.max() <= _DAY_US):
                raise WireError("time of day out of range")
            return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(values)])
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, rows, [validity, self._take((rows + 7) // 8)])
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return self._bytes(kind, rows, validity)
        if pa.types.is_list(kind):
            return self._list(kind, rows, validity)
        if pa.types.is_struct(kind):
            children = [self.column(f.type, rows) for f in kind]
            return pa.Array.from_buffers(kind, rows, [validity], children=children)
        return self._fixed(kind, rows, validity)

    def _note(self) -> int:
        note = next(self._notes, None)
        if note is None:
            raise WireError("malformed notes")
        return note

    def _spend(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise WireError(f"columns that need more than {DECODING_BYTES_MAX} bytes")

    def _take(self, size: int) -> pa.Buffer:
        """The next bytes of the body. Copied: Arrow wants its buffers aligned, and the body need not live on."""
        start, stop = self._at, self._at + size
        if size < 0 or stop > len(self._content):
            raise WireError("body is too short")
        self._spend(size)
        self._at = stop
        return pa.py_buffer(bytes(self._content[start:stop]))

    def _validity(self, rows: int) -> pa.Buffer | None:
        note = self._note()
        if note not in (0, 1):
            raise WireError("malformed notes")
        return self._take((rows + 7) // 8) if note else None

    def _integers(self, rows: int, dtype: Any) -> npt.NDArray[Any]:
        base, width = self._note(), self._note()
        low, high = _LIMITS[np.dtype(dtype)]
        if not low <= base <= high:
            raise WireError("value out of range")
        self._spend(rows * np.dtype(dtype).itemsize)
        if width == 0:
            return np.full(rows, base, dtype=dtype)
        if width not in _UNSIGNED or width > np.dtype(dtype).itemsize:
            raise WireError("malformed notes")
        distance = np.frombuffer(self._take(rows * width), dtype=_UNSIGNED[width])
        if not rows:
            return np.zeros(0, dtype=dtype)
        if base + int(distance.max()) > high:
            raise WireError("value out of range")
        values: npt.NDArray[Any] = distance.astype(dtype)
        if base:
            # A distance beyond the signed range wrapped above, and wraps back here.
            values += values.dtype.type(base)
        return values

    def _lengths(self, rows: int) -> tuple[npt.NDArray[Any], int]:
        """Offsets from lengths, and their end."""
        lengths = self._integers(rows, np.int32)
        if rows and lengths.min() < 0:
            raise WireError("negative length")
        offsets = np.zeros(rows + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        end = int(offsets[-1])
        if end > DECODED_BYTES_MAX:
            raise WireError(f"columns of more than {DECODED_BYTES_MAX} bytes")
        return offsets.astype(np.int32), end

    def _bytes(self, kind: pa.DataType, rows: int, validity: pa.Buffer | None) -> pa.Array:
        offsets, end = self._lengths(rows)
        array = pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(offsets), self._take(end)])
        if pa.types.is_string(kind):
            array.validate(full=True)
        return array

    def _list(self, kind: pa.DataType, rows: int, validity: pa.Buffer | None) -> pa.Array:
        offsets, end = self._lengths(rows)
        child = self.column(kind.value_type, end)
        return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(offsets)], children=[child])

    def _fixed(self, kind: pa.DataType, rows: int, validity: pa.Buffer | None) -> pa.Array:
        array = pa.Array.from_buffers(kind, rows, [validity, self._take(rows * fixed_bytes(kind))])
        if pa.types.is_decimal(kind):
            array.validate(full=True)
        return array
