"""Lines of separated fields (CSV, TSV, words): where the k-th field of every line lies.

Separators of a block are found once; a field is index arithmetic on them. Feeds the dialects that are told
apart by position. A header line that names the fields may change the layout at any line (`LayoutScanner`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from pier_node.logs.block import NEWLINE, Block, Positions, Spans
from pier_node.logs.decode import Addresses
from pier_node.logs.engine import Engine
from pier_node.logs.rows import RowBuilder, Rows
from pier_node.logs.scan_numpy import QUOTE, inside_quotes
from pier_node.logs.stamps import Context

# Distinct layouts served within one block; a real log changes its header when its device is reconfigured.
LAYOUTS_PER_BLOCK_MAX = 8
# Fields a header may name; the widest known layout (VPC flow version 10) has some 50.
LAYOUT_FIELDS_MAX = 256
TOO_MANY_LAYOUTS = "too many header lines"

Layout = tuple[str, ...]


def layout_of(names: str) -> Layout:
    return tuple(names.split())


class Fields:
    def __init__(
        self, block: Block, at: Positions, separator: int, *, quoted: bool = False, nil: int | None = None
    ) -> None:
        """`at`: where the first field of each line begins. `quoted`: separators between double quotes are
        text. `nil`: a field of this one byte is absent."""
        data = block.data
        marks = np.flatnonzero((data == separator) | (data == NEWLINE))
        if quoted and len(block):
            lines = np.maximum(np.searchsorted(block.starts, marks, side="right") - 1, 0)
            marks = marks[(data[marks] == NEWLINE) | ~inside_quotes(block, marks, lines)]
        self._block, self._at, self._marks = block, at, marks
        self._quoted, self._nil = quoted, nil
        self._first = np.searchsorted(marks, at)
        self._last = np.searchsorted(marks, block.ends)
        self.count = self._last - self._first + 1

    def span(self, number: int | Positions) -> Spans:
        """The field with that number from 0 (or, per line, its own number); absent where the line is shorter."""
        data, ends = self._block.data, self._block.ends
        index = self._first + number
        present = index <= self._last
        index = np.minimum(index, self._last)
        start = np.where(np.equal(number, 0), self._at, self._marks[np.maximum(index - 1, 0)] + 1)
        end = np.minimum(self._marks[np.minimum(index, len(self._marks) - 1)], ends)
        end = np.where(present, end, start)
        if self._quoted:
            quoted = (end - start >= 2) & (data[start] == QUOTE) & (data[end - 1] == QUOTE)
            start, end = start + quoted, end - quoted
        if self._nil is not None:
            end = np.where((end - start == 1) & (data[start] == self._nil), start, end)
        return Spans(start, end)


class NamedFields:
    """Fields by the names of a layout; a name the layout lacks is absent on every line."""

    def __init__(self, fields: Fields, layout: Layout, block: Block) -> None:
        self._fields, self._block = fields, block
        self._numbers = {name: number for number, name in reversed(list(enumerate(layout)))}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def span(self, name: str) -> Spans:
        if name in self._numbers:
            return self._fields.span(self._numbers[name])
        return Spans(self._block.starts, self._block.starts)


Fill = Callable[[RowBuilder, Layout], Rows]


class LayoutScanner:
    """Remembers the latest header line; lines after it are read by its layout."""

    def __init__(
        self,
        engine: Engine,
        layout: Layout,
        mark: bytes,
        read_header: Callable[[bytes], Layout | None],
        fill: Fill,
    ) -> None:
        """`layout` holds until a header comes. Lines that contain `mark` are tried as headers."""
        self._engine, self._layout = engine, layout
        self._mark, self._read_header, self._fill = mark, read_header, fill
        self._addresses = Addresses()

    def scan(self, block: Block, context: Context) -> Rows:
        headers = self._headers(block)
        if not headers:
            return self._read(block, context, self._layout)
        known: dict[Layout, int] = {self._layout: 0}
        header_lines = np.array([line for line, _ in headers])
        numbers = np.array([0] + [known.setdefault(layout, len(known)) for _, layout in headers])
        layout_of = numbers[np.searchsorted(header_lines, np.arange(len(block)), side="right")]
        self._layout = headers[-1][1]
        parts: list[tuple[Positions, Rows]] = []
        for layout, number in list(known.items())[:LAYOUTS_PER_BLOCK_MAX]:
            index = np.flatnonzero(layout_of == number)
            if len(index):
                parts.append((index, self._read(block.select(index), context, layout)))
        return _merged(len(block), parts, header_lines)

    def _read(self, block: Block, context: Context, layout: Layout) -> Rows:
        return self._fill(RowBuilder(self._engine, self._addresses, block, context), layout)

    def _headers(self, block: Block) -> list[tuple[int, Layout]]:
        raw = block.data.tobytes()
        found: list[tuple[int, Layout]] = []
        at = raw.find(self._mark)
        while at >= 0:
            line = int(np.searchsorted(block.starts, at, side="right")) - 1
            end = int(block.ends[line])
            layout = self._read_header(raw[int(block.starts[line]) : end])
            if layout is not None and len(layout) <= LAYOUT_FIELDS_MAX:
                found.append((line, layout))
            at = raw.find(self._mark, max(end, at + 1))
        return found


def _merged(count: int, parts: list[tuple[Positions, Rows]], header_lines: Positions) -> Rows:
    """Rows of several layouts back in the order of their lines; lines of layouts past the limit are bad."""
    good, skipped = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    place: Any = np.zeros(count, np.int64)
    served = np.zeros(count, np.bool_)
    offset = 0
    for index, rows in parts:
        good[index], skipped[index], served[index] = rows.good, rows.skipped, True
        place[index] = offset + np.arange(len(index))
        offset += len(index)
    skipped[header_lines] = True
    batch = pa.concat_batches([rows.batch for _, rows in parts]).take(pa.array(place, mask=~served))
    reasons = (
        None if served.all() else pa.array([None, TOO_MANY_LAYOUTS]).take(pa.array((~served).astype(np.int8)))
    )
    return Rows(batch, good & ~skipped, skipped, reasons)
