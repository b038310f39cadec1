"""Rows by key, a column at a time: what joins, duplicate elimination, caches and index look-ups share.

Key columns become 64-bit words (`encode`), words become small dense ids (`table`), ids lead to rows (`chains`), rows
lie in `store`. `index` puts the first two together, `lookup` all four.
"""

from query.keys.index import KeyIndex, NullKeys
from query.keys.kernels import use_numba
from query.keys.lookup import Lookup, matching
from query.keys.stable import stable_hash
from query.keys.store import RowStore

__all__ = ["KeyIndex", "Lookup", "NullKeys", "RowStore", "matching", "stable_hash", "use_numba"]
