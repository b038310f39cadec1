"""CSV files as batches: one block of bytes at a time, so a file may be larger than memory.

Types that are not given are guessed by Arrow from the first block. Most files keep to them, and Arrow converts while
it parses. In a file that does not, rows from there on are read as texts and converted by the engine's own casts,
which find the rows at fault: those are dropped and counted, the others kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from pier_node.readable.csv_stream import open_stream
from query.batch import Batch, canonical_type, from_arrow, parse_type, type_name
from query.batch.types import NULL, STRING
from query.causes import Cause
from query.dataflow.context import CsvForm, Dropped, SourceUnavailable
from query.expr import compile_expression
from query.plan import Constant, Field, Function

#: Bytes parsed at a time; a line must fit.
BLOCK_BYTES = 4 << 20


class _Malformed:
    """Lines with too many or too few values: each is reported once, though a file may be read twice."""

    def __init__(self, dropped: Dropped) -> None:
        self._dropped = dropped
        self._reported = 0

    def reader(self) -> Callable[[csv.InvalidRow], str]:
        """What Arrow calls for each such line of one pass over the file."""
        seen = 0

        def invalid(row: csv.InvalidRow) -> str:
            nonlocal seen
            seen += 1
            if seen > self._reported:
                self._reported = seen
                self._dropped(
                    1,
                    f"a line has {row.actual_columns} values instead of {row.expected_columns}",
                    Cause.UNFIT,
                )
            return "skip"

        return invalid


def read_csv(table: str, opener: Callable[[], int], form: CsvForm, dropped: Dropped) -> Iterator[Batch]:
    """The rows of one file; `opener` gives a new descriptor at its beginning each time."""
    malformed = _Malformed(dropped)
    with os.fdopen(opener(), "rb") as stream:
        reader = _reader(stream, form, _given(form), malformed)
        if reader is None:
            return
        # A column without a value in the first block could hold anything later: texts.
        guessed = {f.name: STRING if f.type == NULL else canonical_type(f.type) for f in reader.schema}
        read, certain = 0, not any(f.type == NULL for f in reader.schema)
        try:
            while certain and (data := _next(reader, table)) is not None:
                read += data.num_rows
                yield from_arrow(table, data)
        except pa.ArrowInvalid:
            # A value does not fit what was guessed: what follows is read carefully instead.
            certain = False
        if certain:
            return
    yield from _read_texts(table, opener, form, guessed, read, dropped, malformed)


def _read_texts(
    table: str,
    opener: Callable[[], int],
    form: CsvForm,
    types: dict[str, pa.DataType],
    skip: int,
    dropped: Dropped,
    malformed: _Malformed,
) -> Iterator[Batch]:
    """The rows behind the first `skip`, converted row by row where need be."""
    with os.fdopen(opener(), "rb") as stream:
        reader = _reader(stream, form, dict.fromkeys(types, STRING), malformed)
        if reader is None:
            return
        casts = {
            name: compile_expression(
                Function("cast", (Field(name), Constant(type_name(kind), "string"))), reader.schema
            )
            for name, kind in types.items()
            if kind != STRING
        }
        try:
            while (data := _next(reader, table)) is not None:
                if skip >= data.num_rows:
                    skip -= data.num_rows
                    continue
                yield _converted(table, data.slice(skip), casts, dropped)
                skip = 0
        except pa.ArrowInvalid as error:
            raise SourceUnavailable(f"{table!r} is not a readable CSV file: {error}"[:300]) from None


def _converted(table: str, data: pa.RecordBatch, casts: dict[str, Any], dropped: Dropped) -> Batch:
    columns, wrong = [], None
    for name in data.schema.names:
        if name not in casts:
            columns.append(data.column(name))
            continue
        column, bad = casts[name].evaluate(data)
        columns.append(column)
        if bad is not None:
            wrong = bad if wrong is None else pc.or_(wrong, bad)
    rows = pa.RecordBatch.from_arrays(columns, names=data.schema.names)
    if wrong is not None:
        dropped(pc.sum(wrong).as_py(), "a value is not of the column's type", Cause.UNFIT)
        rows = rows.filter(pc.invert(wrong))
    return from_arrow(table, rows)


def _given(form: CsvForm) -> dict[str, pa.DataType]:
    """Types that the query gave; the scan has checked that they exist."""
    return {name: kind for name, text in form.types if (kind := parse_type(text)) is not None}


def _reader(
    stream: Any, form: CsvForm, types: dict[str, pa.DataType], malformed: _Malformed
) -> csv.CSVStreamingReader | None:
    """None for an empty file."""
    try:
        return open_stream(
            stream,
            BLOCK_BYTES,
            delimiter=form.delimiter,
            quote=form.quote,
            nulls=form.nulls,
            types=types,
            columns=form.columns,
            header=form.header,
            invalid=malformed.reader(),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return None
        raise SourceUnavailable(f"not a readable CSV file: {error}"[:300]) from None


def _next(reader: csv.CSVStreamingReader, table: str) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None
    except OSError as error:
        raise SourceUnavailable(f"{table!r} cannot be read: {error.strerror}") from None
