"""Files with one JSON object a line; the first megabyte tells the columns and their types. Streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.json

from pier_node.sources.reader import READ_BYTES, distinct, naming
from pier_node.sources.sizes import lines_and_bytes


class NdjsonReader:
    """One file. Keys that appear only later are not columns."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def schema(self) -> pa.Schema:
        if not self._path.stat().st_size:
            return pa.schema([])
        with naming(self._path), self._open() as reader:
            return distinct(reader.schema)

    def size(self) -> tuple[int, int]:
        return lines_and_bytes(self._path)

    def batches(self) -> Iterator[pa.RecordBatch]:
        if not self._path.stat().st_size:
            return
        with naming(self._path), self._open() as reader:
            distinct(reader.schema)
            yield from reader

    def _open(self) -> pa.RecordBatchReader:
        options = pa.json.ReadOptions(block_size=READ_BYTES)
        parse = pa.json.ParseOptions(unexpected_field_behavior="ignore")
        return pa.json.open_json(self._path, read_options=options, parse_options=parse)
