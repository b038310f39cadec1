"""Tells a node, once, that queries have many keys here: then compiled loops (`kernels.use_numba`) pay."""

from __future__ import annotations

from collections.abc import Callable

#: Keys of one table from which numpy's steps are felt: about a tenth of a second.
LARGE_KEYS = 1 << 17

_told: list[Callable[[], None]] = []


def on_large(handler: Callable[[], None]) -> None:
    """Calls handler when the next table grows beyond LARGE_KEYS; replaces an earlier handler."""
    _told[:] = [handler]


def has_grown(keys: int) -> None:
    """A table has room for so many keys now."""
    if _told and keys > LARGE_KEYS:
        _told.pop()()
