"""How large a source says it is, without being read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pier_node.sources.csv import CsvReader
from pier_node.sources.log_scan import LogOptions, LogScans
from pier_node.sources.ndjson import NdjsonReader
from pier_node.sources.parquet import ParquetReader
from pier_node.sources.sizes import HEAD_BYTES, lines_and_bytes
from pier_node.sources.static import StaticTable


def test_files_of_lines_are_told_by_their_beginning(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a,b\n" + "1,2\n" * 9)
    assert CsvReader(path).size() == (9, 40)
    assert NdjsonReader(path).size() == (10, 40)
    path.write_text("a,b\n" + "11,22\n" * 100_000)
    assert path.stat().st_size > HEAD_BYTES
    rows, size_bytes = StaticTable("t", CsvReader(path)).size() or (0, 0)
    assert rows == pytest.approx(100_000, rel=0.01)
    assert size_bytes == path.stat().st_size
    assert lines_and_bytes(tmp_path / "nothing") == (0, 0)
    assert CsvReader(tmp_path / "f.csv.gz").size() is None


def test_parquet_counts_and_a_log_counts_lines(tmp_path: Path) -> None:
    for number in range(10):
        pq.write_table(pa.table({"a": list(range(1_000))}), tmp_path / f"{number}.parquet")
    rows, size_bytes = ParquetReader(tmp_path).size()
    assert rows == 10_000
    assert size_bytes == sum(path.stat().st_size for path in tmp_path.glob("*.parquet"))
    log = tmp_path / "ufw.log"
    log.write_text("x\n" * 7)
    assert LogScans("fw", log, LogOptions()).size() == (7, 14)
    assert StaticTable("t", ParquetReader(tmp_path / "gone.parquet")).size() is None
