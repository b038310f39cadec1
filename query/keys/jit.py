"""numba's compiler as this project uses it: cached on disk where it can be, without Python's lock. Needs numba."""

from __future__ import annotations

from typing import Any

import numba


def jit(function: Any) -> Any:
    """Compiled at the first call; only in memory where no cache folder can be written."""
    try:
        return numba.njit(cache=True, nogil=True, boundscheck=False)(function)
    except RuntimeError:
        return numba.njit(nogil=True, boundscheck=False)(function)
