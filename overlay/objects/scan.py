"""A walk over stored names in chunks, so that a scan of a large store leaves room for other work between.

It sees each object that was there when it began and is still there unchanged when the walk comes by. What was
added or replaced since is left to the new-data subscription: the two together see every value exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator

from overlay.objects.name import Prefix
from overlay.objects.stored import StoredObject

Names = dict[str, dict[str, dict[str, StoredObject]]]


class Scan:
    """Take chunks with `next` until `finished`."""

    __slots__ = ("_serial", "_walk", "finished")

    def __init__(self, names: Names, prefix: Prefix, serial: int) -> None:
        self._serial = serial
        self._walk = _walk(names, prefix)
        self.finished = False

    def next(self, count: int, now: float) -> list[StoredObject]:
        """Looks at up to `count` objects; may return fewer, or none, before the walk is finished."""
        chunk: list[StoredObject] = []
        for _ in range(count):
            stored = next(self._walk, None)
            if stored is None:
                self.finished = True
                break
            if stored.serial <= self._serial and stored.expires_at > now:
                chunk.append(stored)
        return chunk


def _walk(names: Names, prefix: Prefix) -> Iterator[StoredObject]:
    """Each level is copied when the walk enters it: entries may come and go between two chunks."""
    for namespace in [prefix.namespace] if prefix.namespace is not None else list(names):
        keys = names.get(namespace, {})
        for key in [prefix.key] if prefix.key is not None else list(keys):
            # The level is looked up again: it may have been emptied and made anew meanwhile.
            for suffix in list(names.get(namespace, {}).get(key, ())):
                stored = names.get(namespace, {}).get(key, {}).get(suffix)
                if stored is not None:
                    yield stored
