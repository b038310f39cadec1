"""A growing log, read as it grows: `tail -F` that survives rotation, truncation and restarts.

Whole lines come out of `read`, each once; a partial line waits for its end. Rotation by rename: the old file is read
to its end, given a moment for a writer that has not heard of it yet, then the new one. Rotation by copy and truncate:
the rest of the old content is looked for in the copy, then reading starts over. `position` says where the next line
begins, for whoever wants to go on there after a restart.
"""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from pier_node.sources.rotation import (
    DAMAGED,
    HEAD_BYTES,
    Position,
    fingerprint,
    history,
    is_packed,
    is_same,
    open_log,
    read_head,
    since,
)

#: Read in one turn: parsed in a few milliseconds, so that the node's loop stays responsive.
READ_BYTES = 256 << 10
#: A partial line longer than this is handed on as it is; it is no event, and the parser says so.
PARTIAL_BYTES_MAX = 256 << 10
#: Reads that find nothing in a renamed file before the new one is turned to.
QUIET_READS = 2


@dataclass(slots=True)
class _Part:
    """One file being read."""

    path: Path
    file: IO[bytes]
    inode: int
    offset: int
    head: bytes
    #: Unpacked bytes to pass over first.
    skip: int = 0


@dataclass(frozen=True, slots=True)
class TailStatistics:
    """What became of a followed file. `lost`: times its position was nowhere to be found again."""

    read_bytes: int
    rotations: int
    truncations: int
    lost: int


class Tail:
    """One log. Raises OSError where the disk does; it may be called again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._parts: deque[_Part] = deque()
        self._pending = bytearray()
        self._quiet = 0
        self._read_bytes = self._rotations = self._truncations = self._lost = 0

    def begin(self, position: Position | None) -> None:
        """Goes on at a position, or at the end of what is there if there is none."""
        if position is None:
            if self.path.exists():
                self._parts.append(_open(self.path, _last_line_start(self.path)))
            return
        files = since(self.path, position)
        if files is None:
            self._lost += 1
            files = [self.path] if self.path.exists() else []
            self._parts.extend(_open(each, 0) for each in files)
            return
        for number, each in enumerate(files):
            self._parts.append(_open(each, position.offset if number == 0 else 0))

    def read(self) -> bytes:
        """Whole lines that have come since; empty when there are none now."""
        if not self._parts:
            if not self.path.exists():
                return b""
            self._parts.append(_open(self.path, 0))
        part = self._parts[0]
        if part.path == self.path and self._is_truncated(part):
            self._start_over(part)
            part = self._parts[0]
        data = _read(part)
        if data:
            self._quiet = 0
            self._read_bytes += len(data)
            return self._whole_lines(data)
        return self._next_part(part)

    def position(self) -> Position | None:
        """Where the next line begins; None before anything was opened."""
        if not self._parts:
            return None
        part = self._parts[0]
        begun = max(0, part.offset + part.skip - len(self._pending))
        return msgspec.structs.replace(_identity(part), offset=begun)

    def statistics(self) -> TailStatistics:
        return TailStatistics(self._read_bytes, self._rotations, self._truncations, self._lost)

    def close(self) -> None:
        while self._parts:
            self._parts.popleft().file.close()

    def _whole_lines(self, data: bytes) -> bytes:
        cut = data.rfind(b"\n") + 1
        if cut == 0 and len(self._pending) + len(data) <= PARTIAL_BYTES_MAX:
            self._pending += data
            return b""
        if cut == 0:
            cut = len(data)
        lines = bytes(self._pending) + data[:cut]
        self._pending[:] = data[cut:]
        return lines

    def _last_words(self) -> bytes:
        """A partial line whose file is over is a line."""
        line = bytes(self._pending)
        self._pending.clear()
        return line + b"\n" if line else b""

    def _next_part(self, part: _Part) -> bytes:
        """Nothing to read in this file: is there a newer one?"""
        if len(self._parts) == 1:
            if part.path == self.path and not _is_replaced(part):
                return b""
            self._quiet += 1
            if self._quiet < QUIET_READS or not self.path.exists():
                return b""
            files = since(self.path, _identity(part)) or []
            newer = [_open(each, 0) for each in files[1:] or [self.path]]
            self._rotations += 1
            self._parts.extend(newer)
        self._quiet = 0
        self._parts.popleft().file.close()
        return self._last_words()

    def _is_truncated(self, part: _Part) -> bool:
        size = os.fstat(part.file.fileno()).st_size
        if size < part.offset:
            return True
        # Written anew beyond where we were: then it begins with something else.
        return size > part.offset and _head_of(part.file, len(part.head)) != part.head

    def _start_over(self, part: _Part) -> None:
        """Truncated: the rest of what it held may be in a copy, and newer files after that."""
        before = history(self.path)
        copies = [number for number, each in enumerate(before) if is_same(each, _identity(part))]
        fresh = [_open(self.path, 0)]
        if copies and part.head:
            fresh = [_open(each, 0) for each in before[copies[-1] + 1 :]] + fresh
            fresh.insert(0, _open(before[copies[-1]], part.offset))
        elif self._pending:
            self._pending += b"\n"
        self._truncations += 1
        self._parts.popleft().file.close()
        self._parts.extend(fresh)


def _open(path: Path, offset: int) -> _Part:
    file = open_log(path)
    if is_packed(path):
        return _Part(path, file, path.stat().st_ino, 0, read_head(path), skip=offset)
    head = _head_of(file, HEAD_BYTES)
    file.seek(offset)
    return _Part(path, file, os.fstat(file.fileno()).st_ino, offset, head)


def _read(part: _Part) -> bytes:
    """Up to `READ_BYTES` more of a file; a damaged archive ends where the damage is."""
    try:
        while part.skip:
            passed = len(part.file.read(min(READ_BYTES, part.skip)))
            part.offset += passed
            part.skip = part.skip - passed if passed else 0
        data = part.file.read(READ_BYTES)
    except DAMAGED:
        if not is_packed(part.path):
            raise
        return b""
    part.offset += len(data)
    if len(part.head) < HEAD_BYTES and not is_packed(part.path):
        part.head = _head_of(part.file, HEAD_BYTES)
    return data


def _identity(part: _Part) -> Position:
    return Position(part.inode, part.offset, len(part.head), fingerprint(part.head))


def _head_of(file: IO[bytes], count: int) -> bytes:
    return os.pread(file.fileno(), count, 0)


def _is_replaced(part: _Part) -> bool:
    try:
        return part.path.stat().st_ino != part.inode
    except FileNotFoundError:
        return True


def _last_line_start(path: Path) -> int:
    """Where the line that is being written begins."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        start = max(0, size - PARTIAL_BYTES_MAX)
        file.seek(start)
        cut = file.read(size - start).rfind(b"\n") + 1
    return start + cut if cut else size if start else 0
