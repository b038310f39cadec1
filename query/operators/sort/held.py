"""Rows that wait to be sorted, with their keys: all of them, or the first so many and what came since.

With a bound, rows are sorted and cut once there are twice as many as needed, and a row whose first key already lies
behind the last one that counts is not taken at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from query.batch import Batch
from query.expr import TypeClash
from query.operators.sort.order import Direction, sorted_rows

#: Rows beyond the bound that are collected before they are sorted and cut.
SLACK_ROWS = 65_536
#: Rows of a batch that leaves a sort.
OUT_ROWS = 65_536


class HeldRows:
    """Rows of one probe. All have one schema: an order over columns that come and go has no meaning. Only a column
    without any value, whose type nobody could know, is taken for one of the type that it has elsewhere."""

    def __init__(self, order: Sequence[Direction], rows_max: int | None) -> None:
        self._order = order
        self._rows_max = rows_max
        self._rows: list[pa.RecordBatch] = []
        self._keys: list[list[pa.Array]] = []
        self._sample: Batch | None = None
        self._count = 0
        self._bound: pa.Scalar | None = None
        self.nbytes = 0

    def add(self, batch: Batch, keys: list[pa.Array]) -> None:
        if self._sample is None:
            self._sample = batch.slice(0, 0)
        elif not self._sample.schema.equals(batch.schema):
            batch, keys = self._agree(self._sample, batch, keys)
        if self._bound is not None:
            batch, keys = self._within(batch, keys)
        self._append(batch.data, keys)
        if self._rows_max is not None and self._count > self._rows_max + max(SLACK_ROWS, self._rows_max):
            self._cut()

    def take(self, offset: int) -> Iterator[Batch]:
        """The rows in order, without the first `offset`."""
        if self._sample is None:
            return
        table, indices = self._sorted()
        stop = len(indices) if self._rows_max is None else min(len(indices), self._rows_max)
        for start in range(offset, stop, OUT_ROWS):
            part = table.take(indices.slice(start, min(OUT_ROWS, stop - start))).combine_chunks()
            for data in part.to_batches():
                yield Batch(self._sample.table, data)

    def _agree(self, sample: Batch, batch: Batch, keys: list[pa.Array]) -> tuple[Batch, list[pa.Array]]:
        """Gives columns of type null, here or in the rows held, the type they have on the other side."""
        if sample.schema.names != batch.schema.names:
            raise TypeClash(f"rows of other columns than the first ones: {batch!r}"[:200])
        try:
            schema = pa.unify_schemas([sample.schema, batch.schema])
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise TypeClash(f"columns of other types than the first ones: {batch!r}"[:200]) from None
        if not schema.equals(sample.schema):
            self._sample = Batch(sample.table, sample.data.cast(schema))
            self._rows = [rows.cast(schema) for rows in self._rows]
        if self._keys:
            kinds = [_known(held.type, key.type) for held, key in zip(self._keys[0], keys, strict=True)]
            self._keys = [_cast(held, kinds) for held in self._keys]
            keys = _cast(keys, kinds)
        return Batch(batch.table, batch.data.cast(schema)), keys

    def _append(self, data: pa.RecordBatch, keys: list[pa.Array]) -> None:
        if data.num_rows:
            self._rows.append(data)
            self._keys.append(keys)
            self._count += data.num_rows
            self.nbytes += data.nbytes + sum(key.nbytes for key in keys)

    def _columns(self) -> list[pa.ChunkedArray]:
        return [pa.chunked_array(list(column)) for column in zip(*self._keys, strict=True)]

    def _sorted(self) -> tuple[pa.Table, pa.Array]:
        assert self._sample is not None
        table = pa.Table.from_batches(self._rows, schema=self._sample.schema)
        if table.num_rows == 0:
            return table, pa.array([], pa.uint64())
        return table, sorted_rows(self._columns(), self._order)

    def _cut(self) -> None:
        """Keeps the rows that count, in order, and remembers where they end."""
        table, indices = self._sorted()
        indices = indices.slice(0, self._rows_max)
        keys = [column.take(indices).combine_chunks() for column in self._columns()]
        kept = table.take(indices).combine_chunks().to_batches()
        self._rows, self._keys, self._count, self.nbytes = [], [], 0, 0
        for data in kept:
            self._append(data, keys)
        if len(indices) == 0:
            return
        last = keys[0][len(keys[0]) - 1]
        usable = last.is_valid and not (pa.types.is_floating(last.type) and last.as_py() != last.as_py())
        self._bound = last if usable and self._order[0].nulls_first is False else None

    def _within(self, batch: Batch, keys: list[pa.Array]) -> tuple[Batch, list[pa.Array]]:
        """The rows that could still count. With NULLs last and a bound that is none, NULLs cannot."""
        descending = self._order[0].descending
        keep = (pc.greater_equal if descending else pc.less_equal)(keys[0], self._bound)
        if descending and pa.types.is_floating(keys[0].type):
            keep = pc.or_(keep, pc.is_nan(keys[0]))
        keep = pc.fill_null(keep, False)
        return batch.take(keep), [key.filter(keep) for key in keys]


def _known(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    return other if pa.types.is_null(one) else one


def _cast(keys: list[pa.Array], kinds: list[pa.DataType]) -> list[pa.Array]:
    """Keys of the wanted types; only those of type null are changed."""
    return [
        key.cast(kind) if pa.types.is_null(key.type) else key for key, kind in zip(keys, kinds, strict=True)
    ]
