"""A firewall log as it is now, file by file, to batches of events: what a set probe of the table gets.

Pieces of bounded size, one a turn of the query. Rotated files come first where they are wanted, each read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pier_node.logs import FIREWALL_SCHEMA, Parser, Unparsed, detect, generate
from pier_node.logs.detect import DETECT_BYTES
from pier_node.logs.engine import compile_scans
from pier_node.sources.rotation import DAMAGED, history, is_packed, open_log
from pier_node.sources.sizes import lines_and_bytes
from query.batch import Batch, from_arrow

#: Read at once; parsed in some ten milliseconds.
SCAN_BYTES = 1 << 20

_NO_EVENTS = pa.RecordBatch.from_pylist([], FIREWALL_SCHEMA)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What the owner of a log may say about it, after the # of its source."""

    #: Instead of detecting it.
    dialect: str | None = None
    #: Zone of times without one.
    tz: str = "UTC"
    #: Host of lines that name none.
    host: str | None = None
    #: Whether set probes read rotated files, too.
    history: bool = False

    def parser(self, dialect: str, reference_us: int) -> Parser:
        return Parser(dialect, reference_us=reference_us, host=self.host, tz=self.tz, engine="warm")


def compile_parsers() -> None:
    """Compiles what parsers of logs on this node will run; takes seconds, so it is run beside the loop."""

    def sample() -> None:
        for dialect in ("iptables", "fortinet", "filterlog"):
            parser = Parser(dialect, reference_us=0)
            parser.feed(generate(dialect, seed=1, start_us=0, count=50))

    compile_scans(sample)


class LogScans:
    """All set probes of one log, and what they came across."""

    def __init__(self, table: str, path: Path, options: LogOptions) -> None:
        self.scans = 0
        self.lines = 0
        self.unparsed = 0
        #: Archives that ended in the middle.
        self.damaged = 0
        #: Of the last file that was read.
        self.kept: tuple[Unparsed, ...] = ()
        self._table = table
        self._path = path
        self._options = options

    def scan(self, damaged: Callable[[Path], None] = lambda path: None) -> Iterator[Batch]:
        """A log that is not there has no events; one in no known dialect is an error. `damaged` is told of archives
        that end in the middle."""
        self.scans += 1
        for path in (*(history(self._path) if self._options.history else ()), self._path):
            parser: Parser | None = None
            for piece in self._pieces(path, damaged):
                if parser is None:
                    parser = self._parser(path, piece)
                yield self._batch(parser.feed(piece))
            if parser is not None:
                yield self._batch(parser.finish())
                self._count(parser)

    def size(self) -> tuple[int, int]:
        """About how many lines and bytes a scan would read; packed files count as they are."""
        paths = (*(history(self._path) if self._options.history else ()), self._path)
        sizes = [lines_and_bytes(path) for path in paths]
        return sum(lines for lines, _ in sizes), sum(size_bytes for _, size_bytes in sizes)

    def _pieces(self, path: Path, damaged: Callable[[Path], None]) -> Iterator[bytes]:
        """A file as long as it is now, though it may grow meanwhile."""
        try:
            file = open_log(path)
        except FileNotFoundError:
            return
        with file:
            left = SCAN_BYTES if is_packed(path) else path.stat().st_size
            while left > 0:
                try:
                    piece = file.read(min(SCAN_BYTES, left))
                except DAMAGED:
                    self.damaged += 1
                    damaged(path)
                    return
                if not piece:
                    return
                left -= 0 if is_packed(path) else len(piece)
                yield piece

    def _parser(self, path: Path, first_bytes: bytes) -> Parser:
        dialect = self._options.dialect or detect(first_bytes[:DETECT_BYTES]).dialect
        if dialect is None:
            raise ValueError(f"{path} is in no known firewall dialect; #dialect=NAME in its source names one")
        # No line is much later than the file's last change: by it dates without a year are placed.
        return self._options.parser(dialect, int(path.stat().st_mtime * 1e6))

    def _batch(self, events: pa.RecordBatch | None) -> Batch:
        """No events are an empty batch: the scan's turn ends all the same."""
        return from_arrow(self._table, _NO_EVENTS if events is None else events)

    def _count(self, parser: Parser) -> None:
        seen = parser.statistics()
        self.lines += seen.lines
        self.unparsed += seen.unparsed
        self.kept = parser.unparsed()
