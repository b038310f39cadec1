"""Files of a log over time: the one being written, those rotated away, and which is which.

A file is recognised by its first bytes, whatever it is called by now: a rename keeps the inode, a copy or a
compressed file keeps only the content. Invariant: two generations of a log are never taken for one unless they
begin with the same `HEAD_BYTES` bytes.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import msgspec

#: First bytes that identify a file. More than the header lines that every log of some dialects begins with
#: (Windows Firewall's have some 300 bytes), so that the first event is among them.
HEAD_BYTES = 1_024
#: Rotated files looked at; a year of days.
HISTORY_FILES_MAX = 400

_PACKED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
#: What is appended by rotation: a number (logrotate, newsyslog) or a date, then perhaps compressed.
_ROTATED = re.compile(r"[.-](?:(\d{1,4})|(\d[\dT:._-]{4,30}))(?:\.gz|\.xz|\.bz2)?")
#: What reading a damaged archive raises.
DAMAGED = (EOFError, gzip.BadGzipFile, lzma.LZMAError, OSError)


class Position(msgspec.Struct, frozen=True):
    """How far a log has been read: which file, by inode and by its first bytes, and where in it a line begins."""

    inode: int
    offset: int
    head_bytes: int
    head: str


def is_packed(path: Path) -> bool:
    return path.suffix in _PACKED


def open_log(path: Path) -> IO[bytes]:
    """A log file for reading, unpacked if need be."""
    opener = _PACKED.get(path.suffix)
    file: IO[bytes] = path.open("rb", buffering=0) if opener is None else opener(path)
    return file


def fingerprint(head: bytes) -> str:
    return hashlib.blake2b(head[:HEAD_BYTES], digest_size=16).hexdigest()


def read_head(path: Path, count: int = HEAD_BYTES) -> bytes:
    """The first bytes of a log; fewer if it has fewer, or is damaged."""
    try:
        with open_log(path) as file:
            return file.read(count)
    except DAMAGED:
        return b""


def history(path: Path) -> list[Path]:
    """What rotation made of earlier files of a log, oldest first."""
    found: list[tuple[tuple[int, int, str], Path]] = []
    try:
        beside = sorted(path.parent.iterdir())
    except OSError:
        return []
    for each in beside:
        if not each.name.startswith(path.name):
            continue
        match = _ROTATED.fullmatch(each.name[len(path.name) :])
        if match is not None and each.is_file():
            number, date = match.groups()
            # Higher numbers are older. A directory with both has changed its way of rotating: dates are newer.
            found.append(((0, -int(number), "") if number else (1, 0, date), each))
    return [each for _, each in sorted(found)][-HISTORY_FILES_MAX:]


def is_same(path: Path, position: Position) -> bool:
    """Whether a file is the one a position speaks of."""
    head = read_head(path, position.head_bytes)
    return len(head) == position.head_bytes and fingerprint(head) == position.head


def since(path: Path, position: Position) -> list[Path] | None:
    """The file of a position and all newer ones, oldest first; None when it is not there any more."""
    files = [each for each in (*history(path), path) if each.exists()]
    matches = [each for each in files if is_same(each, position)]
    if not matches:
        return None
    by_inode = [each for each in matches if each.stat().st_ino == position.inode]
    return files[files.index((by_inode or matches)[-1]) :]
