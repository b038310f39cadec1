"""Which loops do the work: numpy's, or compiled ones once the node has asked for them.

Compiling takes seconds the first time on a machine, and memory for the compiler, so it must not happen inside a query's
turn, nor on nodes that never see many keys. So numba is used only after `use_numba`, which a node calls beside its work
when a table has first grown large (`large.on_large`). Both give the same pairs.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from query.keys.chains import Chains
from query.keys.table import KeyTable

_chosen: dict[str, Any] = {"table": KeyTable, "chains": Chains}


def use_numba(on: bool = True) -> bool:
    """Compiles the loops and uses them from now on; False if numba is not installed. `on=False` goes back."""
    if not on or importlib.util.find_spec("numba") is None:
        _chosen.update(table=KeyTable, chains=Chains)
        return False
    from query.keys.chains_numba import CompiledChains
    from query.keys.table_numba import CompiledKeyTable

    _warm(CompiledKeyTable(2, 0), CompiledChains())
    _chosen.update(table=CompiledKeyTable, chains=CompiledChains)
    return True


def new_table(width: int, seed: int) -> KeyTable:
    table: KeyTable = _chosen["table"](width, seed)
    return table


def new_chains() -> Chains:
    chains: Chains = _chosen["chains"]()
    return chains


def _warm(table: KeyTable, chains: Any) -> None:
    """Calls every loop once with the types it will meet."""
    words = [np.arange(300, dtype=np.uint64) % np.uint64(290)] * 2
    ids, _ = table.add(words)
    table.find(words)
    chains.add(ids)
    chains.match(ids)
