"""Partitioning keys: the text of a row's key columns, under which a published row lies (PIER 3.2.1).

Nodes, the SQL compiler and bulk loaders must agree on it to the letter: rows are looked for where this says.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

#: Between the texts of several key columns: no text of a key holds it.
KEY_SEPARATOR = "\x1f"


def key_texts(columns: list[pa.Array]) -> list[str]:
    """The partitioning key of each row; NULL is the empty text."""
    texts: list[str] = key_column(columns).to_pylist()
    return texts


def key_column(columns: list[pa.Array]) -> pa.Array:
    """The partitioning keys as a column."""
    texts = [column.cast(pa.string()).fill_null("") for column in columns]
    return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, KEY_SEPARATOR)
