"""Large batches, the receiving side: buffers to columns, trusting nothing.

Every length is checked against what is left of the body and of the memory budget before it is used;
offsets are summed here and so cannot point outside; text is checked to be UTF-8 and decimals to have no
more digits than their type. What passes is a valid Arrow batch, or WireError is raised.

Several bodies of one schema are read side by side, column by column, into one batch: Arrow arrays cost more to make and
to concatenate than most objects of a table have rows.
"""

from __future__ import annotations

from collections.abc import Sequence
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
_ERRORS = (ValueError, TypeError, ArithmeticError, OSError, RecursionError, pa.lib.ArrowException)

_decode_header = msgspec.msgpack.Decoder(Header).decode
_LIMITS = {np.dtype(d): (int(np.iinfo(d).min), int(np.iinfo(d).max)) for d in "bhilBHIL"}


def unpack(body: memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """Raises WireError for anything that is not a batch of this schema."""
    return unpack_many((body,), schema)


def unpack_many(bodies: Sequence[memoryview], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of several bodies of one schema as one batch. Raises WireError if any of them is none. Whoever calls
    bounds the bodies: together they may be as large as each alone, times their number."""
    try:
        reader = _Reader([_Body(body) for body in bodies])
        arrays = [reader.column(field.type, reader.rows) for field in schema]
        reader.finish()
        return pa.RecordBatch.from_arrays(arrays, schema=schema) if arrays else _columnless(reader.rows)
    except WireError:
        raise
    except _ERRORS as error:
        raise WireError(f"malformed buffers: {error}") from None


def header_of(body: memoryview) -> Header:
    """Rows and decompressed size, as the sender says. Raises WireError."""
    try:
        return _decode_header(body[HEADER_LENGTH_BYTES : _content_at(body)])
    except _ERRORS as error:
        raise WireError(f"malformed header: {error}") from None


def _content_at(body: memoryview) -> int:
    return HEADER_LENGTH_BYTES + int.from_bytes(body[:HEADER_LENGTH_BYTES], "big")


def _columnless(rows: Sequence[int]) -> pa.RecordBatch:
    if any(rows):
        raise WireError("rows without columns")
    return pa.RecordBatch.from_arrays([], names=[])


class _Body:
    """What is left of one body, its notes and its budget."""

    __slots__ = ("_at", "_budget", "_content", "_note_at", "_notes", "rows")

    def __init__(self, body: memoryview) -> None:
        header = _decode_header(body[HEADER_LENGTH_BYTES : _content_at(body)])
        content = body[_content_at(body) :]
        if header.compressed:
            content = memoryview(pa.Codec("zstd").decompress(content, decompressed_size=header.size))
        if len(content) != header.size:
            raise WireError("body has another length than its header says")
        self.rows = header.rows
        self._notes = header.notes
        self._note_at = 0
        self._content = content
        self._at = 0
        self._budget = DECODING_BYTES_MAX

    def finish(self) -> None:
        if self._at != len(self._content) or self._note_at != len(self._notes):
            raise WireError("bytes left over")

    def notes(self, count: int) -> list[int]:
        at = self._note_at
        self._note_at = at + count
        taken = self._notes[at : at + count]
        if len(taken) != count:
            raise WireError("malformed notes")
        return taken

    def flag(self) -> bool:
        (note,) = self.notes(1)
        if note not in (0, 1):
            raise WireError("malformed notes")
        return note == 1

    def spend(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise WireError(f"columns that need more than {DECODING_BYTES_MAX} bytes")

    def take(self, size: int) -> memoryview:
        """The next bytes."""
        start, stop = self._at, self._at + size
        if size < 0 or stop > len(self._content):
            raise WireError("body is too short")
        self.spend(size)
        self._at = stop
        return self._content[start:stop]


class _Reader:
    """Bodies read together. `counts` says how many values each of them has of a column."""

    __slots__ = ("_bodies", "rows")

    def __init__(self, bodies: list[_Body]) -> None:
        self._bodies = bodies
        self.rows = [body.rows for body in bodies]

    def finish(self) -> None:
        for body in self._bodies:
            body.finish()

    def column(self, kind: pa.DataType, counts: Sequence[int]) -> pa.Array:
        rows = sum(counts)
        if kind == NULL:
            return pa.nulls(rows)
        validity = self._validity(counts)
        if is_integer_like(kind):
            values = self._integers(counts, integer_dtype(kind))
            if kind == TIME and rows and not (values.min() >= 0 and values.max() <= _DAY_US):
                raise WireError("time of day out of range")
            return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(values)])
        if pa.types.is_boolean(kind):
            return pa.Array.from_buffers(kind, rows, [validity, self._bits(counts, [True] * len(counts))])
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return self._bytes(kind, counts, validity)
        if pa.types.is_list(kind):
            return self._list(kind, counts, validity)
        if pa.types.is_struct(kind):
            children = [self.column(f.type, counts) for f in kind]
            return pa.Array.from_buffers(kind, rows, [validity], children=children)
        return self._fixed(kind, counts, validity)

    def _take(self, sizes: Sequence[int]) -> pa.Buffer:
        """The next bytes of each body. Copied: Arrow wants its buffers aligned, and the bodies need not live on."""
        taken = [body.take(size) for body, size in zip(self._bodies, sizes, strict=True)]
        return pa.py_buffer(b"".join(taken))

    def _validity(self, counts: Sequence[int]) -> pa.Buffer | None:
        flags = [body.flag() for body in self._bodies]
        return self._bits(counts, flags) if any(flags) else None

    def _bits(self, counts: Sequence[int], there: Sequence[bool]) -> pa.Buffer:
        """Bits of those bodies that have them; all ones for the others."""
        if len(counts) == 1:
            return self._take([(counts[0] + 7) // 8])
        bits = np.ones(sum(counts), np.bool_)
        at = 0
        for body, count, has in zip(self._bodies, counts, there, strict=True):
            if has:
                packed = np.frombuffer(body.take((count + 7) // 8), np.uint8)
                bits[at : at + count] = np.unpackbits(packed, count=count, bitorder="little")
            at += count
        return pa.py_buffer(np.packbits(bits, bitorder="little"))

    def _integers(self, counts: Sequence[int], dtype: Any) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = np.empty(sum(counts), dtype=dtype)
        at = 0
        for body, count in zip(self._bodies, counts, strict=True):
            _read_integers(body, values[at : at + count])
            at += count
        return values

    def _lengths(self, counts: Sequence[int]) -> tuple[npt.NDArray[Any], list[int]]:
        """Offsets from lengths, and what the lengths of each body come to."""
        lengths = self._integers(counts, np.int32)
        if len(lengths) and lengths.min() < 0:
            raise WireError("negative length")
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        ends = offsets[np.cumsum(counts)].tolist()
        sums = [end - start for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        if max(sums) > DECODED_BYTES_MAX or ends[-1] > np.iinfo(np.int32).max:
            raise WireError(f"columns of more than {DECODED_BYTES_MAX} bytes")
        return offsets.astype(np.int32), sums

    def _bytes(self, kind: pa.DataType, counts: Sequence[int], validity: pa.Buffer | None) -> pa.Array:
        offsets, sums = self._lengths(counts)
        buffers = [validity, pa.py_buffer(offsets), self._take(sums)]
        array = pa.Array.from_buffers(kind, sum(counts), buffers)
        if pa.types.is_string(kind):
            array.validate(full=True)
        return array

    def _list(self, kind: pa.DataType, counts: Sequence[int], validity: pa.Buffer | None) -> pa.Array:
        offsets, sums = self._lengths(counts)
        child = self.column(kind.value_type, sums)
        buffers = [validity, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(kind, sum(counts), buffers, children=[child])

    def _fixed(self, kind: pa.DataType, counts: Sequence[int], validity: pa.Buffer | None) -> pa.Array:
        width = fixed_bytes(kind)
        taken = self._take([count * width for count in counts])
        array = pa.Array.from_buffers(kind, sum(counts), [validity, taken])
        if pa.types.is_decimal(kind):
            array.validate(full=True)
        return array


def _read_integers(body: _Body, into: npt.NDArray[Any]) -> None:
    """One body's values of an integer-like column."""
    base, width = body.notes(2)
    low, high = _LIMITS[into.dtype]
    if not low <= base <= high:
        raise WireError("value out of range")
    rows = len(into)
    body.spend(rows * into.itemsize)
    if width == 0:
        into[:] = base
        return
    if width not in _UNSIGNED or width > into.itemsize:
        raise WireError("malformed notes")
    distance = np.frombuffer(body.take(rows * width), dtype=_UNSIGNED[width])
    if not rows:
        return
    if base + (1 << 8 * width) - 1 > high and base + int(distance.max()) > high:
        raise WireError("value out of range")
    # A distance beyond the signed range wraps here, and wraps back below.
    into[:] = distance
    if base:
        into += into.dtype.type(base)
