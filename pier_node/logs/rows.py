"""One block's columns while a dialect fills them, and the finished rows it hands to the parser.

A dialect names where each value lies (spans) or gives it as an Arrow column; here it is decoded, checked and
put under its column's name. Invariant: every column has one value per line of the block, also for lines that
are no events; a line with a value that cannot be what its column holds is not good.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs import decode
from pier_node.logs.block import Block, Mask, Spans, block_of_strings
from pier_node.logs.engine import Engine
from pier_node.logs.events import (
    FIREWALL_SCHEMA,
    LENGTH_MAX,
    PORT_MAX,
    PORT_PROTOCOLS,
    TTL_MAX,
    normal_protocol,
)
from pier_node.logs.stamps import Context, Micros

_LIMITS = {"spt": PORT_MAX, "dpt": PORT_MAX, "ttl": TTL_MAX, "length": LENGTH_MAX}
_PORT_PROTOCOLS = pa.array(sorted(PORT_PROTOCOLS))


@dataclass(frozen=True, slots=True)
class Rows:
    """`batch` has a row per line; a line is an event (`good`), not one (`skipped`), or unparsed (neither).
    `reasons`: why a line is unparsed where the dialect knows better than "does not parse"."""

    batch: Any
    good: Mask
    skipped: Mask
    reasons: Any = None


class RowBuilder:
    def __init__(self, engine: Engine, addresses: decode.Addresses, block: Block, context: Context) -> None:
        self.engine = engine
        self.block = block
        self.context = context
        self.good: Mask = np.ones(len(block), np.bool_)
        self.columns: dict[str, Any] = {}
        self._addresses = addresses

    def require(self, mask: Mask) -> None:
        self.good &= mask

    def stamp(self, us: Micros, good: Mask) -> None:
        self.columns["ts"] = pa.array(us).cast(pa.timestamp("us", "UTC"))
        self.good &= good

    def strings(self, spans: Spans) -> Any:
        return decode.strings(self.engine, self.block, self.block.held(spans))

    def text(self, name: str, spans: Spans) -> None:
        self.columns[name] = self.strings(spans)

    def word(self, name: str, values: Spans | Any, label: Callable[[str], str | None]) -> None:
        array = self.strings(values) if isinstance(values, Spans) else values
        self.columns[name] = decode.relabel(array, label)

    def protocol(self, values: Spans | Any) -> None:
        self.word("proto", values, normal_protocol)

    def number(self, name: str, values: Spans | Any) -> None:
        """From digits in the block or in a string column; anything else there makes the line bad."""
        block = self.block
        if not isinstance(values, Spans):
            block = block_of_strings(values)
            values = block.lines
        kind = FIREWALL_SCHEMA.field(name).type
        values = block.held(values)
        self.columns[name], bad = decode.integers(self.engine, block, values, _LIMITS[name], kind)
        self.good &= ~bad

    def whole(self, name: str, array: Any) -> None:
        """From an int64 column; out of the column's range makes the line bad."""
        values = np.asarray(array.fill_null(0))
        bad = (values < 0) | (values > _LIMITS[name])
        self.good &= ~bad
        absent = bad | ~np.asarray(array.is_valid())
        self.columns[name] = pa.array(np.where(bad, 0, values), mask=absent).cast(
            FIREWALL_SCHEMA.field(name).type
        )

    def address(self, name: str, values: Spans | Any, *, required: bool = True) -> None:
        block = self.block
        if not isinstance(values, Spans):
            block = block_of_strings(values)
            values = block.lines
        values = block.held(values)
        self.columns[name], bad = self._addresses.normal(self.engine, block, values)
        self.good &= values.present & ~bad if required else ~bad

    def ports_by_protocol(self) -> None:
        """ICMP types and the like stand where ports do; they are no ports."""
        has_ports = pc.fill_null(pc.is_in(self.columns["proto"], value_set=_PORT_PROTOCOLS), False)
        for name in ("spt", "dpt"):
            nothing = pa.scalar(None, pa.int32())
            self.columns[name] = pc.if_else(has_ports, self.columns[name], nothing)

    def constant(self, name: str, value: str) -> None:
        self.columns[name] = pa.repeat(pa.scalar(value, pa.string()), len(self.block))

    def rows(self, raw_format: str, skipped: Mask, reasons: Any = None) -> Rows:
        """Finish; columns nobody filled are null, and the context's host stands in for a missing one."""
        count = len(self.block)
        host = self.columns.get("host")
        if self.context.host is not None:
            if host is None:
                self.constant("host", self.context.host)
            elif host.null_count:
                self.columns["host"] = pc.fill_null(host, self.context.host)
        self.constant("raw_format", raw_format)
        arrays = [
            self.columns[field.name] if field.name in self.columns else pa.nulls(count, field.type)
            for field in FIREWALL_SCHEMA
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=FIREWALL_SCHEMA)
        return Rows(batch, self.good & ~skipped, skipped, reasons)


def flat(array: Any) -> Any:
    """One contiguous array of a chunked column."""
    if isinstance(array, pa.ChunkedArray):
        return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    return array


def first_of(parts: Sequence[Spans]) -> Spans:
    """Per line the first span that holds something."""
    start, end = parts[-1].start, parts[-1].end
    for spans in reversed(parts[:-1]):
        present = spans.present
        start, end = np.where(present, spans.start, start), np.where(present, spans.end, end)
    return Spans(start, end)
