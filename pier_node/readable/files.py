"""Files that queries may read: those the node's owner registered, and nothing else of the host.

A path of a query is taken relative to the data directory and must lead, after all links are followed, into a
registered directory or to a registered file. Devices, pipes and sockets are refused: opening one could block the
node. The refusal does not say whether a file exists.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from pier_node.readable.csv import read_csv
from pier_node.readable.parquet import read_parquet
from query.batch import Batch
from query.dataflow.context import CsvForm, Dropped, SourceUnavailable

#: Files of one directory that a scan reads.
FILES_MAX = 10_000


class ReadableFiles:
    """The service "files" of a node."""

    def __init__(self, directory: Path, readable: Sequence[Path] = ()) -> None:
        """`directory` is where relative paths start; it and everything in `readable` is open to queries."""
        self._directory = directory.resolve()
        self._readable = [self._directory, *(path.resolve() for path in readable)]

    def open_csv(self, path: str, form: CsvForm, dropped: Dropped) -> Iterator[Batch]:
        found = self.resolve(path)
        return read_csv(found.stem, lambda: opened(found), form, dropped)

    def open_parquet(self, path: str, columns: tuple[str, ...], dropped: Dropped) -> Iterator[Batch]:
        found = self.resolve(path)
        files = sorted(found.glob("*.parquet")) if found.is_dir() else [found]
        if not files:
            raise SourceUnavailable(f"there is no Parquet file in {path!r}")
        if len(files) > FILES_MAX:
            raise SourceUnavailable(f"more than {FILES_MAX} files in {path!r} (FILES_MAX)")
        for file in files:
            yield from read_parquet(found.stem, opened(self.resolve(str(file))), columns, dropped)

    def resolve(self, path: str) -> Path:
        """The file a query means; raises SourceUnavailable unless it is open to queries and there."""
        try:
            found = (self._directory / path).resolve()
            allowed = any(found == root or found.is_relative_to(root) for root in self._readable)
        except (OSError, ValueError, RuntimeError):
            allowed = False
        if not allowed:
            raise SourceUnavailable(f"{path!r} is not among the files this node's owner made readable")
        if not found.exists():
            raise SourceUnavailable(f"there is no file {path!r} on this node")
        return found


def opened(path: Path) -> int:
    """A descriptor of a regular file; never waits, as opening a pipe would."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise SourceUnavailable(f"{path.name!r} cannot be read: {error.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SourceUnavailable(f"{path.name!r} is not a plain file")
    return descriptor
