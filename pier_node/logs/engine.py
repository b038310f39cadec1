"""Which scans run: the compiled ones when numba is there, else numpy's. Chosen once a parser.

Both answer alike on any bytes; only the time differs. Compiling takes seconds on a machine that has not done it yet,
which a node's loop does not have: `warm` scans with numpy until somebody has called `compile_scans` elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pier_node.logs import scan_numpy
from pier_node.logs.block import Block, Bytes, Mask, Positions, Spans

ENGINES = ("auto", "numpy", "numba", "warm")


@dataclass(frozen=True, slots=True)
class Engine:
    name: str
    pairs: Callable[[Block, tuple[bytes, ...], bool], list[Spans]]
    gather: Callable[[Bytes, Positions, Positions], tuple[Bytes, npt.NDArray[np.int32]]]
    integers: Callable[[Bytes, Positions, Positions], tuple[npt.NDArray[np.int64], Mask]]
    find: Callable[[Bytes, Positions, Positions, int], Positions]
    plain_ipv4: Callable[[Bytes, Positions, Positions], Mask]


def _from(name: str, module: Any) -> Engine:
    return Engine(name, module.pairs, module.gather, module.integers, module.find, module.plain_ipv4)


#: The compiled scans, once they are compiled.
_compiled: Engine | None = None


def compile_scans(sample: Callable[[], object]) -> None:
    """Lets a sample of work run, which compiles what it uses; from then on `warm` engines are compiled ones. Takes
    seconds, so it is run beside a loop."""
    global _compiled
    sample()
    found = engine_named("auto")
    _compiled = found if found.name == "numba" else None


def _warm() -> Engine:
    plain = _from("numpy", scan_numpy)

    def best(function: str) -> Callable[..., Any]:
        def scan(*arguments: Any) -> Any:
            return getattr(_compiled or plain, function)(*arguments)

        return scan

    return Engine("warm", best("pairs"), best("gather"), best("integers"), best("find"), best("plain_ipv4"))


def engine_named(name: str = "auto") -> Engine:
    """`auto` falls back to numpy when numba is not installed; naming `numba` then is the caller's error."""
    if name == "warm":
        return _warm()
    if name not in ENGINES:
        raise ValueError(f"no scan engine {name!r}: it is one of {', '.join(ENGINES)}")
    if name != "numpy":
        try:
            from pier_node.logs import scan_numba
        except ImportError:
            if name == "numba":
                raise ValueError("the numba engine needs numba: pip install 'pier[fast]'") from None
        else:
            return _from("numba", scan_numba)
    return _from("numpy", scan_numpy)
