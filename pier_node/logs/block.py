"""Complete lines of one log as a byte array with the bounds of every line: what all scanners read.

Blocks come from the parser machine (which carries partial lines over) and live for one scan. Invariant: the
array has `LEAD` newline bytes before the first line and `TAIL` after the last, so that fixed-width reads
around any position of a line stay inside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]

NEWLINE = 10
CARRIAGE_RETURN = 13
# Widest fixed-width read to the left of a position: one 8-byte word and the byte before it.
LEAD = 16
# Widest fixed-width read to the right: an IPv6 text or a timestamp.
TAIL = 64


@dataclass(frozen=True, slots=True)
class Spans:
    """One stretch of bytes per line; `end <= start` means the line has none."""

    start: Positions
    end: Positions

    @property
    def present(self) -> Mask:
        return self.end > self.start


@dataclass(frozen=True, slots=True)
class Block:
    data: Bytes
    starts: Positions
    ends: Positions
    ascii: bool

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def lines(self) -> Spans:
        return Spans(self.starts, self.ends)

    def text(self, line: int, limit: int) -> bytes:
        """The line's first `limit` bytes."""
        start, end = int(self.starts[line]), int(self.ends[line])
        return self.data[start : min(end, start + limit)].tobytes()

    def held(self, spans: Spans) -> Spans:
        """One span per line, made empty where it leaves its line or would cut a character in two: what a
        scanner names on a line it could not read may lie anywhere."""
        outside = (spans.start < self.starts) | (spans.end > self.ends)
        if not self.ascii:
            outside |= (self.data[spans.start] & 0xC0 == 0x80) | (self.data[spans.end] & 0xC0 == 0x80)
        return Spans(spans.start, np.where(outside, spans.start, spans.end)) if outside.any() else spans

    def select(self, index: Positions) -> Block:
        """The same bytes, fewer lines. Only scanners that work by line bounds may be given it."""
        return Block(self.data, self.starts[index], self.ends[index], self.ascii)


def block_of(lines: bytes) -> Block:
    """`lines` ends with a newline. Bytes that are not UTF-8 become U+FFFD, so every column is valid text."""
    ascii_ = lines.isascii()
    if not ascii_:
        lines = lines.decode("utf-8", "replace").encode("utf-8")
    data = np.frombuffer(b"\n" * LEAD + lines + b"\n" * TAIL, np.uint8)
    newlines = np.flatnonzero(data[LEAD : LEAD + len(lines)] == NEWLINE) + LEAD
    starts = np.empty(len(newlines), np.int64)
    if len(starts):
        starts[0] = LEAD
        starts[1:] = newlines[:-1] + 1
    ends = newlines - ((data[newlines - 1] == CARRIAGE_RETURN) & (newlines > starts))
    return Block(data, starts, ends, ascii_)


def block_of_strings(array: Any) -> Block:
    """The values of an Arrow string array as lines, for decoders that read spans; null becomes empty."""
    array = array.fill_null("") if array.null_count else array
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    values = array.buffers()[2]
    raw = b"" if values is None else values.to_pybytes()
    data = np.frombuffer(b"\n" * LEAD + raw + b"\n" * TAIL, np.uint8)
    return Block(data, offsets[:-1] + LEAD, offsets[1:] + LEAD, raw.isascii())


def string_array(data: Bytes, offsets: npt.NDArray[np.int32], absent: Mask) -> Any:
    """Arrow strings from gathered bytes; where `absent`, null."""
    count = len(absent)
    validity, nulls = None, int(np.count_nonzero(absent))
    if nulls:
        validity = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.StringArray.from_buffers(count, buffers[1], buffers[2], buffers[0], nulls)
