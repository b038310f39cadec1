"""Spans of a block to Arrow columns: text, whole numbers, addresses, words.

Scanners find where a value lies; these turn all values of a column at once. Words and addresses repeat, so
each distinct text is looked at once and the column is rebuilt by index.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs.block import Block, Mask, Spans, string_array
from pier_node.logs.engine import Engine

# The longest IPv6 text is 45 bytes (an embedded IPv4); a zone (`%eth0`) may follow.
ADDRESS_LENGTH_MAX = 64
# Distinct IPv6 texts remembered between blocks; about 200 bytes each, so some MB. Emptied when full.
ADDRESSES_REMEMBERED_MAX = 16_384


def strings(engine: Engine, block: Block, spans: Spans) -> Any:
    """A string column; an empty span is null."""
    data, offsets = engine.gather(block.data, spans.start, spans.end)
    return string_array(data, offsets, ~spans.present)


def integers(engine: Engine, block: Block, spans: Spans, limit: int, kind: Any) -> tuple[Any, Mask]:
    """A number column and which lines hold something else there (or more than `limit`); `-` is null."""
    present = spans.present
    dash = present & (spans.end - spans.start == 1) & (block.data[spans.start] == ord("-"))
    end = np.where(dash, spans.start, spans.end) if dash.any() else spans.end
    values, bad = engine.integers(block.data, spans.start, end)
    bad = bad | (values > limit)
    absent = ~present | dash | bad
    values[bad] = 0
    return pa.array(values, mask=absent if absent.any() else None).cast(kind), bad


def relabel(array: Any, label: Callable[[str], str | None]) -> Any:
    """Each value replaced by `label(value)`, called once per distinct value; null stays null."""
    encoded = array.dictionary_encode()
    before = encoded.dictionary.to_pylist()
    after = [label(word) for word in before]
    if before == after:
        return array
    return pa.array(after, pa.string()).take(encoded.indices)


def relabel_twice(
    array: Any, first: Callable[[str], str | None], second: Callable[[str], str | None]
) -> tuple[Any, Any]:
    """Two columns from one, both by distinct value."""
    encoded = array.dictionary_encode()
    before = encoded.dictionary.to_pylist()
    labels = (pa.array([label(word) for word in before], pa.string()) for label in (first, second))
    one, two = (column.take(encoded.indices) for column in labels)
    return one, two


class Addresses:
    """Address texts to their one normal form: IPv4 dotted, IPv6 as RFC 5952 writes it, zones dropped."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def normal(self, engine: Engine, block: Block, spans: Spans) -> tuple[Any, Mask]:
        """The column in normal form, null where there is no address, and which spans hold something else."""
        array = strings(engine, block, spans)
        odd = spans.present & ~engine.plain_ipv4(block.data, spans.start, spans.end)
        if not odd.any():
            return array, odd
        which = pa.array(np.flatnonzero(odd))
        normal = relabel(array.take(which), self._one)
        bad = np.zeros(len(array), np.bool_)
        bad[odd] = ~np.asarray(normal.is_valid())
        return pc.replace_with_mask(array, pa.array(odd), normal), bad

    def _one(self, text: str) -> str | None:
        if text in self._known:
            return self._known[text]
        if len(self._known) >= ADDRESSES_REMEMBERED_MAX:
            self._known.clear()
        normal = None
        if len(text) <= ADDRESS_LENGTH_MAX:
            try:
                normal = _canonical(ipaddress.ip_address(text.partition("%")[0]))
            except ValueError:
                normal = None
            self._known[text] = normal
        return normal


def _canonical(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return f"::ffff:{address.ipv4_mapped}"
    return str(address)
