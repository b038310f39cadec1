"""What was seen lately: a bounded memory that tells repeated messages from new ones."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Recent(Generic[K]):
    """The last `limit` keys; older ones are forgotten in the order they came."""

    __slots__ = ("_keys", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._keys: dict[K, None] = {}

    def add(self, key: K) -> bool:
        """Whether the key is new."""
        if key in self._keys:
            return False
        if len(self._keys) >= self._limit:
            del self._keys[next(iter(self._keys))]
        self._keys[key] = None
        return True

    def __contains__(self, key: K) -> bool:
        return key in self._keys
