"""CSV files: a header line names the columns, the first megabyte tells their types. Streams: memory does not grow
with the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from pier_node.readable.csv_stream import open_stream
from pier_node.sources.reader import READ_BYTES, distinct, naming
from pier_node.sources.sizes import lines_and_bytes


class CsvReader:
    """One file. An empty field is NULL, a quoted empty one is an empty text. A name that ends in .tsv has tabs for
    commas, one that ends in .gz or .bz2 is unpacked."""

    def __init__(self, path: Path, delimiter: str | None = None) -> None:
        tabs = ".tsv" in path.suffixes
        self._path = path
        self._delimiter = delimiter or ("\t" if tabs else ",")

    def schema(self) -> pa.Schema:
        with naming(self._path), self._open() as reader:
            return distinct(reader.schema)

    def size(self) -> tuple[int, int] | None:
        """About; what is packed cannot be told."""
        if self._path.suffix in (".gz", ".bz2"):
            return None
        lines, size_bytes = lines_and_bytes(self._path)
        return max(0, lines - 1), size_bytes

    def batches(self) -> Iterator[pa.RecordBatch]:
        with naming(self._path), self._open() as reader:
            distinct(reader.schema)
            yield from reader

    def _open(self) -> pa.csv.CSVStreamingReader:
        return open_stream(self._path, READ_BYTES, delimiter=self._delimiter)
