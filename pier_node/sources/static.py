"""A file or a database as a table of this node: read anew by every probe, nothing to follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pier_node.sources.reader import ColumnReader, Reader, ReadError, SizedReader
from query.batch import Batch, UnsupportedType, from_arrow
from query.batch.types import canonical_type


@dataclass(frozen=True, slots=True)
class StaticStatistics:
    """What probes got of a table, since the node started."""

    scans: int
    rows: int
    errors: int
    last_error: str


class StaticTable:
    """Rows that somebody else writes and this node reads."""

    def __init__(self, table: str, reader: Reader) -> None:
        self._table = table
        self._reader = reader
        self._sized = reader if isinstance(reader, SizedReader) else None
        self._columns = reader if isinstance(reader, ColumnReader) else None
        self._scans = self._rows = self._errors = 0
        self._last_error = ""

    def schema(self) -> pa.Schema | None:
        """None while it cannot be read."""
        try:
            return self.check()
        except ReadError as error:
            self._failed(error)
            return None

    def check(self) -> pa.Schema:
        """The columns as queries see them. Raises ReadError."""
        try:
            found = self._reader.schema()
            return pa.schema([(field.name, canonical_type(field.type)) for field in found])
        except (UnsupportedType, OSError) as error:
            raise ReadError(str(error)) from None

    def size(self) -> tuple[int, int] | None:
        """About how many rows and bytes; None when the reader cannot tell."""
        if self._sized is None:
            return None
        try:
            return self._sized.size()
        except (ReadError, OSError) as error:
            self._failed(error)
            return None

    def scan(self, keys: Batch | None) -> Iterator[Batch]:
        return self._read(self._reader.batches)

    def scan_columns(self, keys: Batch | None, columns: Sequence[str]) -> Iterator[Batch]:
        """Readers that cannot leave columns unread give all of them."""
        reader = self._columns
        if reader is not None:
            return self._read(lambda: reader.column_batches(columns))
        return self.scan(keys)

    def _read(self, batches: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[Batch]:
        self._scans += 1
        try:
            for data in batches():
                batch = from_arrow(self._table, data)
                self._rows += batch.num_rows
                yield batch
        except (ReadError, UnsupportedType, pa.ArrowInvalid, OSError) as error:
            self._failed(error)
            raise

    def follow(self, handler: Callable[[Batch], None]) -> Callable[[], None]:
        """Nothing arrives in a file that is read as a whole."""
        return lambda: None

    def start(self) -> None:
        """Raises ReadError if there is nothing to read."""
        self.check()

    def close(self) -> None:
        """Nothing is held open between probes."""

    def statistics(self) -> StaticStatistics:
        return StaticStatistics(self._scans, self._rows, self._errors, self._last_error)

    def _failed(self, error: Exception) -> None:
        self._errors += 1
        self._last_error = str(error)
