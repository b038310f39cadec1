"""Which nodes an object has passed: written into it at each hop, so that a pair of rows is made once, by the first node
that both came through (PIER 4.3.4, the hierarchical join).

Rows carry the number of their path, which is this node's own; only objects carry the ids. An object that a hop took for
lost goes two ways, and then two nodes may make the same pair: so pairs also have ids, by which the asker tells them.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from query.keys.table import Ids

Path: TypeAlias = tuple[bytes, ...]

_ID_BYTES = 20
#: Marks a value that has a path; no batch begins with it.
_MARK = 0x02
#: Hops written into one object; routes are a few hops long.
HOPS_MAX = 255


def read_path(value: bytes) -> tuple[Path, bytes]:
    """The nodes an object had passed, in order, and its own value."""
    if len(value) < 2 or value[0] != _MARK:
        return (), value
    end = 2 + value[1] * _ID_BYTES
    return tuple(value[at : at + _ID_BYTES] for at in range(2, end, _ID_BYTES)), value[end:]


def add_hop(value: bytes, node: bytes) -> bytes:
    """The object as it goes on from a node."""
    path, own = read_path(value)
    assert len(path) < HOPS_MAX and len(node) == _ID_BYTES, "a route without end"
    return bytes((_MARK, len(path) + 1)) + b"".join(path) + node + own


def id_column(path: str) -> str:
    """The column that tells rows apart, beside the one with their path."""
    return f"{path}.id"


class Paths:
    """The paths of objects that came to this node for one query."""

    def __init__(self) -> None:
        self._numbers: dict[frozenset[bytes], int] = {}
        self._paths: list[frozenset[bytes]] = []
        self._apart: dict[tuple[int, int], bool] = {}

    def number(self, path: Path) -> int:
        nodes = frozenset(path)
        number = self._numbers.setdefault(nodes, len(self._paths))
        if number == len(self._paths):
            self._paths.append(nodes)
        return number

    def apart(self, left: Ids, right: Ids) -> npt.NDArray[np.bool_]:
        """Which pairs of paths have no node in common."""
        codes = left * len(self._paths) + right
        distinct, inverse = np.unique(codes, return_inverse=True)
        verdicts = [self._are_apart(*divmod(int(code), len(self._paths))) for code in distinct]
        found: npt.NDArray[np.bool_] = np.array(verdicts, dtype=np.bool_)[inverse]
        return found

    def _are_apart(self, left: int, right: int) -> bool:
        known = self._apart.get((left, right))
        if known is None:
            known = self._apart[left, right] = self._paths[left].isdisjoint(self._paths[right])
        return known
