"""Parquet: one file, or a directory of files of one schema, read in order of their names. Streams row group by row
group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from pier_node.sources.reader import READ_ROWS, ReadError, distinct, naming

#: Files of a directory that are opened to count their rows.
COUNTED_FILES = 8


class ParquetReader:
    """A file or a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def schema(self) -> pa.Schema:
        first = self._files()[0]
        with naming(first), pa.parquet.ParquetFile(first) as file:
            return distinct(file.schema_arrow)

    def size(self) -> tuple[int, int]:
        """Rows are counted in the first files and of the rest taken for as many a byte."""
        files = self._files()
        sizes = [each.stat().st_size for each in files]
        rows = 0
        for each in files[:COUNTED_FILES]:
            with naming(each), pa.parquet.ParquetFile(each) as file:
                rows += file.metadata.num_rows
        counted_bytes = sum(sizes[:COUNTED_FILES])
        return round(rows * sum(sizes) / max(1, counted_bytes)), sum(sizes)

    def batches(self) -> Iterator[pa.RecordBatch]:
        return self._batches(None)

    def column_batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows with some columns; those that a file lacks are left out, one stays if that is all."""
        return self._batches(set(columns))

    def _batches(self, wanted: Set[str] | None) -> Iterator[pa.RecordBatch]:
        for each in self._files():
            with naming(each), pa.parquet.ParquetFile(each) as file:
                names = distinct(file.schema_arrow).names
                if wanted is not None:
                    names = [name for name in names if name in wanted] or names[:1]
                for batch in file.iter_batches(READ_ROWS, columns=names):
                    # A column of structs comes with its name in front of each part; by name it is whole.
                    yield batch.select(names) if batch.schema.names != names else batch

    def _files(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path]
        files = sorted(self._path.rglob("*.parquet"))
        if not files:
            raise ReadError(f"{self._path}: there are no .parquet files in this directory")
        return files
