"""numba's compiler as this project uses it: cached on disk where it can be, without Python's lock. Needs numba."""

from __future__ import annotations

from typing import Any

import numba
from numba.core.caching import FunctionCache


class _Cache(FunctionCache):  # type: ignore[misc]
    """A disk that is full, or became read-only since, costs the next process a compilation and this one nothing."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except (OSError, EOFError):
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except (OSError, EOFError):
            self.disable()


def jit(function: Any) -> Any:
    """Compiled at the first call; only in memory where no cache folder can be written."""
    compiled = numba.njit(nogil=True, boundscheck=False)(function)
    try:
        compiled._cache = _Cache(function)
    except RuntimeError:
        # No folder at all.
        return compiled
    return compiled
