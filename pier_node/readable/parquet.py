"""Parquet files as batches: one piece of a row group at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from query.batch import Batch, UnsupportedType, from_arrow
from query.causes import Cause
from query.dataflow.context import Dropped, SourceUnavailable

#: Rows of a batch; what the operators like best.
BATCH_ROWS = 65_536


def read_parquet(table: str, descriptor: int, columns: tuple[str, ...], dropped: Dropped) -> Iterator[Batch]:
    """The rows of one file, from an open descriptor, which is closed at the end."""
    with os.fdopen(descriptor, "rb") as stream:
        try:
            file = pq.ParquetFile(stream)
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise SourceUnavailable(f"there is no column {missing[0]!r} in {table!r}")
            for data in file.iter_batches(BATCH_ROWS, columns=list(columns) or None, use_threads=False):
                try:
                    yield from_arrow(table, data)
                except (UnsupportedType, pa.ArrowInvalid) as error:
                    dropped(data.num_rows, str(error), Cause.NOT_READ)
        except (pa.ArrowException, OSError) as error:
            raise SourceUnavailable(f"{table!r} is not a readable Parquet file: {error}"[:300]) from None
