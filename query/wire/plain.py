"""Small batches of numbers and texts in a form that numpy reads many of at once.

A bulk load makes thousands of objects of a few rows, one or more a key (PIER 3.2.4), and a scan reads them all. Values
as msgpack has them (`small.py`) must be looked at one by one; here every body says first how wide its columns are, so
that one step reads a column of all bodies. A body takes about as many bytes as msgpack's, and is read together with
others in a third of the time (bench/wire.py); a batch that travels by itself is better off with msgpack.

    rows, one byte
    for each column one byte: the width of its numbers as a power of two, and whether it has NULLs
    for each column: a bit for each row that is no NULL, if it has any; its numbers, or the lengths of its texts; texts

What is read is trusted in nothing: each width is held against what is left of its body before it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from query.batch.types import BINARY, BOOL, DOUBLE, FLOAT, STRING, TIME
from query.wire.limits import DECODED_BYTES_MAX, WireError
from query.wire.raw import integer_dtype, is_integer_like
from query.wire.small import SMALL_ROWS_MAX

#: Of int64.
_Numbers: TypeAlias = npt.NDArray[Any]
_Mask = npt.NDArray[np.bool_]

#: A column's byte: two bits of width, one for NULLs.
_WIDTH_BITS, _NULLS = 3, 4
_WIDTHS = (1, 2, 4, 8)
_WORD_BYTES = 8
_DAY_US = 86_400_000_000
#: Numbers as they are written: what is not signed by its type is a length or bits.
_SIGNED = tuple(np.dtype(f"<i{width}") for width in _WIDTHS)
_UNSIGNED = tuple(np.dtype(f"<u{width}") for width in _WIDTHS)


def is_plain(schema: pa.Schema) -> bool:
    """Whether batches of this schema have this form."""
    return len(schema) > 0 and all(_is_plain(field.type) for field in schema)


def _is_plain(kind: pa.DataType) -> bool:
    return kind in (BOOL, FLOAT, DOUBLE, STRING, BINARY) or is_integer_like(kind)


def _is_signed(kind: pa.DataType) -> bool:
    return is_integer_like(kind) and not pa.types.is_unsigned_integer(kind)


class _Rows:
    """The rows of several bodies, side by side: whose each is, and which of its rows."""

    __slots__ = ("counts", "firsts", "owner", "within")

    def __init__(self, counts: _Numbers) -> None:
        self.counts = counts
        self.firsts = np.cumsum(counts) - counts
        self.owner = np.repeat(np.arange(len(counts)), counts)
        self.within = np.arange(len(self.owner)) - self.firsts[self.owner]

    def places(self, at: _Numbers, widths: _Numbers) -> _Numbers:
        """Where each row's number lies, when those of a body begin at `at`."""
        places: _Numbers = at[self.owner] + self.within * widths[self.owner]
        return places


def _spans(at: _Numbers, sizes: _Numbers) -> _Numbers:
    """The places of all bytes of spans, one span after the other."""
    places: _Numbers = np.arange(sizes.sum()) + np.repeat(at - (np.cumsum(sizes) - sizes), sizes)
    return places


# ---- writing -------------------------------------------------------------------------------------------


def pack_parts(data: pa.RecordBatch, counts: Sequence[int]) -> list[bytes]:
    """The bodies of parts of a plain batch that follow each other, each of 1 to SMALL_ROWS_MAX rows."""
    rows = _Rows(np.array(counts, np.int64))
    columns = [_Column(column, rows) for column in data.columns]
    sizes = 1 + len(columns) + sum((column.sizes for column in columns), np.zeros(len(counts), np.int64))
    ends = np.cumsum(sizes)
    at = ends - sizes
    out = np.empty(ends[-1], np.uint8)
    out[at] = rows.counts
    for number, column in enumerate(columns):
        out[at + 1 + number] = column.codes
    at = at + 1 + len(columns)
    for column in columns:
        at = column.write(out, at, rows)
    content = out.tobytes()
    return [content[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist(), strict=True)]


