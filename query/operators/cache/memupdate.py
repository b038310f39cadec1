"""Cache, MemUpdateCache: keeps the newest row of each key while the query runs (PIER Table 3.3).

As MemCache, but a row replaces the earlier one with the same values in the columns `keys`, NULL being equal to NULL.
With `age` a key that is not renewed in time is gone: the state of things reported within a window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.operators.cache.memcache import OPTIONS, MemCache


@register
class MemUpdateCache(MemCache):
    """Answers probes with the newest row of each key."""

    IMPLEMENTATION = "MemUpdateCache"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("keys", "texts", "the columns that say which row replaces which", required=True),
        *OPTIONS,
    )

    def keys(self) -> Sequence[str]:
        keys: Sequence[str] = self.options["keys"]
        return keys
