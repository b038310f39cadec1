"""Partitioning keys: the text of a row's key columns, under which a published row lies (PIER 3.2.1).

Nodes, the SQL compiler and bulk loaders must agree on it to the letter: rows are looked for where this says. Any value
has a key that fits a name: of a long text it is how the text begins and a digest of all of it. A key only says where
rows lie; whoever looks for a value compares the values of the rows found there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

#: Between the texts of several key columns: no text of a key holds it.
KEY_SEPARATOR = "\x1f"
#: A key that is longer is made shorter; half of what a name takes (`overlay.dht.messages.NAME_CHARS_MAX`).
KEY_CHARS_MAX = 512
#: Of a longer one, what is kept of its beginning before the digest, for people who look at names.
BEGINNING_CHARS = 64
_DIGEST_BYTES = 20


class UnfitKey(ValueError):
    """A column by which rows cannot be placed; the fault of whoever chose the key."""


def key_texts(columns: Sequence[pa.Array]) -> list[str]:
    """The partitioning key of each row; NULL is the empty text."""
    texts: list[str] = key_column(columns).to_pylist()
    return texts


def key_column(columns: Sequence[pa.Array]) -> pa.Array:
    """The partitioning keys as a column; raises UnfitKey."""
    texts = [value_texts(column) for column in columns]
    whole = texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, KEY_SEPARATOR)
    return _fitted(whole)


def key_of(texts: Sequence[str]) -> str:
    """The key of one row, from the texts of its values."""
    return _shortened(KEY_SEPARATOR.join(texts))


def value_texts(column: pa.Array) -> pa.Array:
    """The texts of values, however long: what equal values share."""
    kind = column.type
    if not can_place(kind):
        raise UnfitKey(f"values of type {kind} cannot be a key: rows are placed by texts, numbers and times")
    if _is_binary(kind):
        # Bytes need not be text; in hexadecimal they always are.
        return pa.array(["" if value is None else value.hex() for value in column.to_pylist()], pa.string())
    return column.cast(pa.string()).fill_null("")


def can_place(kind: pa.DataType) -> bool:
    """Whether rows can be placed by values of a type: those that have one text each."""
    return not (pa.types.is_nested(kind) or pa.types.is_interval(kind))


def _is_binary(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or types.is_binary_view(kind)
    )


def _fitted(texts: pa.Array) -> pa.Array:
    longest = pc.max(pc.binary_length(texts)).as_py()
    if longest is None or longest <= KEY_CHARS_MAX:
        return texts
    long = pc.greater(pc.utf8_length(texts), KEY_CHARS_MAX)
    short = [_shortened(text) for text in texts.filter(long).to_pylist()]
    return pc.replace_with_mask(texts, long, pa.array(short, pa.string()))


def _shortened(text: str) -> str:
    if len(text) <= KEY_CHARS_MAX:
        return text
    digest = hashlib.blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{text[:BEGINNING_CHARS]}…{digest}"