class _Column:
    """One column of all parts, and what each of them needs for it."""

    __slots__ = ("_content", "_mask_sizes", "_numbers", "_text_sizes", "_valid", "_widths", "codes", "sizes")

    def __init__(self, column: pa.Array, rows: _Rows) -> None:
        self._valid: _Mask | None = (
            column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
        )
        self._content: npt.NDArray[np.uint8] | None = None
        self._text_sizes = np.zeros(len(rows.counts), np.int64)
        if column.type in (STRING, BINARY):
            filled = column.fill_null("" if column.type == STRING else b"")
            offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset :][: len(filled) + 1]
            self._numbers: _Numbers = np.diff(offsets).astype(np.int64)
            content = filled.buffers()[2]
            self._content = np.frombuffer(b"" if content is None else content, np.uint8)[
                offsets[0] : offsets[-1]
            ]
            self._text_sizes = np.add.reduceat(self._numbers, rows.firsts)
        else:
            self._numbers = _numbers_of(column)
        codes = _width_codes(self._numbers, rows.firsts, _is_signed(column.type))
        self._widths = np.left_shift(1, codes)
        nulls = np.zeros(len(rows.counts), np.bool_)
        if self._valid is not None:
            nulls = np.logical_or.reduceat(~self._valid, rows.firsts)
        self._mask_sizes = nulls * ((rows.counts + 7) // 8)
        self.codes = codes | nulls * _NULLS
        self.sizes = self._mask_sizes + rows.counts * self._widths + self._text_sizes

    def write(self, out: npt.NDArray[np.uint8], at: _Numbers, rows: _Rows) -> _Numbers:
        """Puts the column into all bodies, at these places; where the next one goes."""
        if self._valid is not None and self._mask_sizes.any():
            masks = np.add.reduceat(self._valid.astype(np.int64) << rows.within, rows.firsts)
            for byte in range(int(self._mask_sizes.max())):
                has = self._mask_sizes > byte
                out[at[has] + byte] = masks[has] >> 8 * byte & 0xFF
            at = at + self._mask_sizes
        places, widths = rows.places(at, self._widths), self._widths[rows.owner]
        for byte in range(int(self._widths.max())):
            has = widths > byte
            out[places[has] + byte] = self._numbers[has] >> 8 * byte & 0xFF
        at = at + rows.counts * self._widths
        if self._content is not None:
            out[_spans(at, self._text_sizes)] = self._content
        return at + self._text_sizes


def _numbers_of(column: pa.Array) -> _Numbers:
    """Values as whole numbers: floats by their bits, NULLs as zero."""
    kind = column.type
    if kind == BOOL:
        column = column.cast(pa.int8())
    elif kind in (FLOAT, DOUBLE):
        column = column.view(pa.int64() if kind == DOUBLE else pa.uint32())
    else:
        column = column.view(pa.from_numpy_dtype(integer_dtype(kind)))
    numbers: _Numbers = (column.fill_null(0) if column.null_count else column).to_numpy()
    return numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers.astype(np.int64)


def _width_codes(numbers: _Numbers, firsts: _Numbers, signed: bool) -> _Numbers:
    """For each part, the smallest width that holds all its numbers, as a power of two."""
    low = np.minimum.reduceat(numbers, firsts)
    high = np.maximum.reduceat(numbers, firsts)
    codes = np.zeros(len(firsts), np.int64)
    for code in range(len(_WIDTHS) - 1):
        limits = np.iinfo((_SIGNED if signed else _UNSIGNED)[code])
        codes[(low < limits.min) | (high > limits.max)] = code + 1
    return codes


# ---- reading -------------------------------------------------------------------------------------------


def count_rows(body: bytes) -> int:
    """The rows that a body says it has. Raises WireError."""
    if not body or not 0 < body[0] <= SMALL_ROWS_MAX:
        raise WireError("malformed columns")
    return body[0]


def unpack_many(bodies: Sequence[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of several bodies of one schema as one batch. Raises WireError if any of them is no such body."""
    if not is_plain(schema):
        raise WireError("columns that have another form")
    try:
        reader: _One | _Many = (
            _One(bodies[0], len(schema)) if len(bodies) == 1 else _Many(bodies, len(schema))
        )
        arrays = [
            _array(field.type, *reader.column(number, field.type)) for number, field in enumerate(schema)
        ]
        reader.finish()
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    except (ValueError, pa.lib.ArrowException) as error:
        raise error if isinstance(error, WireError) else WireError(f"malformed columns: {error}") from None


class _Many:
    """Bodies that are read column by column."""

    __slots__ = ("_at", "_codes", "_data", "_ends", "_rows", "_words")

    def __init__(self, bodies: Sequence[bytes], columns: int) -> None:
        joined = b"".join((*bodies, bytes(_WORD_BYTES)))
        self._data = np.frombuffer(joined, np.uint8)
        #: The eight bytes that begin at each place.
        self._words = np.ndarray((len(joined) - _WORD_BYTES + 1,), "<u8", joined, strides=(1,))
        sizes = np.array([len(body) for body in bodies])
        self._ends = np.cumsum(sizes)
        at = self._ends - sizes
        if sizes.min() < 1 + columns:
            raise WireError("malformed columns")
        counts = self._data[at].astype(np.int64)
        self._codes = self._data[(at + 1)[:, None] + np.arange(columns)].astype(np.int64)
        if counts.min() < 1 or counts.max() > SMALL_ROWS_MAX or self._codes.max() > _WIDTH_BITS | _NULLS:
            raise WireError("malformed columns")
        self._rows = _Rows(counts)
        self._at = at
        self._take(np.full(len(bodies), 1 + columns))

    def finish(self) -> None:
        if (self._at != self._ends).any():
            raise WireError("bytes left over")

    def _take(self, sizes: _Numbers) -> _Numbers:
        """Where each body's next bytes begin."""
        at: _Numbers = self._at
        self._at = at + sizes
        if (self._at > self._ends).any():
            raise WireError("body is too short")
        return at

    def column(self, number: int, kind: pa.DataType) -> tuple[_Numbers, _Mask | None, Any]:
        rows, codes = self._rows, self._codes[:, number]
        valid = None
        nulls = codes >> 2
        if nulls.any():
            masks = self._words[self._take(nulls * ((rows.counts + 7) // 8))][rows.owner]
            valid = (masks >> rows.within.astype(np.uint64) & np.uint64(1) != 0) | (nulls == 0)[rows.owner]
        widths = np.left_shift(1, codes & _WIDTH_BITS)
        numbers = self._numbers(self._take(rows.counts * widths), widths, _is_signed(kind))
        if kind not in (STRING, BINARY):
            return numbers, valid, None
        if numbers.min() < 0 or numbers.max() > len(self._data):
            raise WireError("body is too short")
        sizes = np.add.reduceat(numbers, rows.firsts)
        return numbers, valid, self._data[_spans(self._take(sizes), sizes)]

    def _numbers(self, at: _Numbers, widths: _Numbers, signed: bool) -> _Numbers:
        places = self._rows.places(at, widths)
        if widths.max() == 1 and not signed:
            return self._data[places].astype(np.int64)
        spare = ((_WORD_BYTES - widths) * 8)[self._rows.owner]
        shifted = self._words[places] << spare.astype(np.uint64)
        return (
            shifted.view(np.int64) >> spare if signed else (shifted >> spare.astype(np.uint64)).view(np.int64)
        )


class _One:
    """One body, for whoever has no more: the same columns without looking around."""

    __slots__ = ("_at", "_body", "_rows")

    def __init__(self, body: bytes, columns: int) -> None:
        self._body = body
        self._rows = count_rows(body)
        self._at = 1 + columns
        if len(body) < self._at or max(body[1 : self._at]) > _WIDTH_BITS | _NULLS:
            raise WireError("malformed columns")

    def finish(self) -> None:
        if self._at != len(self._body):
            raise WireError("bytes left over")

    def _take(self, dtype: Any, count: int) -> npt.NDArray[Any]:
        taken = np.frombuffer(self._body, dtype, count, self._at)
        self._at += taken.nbytes
        return taken

    def column(self, number: int, kind: pa.DataType) -> tuple[_Numbers, _Mask | None, Any]:
        code = self._body[1 + number]
        valid = None
        if code & _NULLS:
            packed = self._take(np.uint8, (self._rows + 7) // 8)
            valid = np.unpackbits(packed, count=self._rows, bitorder="little").astype(np.bool_)
        dtype = (_SIGNED if _is_signed(kind) else _UNSIGNED)[code & _WIDTH_BITS]
        numbers: _Numbers = self._take(dtype, self._rows).astype(np.int64)
        if kind not in (STRING, BINARY):
            return numbers, valid, None
        if numbers.min() < 0 or numbers.max() > len(self._body):
            raise WireError("body is too short")
        return numbers, valid, self._take(np.uint8, int(numbers.sum()))


def _array(kind: pa.DataType, numbers: _Numbers, valid: _Mask | None, content: Any) -> pa.Array:
    """A column from its numbers, or from the lengths of its texts. Raises WireError for what the type cannot hold."""
    rows = len(numbers)
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if content is not None:
        if len(content) > DECODED_BYTES_MAX or (valid is not None and numbers[~valid].any()):
            raise WireError("malformed texts")
        offsets = np.zeros(rows + 1, np.int32)
        np.cumsum(numbers, dtype=np.int32, out=offsets[1:])
        array = pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(offsets), pa.py_buffer(content)])
        if kind == STRING:
            array.validate(full=True)
        return array
    return pa.Array.from_buffers(kind, rows, [validity, pa.py_buffer(_values(kind, numbers))])


def _values(kind: pa.DataType, numbers: _Numbers) -> npt.NDArray[Any]:
    """Numbers as Arrow keeps them."""
    if kind == DOUBLE or kind == pa.uint64():
        return numbers
    if kind == BOOL:
        dtype: Any = np.uint8
        low, high = 0, 1
    else:
        dtype = np.uint32 if kind == FLOAT else integer_dtype(kind)
        low, high = (0, _DAY_US) if kind == TIME else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    if numbers.min() < low or numbers.max() > high:
        raise WireError("value out of range")
    values = numbers.astype(dtype)
    return np.packbits(values, bitorder="little") if kind == BOOL else values
