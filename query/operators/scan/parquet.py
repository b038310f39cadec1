"""Scan, Parquet: the rows of a Parquet file, or of a directory of them. An addition to PIER's scans; see scan CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from query.batch import Batch
from query.dataflow.context import Files
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.operators.scan.origin import ORIGIN
from query.operators.scan.reading import MISSING, TABLE, ReadingScan


@register
class ScanParquet(ReadingScan):
    """Rows of Parquet files."""

    TYPE = "scan"
    IMPLEMENTATION = "Parquet"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("path", "text", "the file, or a directory of files", required=True),
        Option("columns", "texts", "the columns to read; all when absent", ()),
        Option("table", "text", TABLE + "that of the file when absent"),
        MISSING,
        ORIGIN,
    )

    def begin(self, keys: Batch | None) -> Iterator[Batch]:
        files: Files = self.service("files")
        table = self.options["table"]
        for batch in files.open_parquet(self.options["path"], tuple(self.options["columns"]), self.drop):
            yield batch.with_table(table) if table else batch
