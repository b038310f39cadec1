"""Rows to stdout: as a table for people, as JSON lines, as CSV, as an Arrow stream.

Batches come as they are answered and leave as soon as their form allows: JSON, CSV and Arrow at once, a table
when its column widths are known. Memory holds at most the rows of the first block of a table.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TextIO

import pyarrow as pa

from cli.failure import EXIT_USAGE, CommandFailed
from cli.terminal import shown

if TYPE_CHECKING:
    from pier_node.protocol.messages import Account

#: Rows of a table that set the widths of its columns; later rows stretch where they must.
TABLE_ROWS_BLOCK = 500
#: A cell of a table; the other formats cut nothing.
CELL_CHARS_MAX = 100


class RowWriter(Protocol):
    """Takes batches, writes rows. Those of an epoch come before its account."""

    def write(self, batch: pa.RecordBatch, epoch: int | None = None) -> None: ...

    def flush(self) -> None:
        """No more rows may come for a while: show what there is."""
        ...

    def epoch(self, account: Account) -> None:
        """The rows so far were the answer of an epoch."""
        ...


def writer(form: str, out: TextIO | None = None) -> RowWriter:
    out = out or sys.stdout
    if form == "json":
        return JsonWriter(out)
    if form == "csv":
        return CsvWriter(out.buffer if hasattr(out, "buffer") else out)  # type: ignore[arg-type]
    if form == "arrow":
        if out.isatty():
            raise CommandFailed(
                "an Arrow stream is not for a terminal; write it into a file or pipe", EXIT_USAGE
            )
        return ArrowWriter(out.buffer if hasattr(out, "buffer") else out)  # type: ignore[arg-type]
    return TableWriter(out)


class JsonWriter:
    """One object a row. Rows of a continuous query carry their epoch, those that replace earlier ones of it because
    data came late also the number of the revision."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._epoch: list[tuple[pa.RecordBatch, int]] = []

    def write(self, batch: pa.RecordBatch, epoch: int | None = None) -> None:
        if epoch is not None:
            self._epoch.append((batch, epoch))
        else:
            self._rows(batch, {})

    def epoch(self, account: Account) -> None:
        for batch, epoch in self._epoch:
            revision = {"_revision": account.revision} if account.revision else {}
            self._rows(batch, {"_epoch": epoch, **revision})
        self._epoch.clear()
        self._out.flush()

    def flush(self) -> None:
        """Rows of an epoch that was cut off are left out."""
        self._epoch.clear()
        self._out.flush()

    def _rows(self, batch: pa.RecordBatch, more: dict[str, int]) -> None:
        for row in batch.to_pylist():
            fields = {**row, **more}
            self._out.write(json_text(fields) + "\n")


class CsvWriter:
    """A header whenever the columns change, then the rows."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._schema: pa.Schema | None = None

    def write(self, batch: pa.RecordBatch, epoch: int | None = None) -> None:
        import pyarrow.csv as csv

        header = self._schema is None or not self._schema.equals(batch.schema)
        self._schema = batch.schema
        csv.write_csv(_flat(batch), self._out, csv.WriteOptions(include_header=header))

    def epoch(self, account: Account) -> None:
        """Epochs follow one another without a sign."""
        self.flush()

    def flush(self) -> None:
        self._out.flush()


class ArrowWriter:
    """An Arrow IPC stream; a new one whenever the columns change."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._schema: pa.Schema | None = None
        self._stream: Any = None

    def write(self, batch: pa.RecordBatch, epoch: int | None = None) -> None:
        if self._schema is None or not self._schema.equals(batch.schema):
            self.flush()
            self._schema = batch.schema
            self._stream = pa.ipc.new_stream(self._out, batch.schema)
        self._stream.write_batch(batch)

    def epoch(self, account: Account) -> None:
        """Epochs follow one another without a sign."""
        self.flush()

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = self._schema = None
        self._out.flush()


class TableWriter:
    """Columns as wide as the first block of rows needs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._names: list[str] = []
        self._right: list[bool] = []
        self._rows: list[list[str]] = []
        self._widths: list[int] = []

    def write(self, batch: pa.RecordBatch, epoch: int | None = None) -> None:
        names = [cell(name) for name in batch.schema.names]
        if names != self._names:
            self.flush()
            self._names, self._widths = names, []
            self._right = [_is_number(field.type) for field in batch.schema]
        columns = [[cell(value) for value in column.to_pylist()] for column in batch.columns]
        self._rows += [list(row) for row in zip(*columns, strict=True)]
        if len(self._rows) >= TABLE_ROWS_BLOCK:
            self.flush()

    def epoch(self, account: Account) -> None:
        """Epochs follow one another without a sign."""
        self.flush()

    def flush(self) -> None:
        if self._rows and not self._widths:
            self._widths = [
                max(len(name), *(len(row[at]) for row in self._rows)) for at, name in enumerate(self._names)
            ]
            self._line(self._names)
            self._line(["-" * width for width in self._widths])
        for row in self._rows:
            self._line(row)
        self._rows.clear()
        self._out.flush()

    def _line(self, cells: Sequence[str]) -> None:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(cells, self._widths, self._right, strict=True)
        )
        self._out.write("  ".join(padded).rstrip() + "\n")


def print_rows(
    rows: Iterable[dict[str, Any]], form: str, columns: Sequence[str], out: TextIO | None = None
) -> None:
    """A listing made here (nodes, tables, queries) in the same formats as answers."""
    listed = [{name: row.get(name) for name in columns} for row in rows]
    target = writer(form, out)
    if listed:
        target.write(pa.RecordBatch.from_pylist(listed))
    target.flush()


def cell(value: Any) -> str:
    """A value in a table: short, on one line."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}" if math.isfinite(value) else str(value)
    text = value if isinstance(value, str) else str(plain_tree(value))
    if not text.isprintable():
        text = shown(text).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= CELL_CHARS_MAX else text[: CELL_CHARS_MAX - 1] + "…"


def json_text(value: Any) -> str:
    """JSON as people like to read it: letters of all scripts as they are, whatever a terminal might act upon escaped.
    It is the same JSON."""
    text = json.dumps(value, default=plain, ensure_ascii=False, allow_nan=True)
    return text if text.isprintable() else "".join(map(_json_char, text))


def _json_char(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def plain(value: Any) -> Any:
    """A value JSON does not know, as one it does; what `json.dumps` calls."""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return str(value)
    return str(value)


def plain_tree(value: Any) -> Any:
    return value if isinstance(value, str | int | bool | list | dict) else plain(value)


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _flat(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CSV knows no lists, structs or binary: those columns become JSON text."""
    columns = []
    for column in batch.columns:
        nested = pa.types.is_nested(column.type) or pa.types.is_binary(column.type)
        values = (
            [None if v is None else json.dumps(v, default=plain) for v in column.to_pylist()]
            if nested
            else None
        )
        columns.append(pa.array(values, pa.string()) if nested else column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
