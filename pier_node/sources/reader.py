"""What every reader of tables offers: columns, and rows in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import pyarrow as pa

#: Read from a file at a time: decoded in a few milliseconds, large enough for Arrow's kernels.
READ_BYTES = 1 << 20
#: Rows of a batch where the reader counts rows.
READ_ROWS = 16_384


class ReadError(ValueError):
    """Data that cannot be read: the message says where and why. It ends the query on this node, not the node."""


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Says which file or table was at fault."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReadError(f"{what}: {reason}") from None


def distinct(schema: pa.Schema) -> pa.Schema:
    """The schema, if its columns can be told apart. Raises ArrowInvalid, or UnicodeDecodeError."""
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise pa.ArrowInvalid(f"there are two columns {name!r}")
        seen.add(name)
    return schema


class Reader(Protocol):
    """A table that lies in a file or a database."""

    def schema(self) -> pa.Schema:
        """Its columns. Raises ReadError."""
        ...

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its rows as they are now. Raises ReadError, also in the middle."""
        ...


@runtime_checkable
class SizedReader(Protocol):
    """A reader that can tell how large the table is without reading it."""

    def size(self) -> tuple[int, int] | None:
        """About how many rows, and bytes; None when it cannot be told. Raises ReadError."""
        ...


@runtime_checkable
class ColumnReader(Protocol):
    """A reader that can leave columns unread."""

    def column_batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """As `batches`, with those of the columns that there are, or one of the others."""
        ...
