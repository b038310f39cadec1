"""Huge pages for the memory of a large world, where the kernel has them to give.

A node's objects lie wherever there was room when they were made, and each event touches some fifty of them on two
nodes: with pages of 4 kB a ring of 10,000 nodes waits for page tables a fifth of its time. Nothing but speed
depends on this; where it is not to be had (another system, an older kernel, an operator who said never) nothing
happens.
"""

from __future__ import annotations

import ctypes
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path

HUGE_BYTES = 2 << 20
#: Linux 6.1: makes huge pages of a range now, by copying. Older kernels refuse.
MADV_COLLAPSE = 25
#: Growth since the last time that is worth another.
GROWN_BYTES = 16 * HUGE_BYTES

_MAPS = Path("/proc/self/maps")
_RESIDENT = Path("/proc/self/statm")
_ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")


class HugePages:
    """Moves this process's memory to huge pages whenever it has grown."""

    __slots__ = ("_seen_bytes", "gathered_bytes")

    def __init__(self) -> None:
        self._seen_bytes = 0
        #: What lay in huge pages after the last time.
        self.gathered_bytes = 0

    def gather(self) -> None:
        try:
            used_bytes = int(_RESIDENT.read_text().split()[1]) * resource.getpagesize()
            grown = used_bytes >= self._seen_bytes + GROWN_BYTES
            self._seen_bytes = used_bytes if grown else min(used_bytes, self._seen_bytes)
            if grown and "[never]" not in _ENABLED.read_text():
                self.gathered_bytes = _collapse(list(ranges_of(_MAPS.read_text().splitlines())))
        except OSError:
            # Not Linux, or no huge pages in it.
            self.gathered_bytes = 0


def _collapse(ranges: list[tuple[int, int]]) -> int:
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return sum(end - start for start, end in ranges if madvise(start, end - start, MADV_COLLAPSE) == 0)


def ranges_of(maps: Iterable[str]) -> Iterator[tuple[int, int]]:
    """The ranges of private writable memory that no file stands behind, cut to whole huge pages."""
    for line in maps:
        span, mode, _, _, inode, *name = line.split()
        if mode != "rw-p" or inode != "0" or (name and name != ["[heap]"]):
            continue
        low, high = (int(part, 16) for part in span.split("-"))
        start, end = -(-low // HUGE_BYTES) * HUGE_BYTES, high // HUGE_BYTES * HUGE_BYTES
        if start < end:
            yield start, end
