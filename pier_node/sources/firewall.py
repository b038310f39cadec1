"""A firewall log as a table: read as it is for set probes, followed as it grows for stream probes.

Bytes come from the log's files (`tail.py`, `rotation.py`), events leave as batches of the one firewall table, whatever
the dialect (`pier_node.logs`). The tail is read whether anybody follows or not, so that the figures are there when
somebody asks. After a restart the node waits `RESUME_WAIT_S` for its followers to come back before it reads on where
it stopped: a continuous query that reaches it again in that time misses nothing. Lines that do not parse are counted
and the latest are kept; they are a table of their own (`unparsed.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from pier_node.logs import FIREWALL_SCHEMA, Parser, Unparsed, detect
from pier_node.logs.detect import DETECT_BYTES
from pier_node.sources.log_scan import LogOptions, LogScans
from pier_node.sources.positions import Positions
from pier_node.sources.rotation import Position, read_head
from pier_node.sources.tail import Tail
from query.batch import Batch, from_arrow
from query.causes import Cause
from query.dataflow.context import Dropped
from runtime.api import Clock, Timer

#: Between two looks at a log that did not grow: with it an event reaches its query well within a second.
POLL_S = 0.25
#: Positions are written down this often at most; after a crash as many seconds of events may come twice.
SAVE_S = 1.0
#: After a restart, how long followers may take to come back before what they missed is passed by.
RESUME_WAIT_S = 60.0
#: Lines that tell a parser its columns stand in the first bytes of a file.
_HEADER_BYTES = 16 << 10


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """A log's figures, as `pier status` shows them."""

    dialect: str
    followers: int
    #: Of the tail, since the node started: `lines` = `parsed` + `unparsed` + `skipped`.
    lines: int
    parsed: int
    unparsed: int
    skipped: int
    read_bytes: int
    rotations: int
    truncations: int
    lost_positions: int
    #: Of set probes.
    scans: int
    scanned_lines: int
    scanned_unparsed: int
    #: Failures of the disk and damaged archives; the last failure.
    errors: int
    last_error: str


class FirewallLog:
    """One log on this node."""

    def __init__(
        self, table: str, path: Path, clock: Clock, options: LogOptions, positions: Positions
    ) -> None:
        self.table = table
        self.path = path
        self._clock = clock
        self._options = options
        self._positions = positions
        self._tail = Tail(path)
        self._scans = LogScans(table, path, options)
        self._parser: Parser | None = None
        self._undetected = bytearray()
        self._undetected_lines = 0
        self._followers: dict[int, Callable[[Batch], None]] = {}
        self._next_follower = 0
        self._saved: Position | None = None
        self._saved_s = 0.0
        self._resume_s = 0.0
        self._timer: Timer | None = None
        self._errors = 0
        self._last_error = ""

    # -- as a table

    def schema(self) -> pa.Schema:
        return FIREWALL_SCHEMA

    def size(self) -> tuple[int, int]:
        """About: a line is an event."""
        return self._scans.size()

    def scan(self, keys: Batch | None) -> Iterator[Batch]:
        return self._scans.scan()

    def scan_telling(self, keys: Batch | None, dropped: Dropped) -> Iterator[Batch]:
        """Archives are read up to where they are damaged; how many lines follow nobody knows."""
        return self._scans.scan(lambda path: dropped(1, f"{path.name} is damaged", Cause.NOT_READ))

    def follow(self, handler: Callable[[Batch], None]) -> Callable[[], None]:
        number = self._next_follower
        self._next_follower += 1
        self._followers[number] = handler
        self._resume_s = 0.0
        return lambda: self._followers.pop(number, None) and None

    def statistics(self) -> LogStatistics:
        tail = self._tail.statistics()
        parsed = None if self._parser is None else self._parser.statistics()
        lines = self._undetected_lines
        return LogStatistics(
            dialect="" if parsed is None else parsed.dialect,
            followers=len(self._followers),
            lines=lines if parsed is None else parsed.lines + lines,
            parsed=0 if parsed is None else parsed.parsed,
            unparsed=lines if parsed is None else parsed.unparsed + lines,
            skipped=0 if parsed is None else parsed.skipped,
            read_bytes=tail.read_bytes,
            rotations=tail.rotations,
            truncations=tail.truncations,
            lost_positions=tail.lost,
            scans=self._scans.scans,
            scanned_lines=self._scans.lines,
            scanned_unparsed=self._scans.unparsed,
            errors=self._errors + self._scans.damaged,
            last_error=self._last_error,
        )

    def unparsed(self) -> list[tuple[str, Unparsed]]:
        """The latest lines that gave no event: of the tail, and of the last scan."""
        tail = () if self._parser is None else self._parser.unparsed()
        return [*(("follow", each) for each in tail), *(("scan", each) for each in self._scans.kept)]

    # -- life

    def start(self) -> None:
        """Begins to follow the file, which may not exist yet. Raises OSError if it cannot be read."""
        position = self._positions.load(self.table, self.path)
        self._tail.begin(position)
        if position is not None:
            self._resume_s = self._clock.now() + RESUME_WAIT_S
        self._parser = self._parser_of(read_head(self.path, DETECT_BYTES))
        self._timer = self._clock.call_later(0.0, self._poll, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._save()
        self._tail.close()

    def _poll(self, _: None) -> None:
        data = b""
        if self._clock.now() >= self._resume_s:
            try:
                data = self._tail.read()
            except OSError as error:
                self._failed(error)
        if data:
            self._take(data)
        if self._clock.now() - self._saved_s >= SAVE_S:
            self._save()
        self._timer = self._clock.call_later(0.0 if data else POLL_S, self._poll, None)

    def _take(self, data: bytes) -> None:
        if self._parser is None:
            self._undetected += data
            data = bytes(self._undetected)
            self._parser = self._parser_of(data)
            if self._parser is None:
                self._forget_undetected()
                return
            self._undetected.clear()
        events = self._parser.feed(data, reference_us=self._now_us())
        if events is not None and self._followers:
            batch = from_arrow(self.table, events)
            for handler in list(self._followers.values()):
                handler(batch)

    def _parser_of(self, first_bytes: bytes) -> Parser | None:
        """The parser once its dialect is known; columns named in lines that were passed over are told to it."""
        dialect = self._options.dialect or detect(first_bytes).dialect
        if dialect is None:
            return None
        parser = self._options.parser(dialect, self._now_us())
        position = self._tail.position()
        if position is not None and position.offset > 0:
            parser.feed(_header_of(read_head(self.path, _HEADER_BYTES)))
        return parser

    def _forget_undetected(self) -> None:
        """So many bytes in no known dialect are no firewall log, or not yet."""
        if len(self._undetected) > DETECT_BYTES:
            self._undetected_lines += self._undetected.count(b"\n")
            self._undetected.clear()

    def _save(self) -> None:
        self._saved_s = self._clock.now()
        position = self._tail.position()
        if position is None or position == self._saved:
            return
        try:
            self._positions.save(self.table, self.path, position)
            self._saved = position
        except OSError as error:
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._errors += 1
        self._last_error = str(error)

    def _now_us(self) -> int:
        return int(self._clock.wall() * 1e6)


def _header_of(first_bytes: bytes) -> bytes:
    """The lines at the beginning of a log that name its columns: comments, or one line of names (VPC flow)."""
    header: list[bytes] = []
    for line in first_bytes.splitlines(keepends=True):
        names = not header and b"srcaddr" in line
        if not line.startswith(b"#") and not names:
            break
        header.append(line)
    return b"".join(header)
