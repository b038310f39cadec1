"""Events to text, a column at a time: the pieces every dialect's printer is made of.

From conforming events (see `conform`) to one string per event. Invariant: parsing what a dialect prints gives
the conforming events back.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pier_node.logs.decode import relabel
from pier_node.logs.events import FIREWALL_SCHEMA, protocol_number

if TYPE_CHECKING:
    from pier_node.logs.dialects.base import Dialect

SECOND_US = 1_000_000
LINES_AT_ONCE_MAX = 262_144  # keeps a printed block below Arrow's 2 GiB of string data


def join(*parts: Any) -> Any:
    """Columns and literals side by side; null prints as nothing."""
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="")


def text(column: Any, missing: str = "") -> Any:
    """Any column as strings, `missing` where null."""
    strings = column if pa.types.is_string(column.type) else column.cast(pa.string())
    return pc.fill_null(strings, missing) if strings.null_count else strings


def pair(lead: str, column: Any, trail: str = "") -> Any:
    """`lead` and the value where there is one, else nothing."""
    strings = column if pa.types.is_string(column.type) else column.cast(pa.string())
    return pc.binary_join_element_wise(lead, strings, trail, "", null_handling="emit_null")


def spoken(column: Any, words: dict[str, str], missing: str = "") -> Any:
    """Each value by its word in the dialect."""
    return text(relabel(column, lambda value: words.get(value, value)), missing)


def micros(batch: Any) -> Any:
    return np.asarray(batch["ts"].cast(pa.int64()))


def stamp(batch: Any, layout: str, digits: int = 0) -> Any:
    """The event's time in UTC; each distinct second is formatted once. `digits` of a fraction follow."""
    us = micros(batch)
    seconds, which = np.unique(us // SECOND_US, return_inverse=True)
    texts = pc.strftime(pa.array(seconds, pa.timestamp("s")), format=layout)
    whole = texts.take(pa.array(which))
    if not digits:
        return whole
    return join(whole, ".", padded((us % SECOND_US) // 10 ** (6 - digits), digits))


def padded(values: Any, width: int) -> Any:
    return pc.utf8_lpad(pa.array(values).cast(pa.string()), width, padding="0")


def epoch_seconds(batch: Any) -> Any:
    return pa.array(micros(batch) // SECOND_US).cast(pa.string())


def protocol_numbers(batch: Any) -> Any:
    return text(relabel(batch["proto"], protocol_number), "-")


def is_v6(column: Any) -> Any:
    return pc.match_substring(column, ":")


def exploded(column: Any) -> Any:
    """IPv6 with every group and zero written out, as the kernel logs it."""

    def write(address: str) -> str:
        return ipaddress.IPv6Address(address).exploded if ":" in address else address

    return relabel(column, write)


def conform(dialect: Dialect, batch: Any) -> Any:
    """The nearest events the dialect can say: what it does not carry is null, times are cut to its unit."""
    carries, columns = dialect.carries, {}
    for field in FIREWALL_SCHEMA:
        kept = field.name in carries.columns
        columns[field.name] = batch[field.name] if kept else pa.nulls(len(batch), field.type)
    cut = micros(batch) // carries.ts_unit_us * carries.ts_unit_us
    columns["ts"] = pa.array(cut).cast(pa.timestamp("us", "UTC"))
    default = carries.actions[0]
    columns["action"] = text(
        relabel(batch["action"], lambda word: word if word in carries.actions else default), default
    )
    columns["direction"] = relabel(
        batch["direction"], lambda word: word if word in carries.directions else None
    )
    columns["raw_format"] = pa.repeat(pa.scalar(dialect.name, pa.string()), len(batch))
    columns = dialect.adapt(columns)
    return pa.RecordBatch.from_arrays(
        [columns[field.name] for field in FIREWALL_SCHEMA], schema=FIREWALL_SCHEMA
    )


def by_pairs(one: Any, two: Any, label: Callable[[str | None, str | None], str | None]) -> Any:
    """`label(one, two)` per row, computed once per distinct pair."""
    left, right = (column.dictionary_encode("encode") for column in (one, two))
    wide = len(right.dictionary)
    code = np.asarray(left.indices).astype(np.int64) * wide + np.asarray(right.indices)
    distinct, which = np.unique(code, return_inverse=True)
    lefts, rights = left.dictionary.to_pylist(), right.dictionary.to_pylist()
    labels = [label(lefts[value // wide], rights[value % wide]) for value in distinct.tolist()]
    return pa.array(labels, pa.string()).take(pa.array(which))


def print_events(dialect: Dialect, batch: Any, *, head: bool = True) -> bytes:
    """The events as the lines of a log of that dialect; they are made to conform first."""
    parts = [dialect.head] if head else []
    for start in range(0, len(batch), LINES_AT_ONCE_MAX):
        lines = dialect.printer(conform(dialect, batch.slice(start, LINES_AT_ONCE_MAX)))
        ended = join(lines, "\n")
        parts.append(_bytes_of(ended))
    return b"".join(parts)


def _bytes_of(array: Any) -> bytes:
    values = array.buffers()[2]
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4)
    return b"" if values is None else values.to_pybytes()[int(offsets[0]) : int(offsets[-1])]
