"""Lines that are JSON objects to Arrow columns by a fixed schema, one row per line.

Arrow's reader takes a whole block but refuses it all for one broken line; so when it refuses, lines are tried
one by one with msgspec, and the few that only Arrow refuses are found by halving. Feeds the EVE and Zeek JSON
dialects. Fields the schema does not name are passed over.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json

from pier_node.logs.block import Block, Mask, Positions
from pier_node.logs.scan_numpy import gather

# Reads spent on finding lines that msgspec takes and Arrow does not (a key twice); about 60 µs each. Lines not
# reached by then are unparsed.
HALVINGS_PER_BLOCK_MAX = 512


class ObjectReader:
    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
        self._decoder = msgspec.json.Decoder(_struct("Line", schema))

    def read(self, block: Block) -> tuple[Any, Mask]:
        """A batch with a row per line and which lines are objects of the schema; other rows are null."""
        good: Mask = (block.data[block.starts] == ord("{")) & (block.data[block.ends - 1] == ord("}"))
        good &= block.ends - block.starts >= 2
        index = np.flatnonzero(good)
        table = self._table(block, index)
        if table is None:
            index = np.array([line for line in index.tolist() if self._decodes(block, line)], np.int64)
            table, index = self._halve(block, index)
        good = np.zeros(len(block), np.bool_)
        good[index] = True
        if good.all():
            return table, good
        place = np.zeros(len(block), np.int64)
        place[index] = np.arange(len(index))
        return table.take(pa.array(place, mask=~good)), good

    def _decodes(self, block: Block, line: int) -> bool:
        try:
            self._decoder.decode(block.data[block.starts[line] : block.ends[line]].tobytes())
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return False
        return True

    def _table(self, block: Block, index: Positions) -> Any | None:
        """The lines as one table, or None if Arrow refuses any of them.

        A line that begins with a brace, ends with one and does not break the parse holds at least one
        object; so when rows and lines are equally many, each row is its line's.
        """
        if not len(index):
            return self._schema.empty_table()
        # One byte more than the line: its newline or carriage return, either of which parts objects.
        raw, _ = gather(block.data, block.starts[index], block.ends[index] + 1)
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(raw) + 1)
        try:
            table = pyarrow.json.read_json(pa.BufferReader(pa.py_buffer(raw)), options, self._options)
            table.validate(full=True)
        except pa.ArrowInvalid:
            return None
        return table if len(table) == len(index) else None

    def _halve(self, block: Block, index: Positions) -> tuple[Any, Positions]:
        """Tables of ever smaller runs of lines until each is taken or is one bad line."""
        pending, taken, tables = [index], [index[:0]], [self._schema.empty_table()]
        reads = 0
        while pending and reads < HALVINGS_PER_BLOCK_MAX:
            run = pending.pop()
            reads += 1
            table = self._table(block, run)
            if table is not None:
                taken.append(run)
                tables.append(table)
            elif len(run) > 1:
                half = len(run) // 2
                pending += [run[half:], run[:half]]
        return pa.concat_tables(tables), np.concatenate(taken)


def _struct(name: str, fields: Any) -> Any:
    """A msgspec type that takes what the Arrow fields take: each optional, each nullable."""
    made = []
    renames = {}
    for number, field in enumerate(fields):
        attribute = f"field{number}"
        renames[attribute] = field.name
        made.append((attribute, _python_type(field) | None, None))
    return msgspec.defstruct(name, made, rename=renames)


def _python_type(field: Any) -> Any:
    if pa.types.is_struct(field.type):
        return _struct(field.name, [field.type.field(i) for i in range(field.type.num_fields)])
    if pa.types.is_boolean(field.type):
        return bool
    if pa.types.is_integer(field.type):
        return int
    return float if pa.types.is_floating(field.type) else str
