"""The scans of `scan_numpy` as compiled loops: one pass over the bytes, no intermediate arrays.

Used when numba is installed. Importing this module compiles nothing; the first call of each
function does, once a machine where numba can write its cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pier_node.logs.block import Block, Bytes, Mask, Positions, Spans
from pier_node.logs.scan_numpy import DIGITS_MAX, EQUALS, QUOTE
from query.keys.jit import jit


@jit
def _match_key(  # type: ignore[no-untyped-def]
    data, equals, line_start, key_bytes, key_starts, key_ends, first, chain
):
    """Index of the key that ends right before `equals`, or -1."""
    candidate = first[data[equals - 1], data[equals - 2] & 31]
    while candidate >= 0:
        size = key_ends[candidate] - key_starts[candidate]
        at = equals - size
        if at >= line_start and (at == line_start or data[at - 1] == 32):
            same = True
            for offset in range(size):
                if data[at + offset] != key_bytes[key_starts[candidate] + offset]:
                    same = False
                    break
            if same:
                return candidate
        candidate = chain[candidate]
    return -1


@jit
def _pairs(  # type: ignore[no-untyped-def]
    data,
    starts,
    ends,
    equals,
    quotes,
    key_bytes,
    key_starts,
    key_ends,
    first,
    chain,
    quoted,
    out_start,
    out_end,
):
    line = 0
    quote = 0  # index of the first quote not yet passed
    inside = False
    for at in equals:
        while at > ends[line]:  # never past the last line: no '=' follows it
            line += 1
            inside = False
            while quote < len(quotes) and quotes[quote] < starts[line]:
                quote += 1
        while quote < len(quotes) and quotes[quote] < at:
            inside = not inside
            quote += 1
        if inside or at < starts[line] + 2:
            continue
        key = _match_key(data, at, starts[line], key_bytes, key_starts, key_ends, first, chain)
        if key < 0 or out_start[key, line] != 0:
            continue
        value = at + 1
        closing = 32
        if quoted and value < ends[line] and data[value] == 34:
            value += 1
            closing = 34
        stop = value
        while stop < ends[line] and data[stop] != closing:
            stop += 1
        out_start[key, line] = value
        out_end[key, line] = stop


# One entry per dialect that reads pairs: the keys are the code's, never a log's.
_KEYS: dict[tuple[bytes, ...], tuple[Any, ...]] = {}


def _key_table(keys: tuple[bytes, ...]) -> tuple[Any, ...]:
    """Keys as arrays, chained by their last byte and the low bits of the one before."""
    sizes = np.array([len(key) for key in keys], np.int64)
    key_ends = np.cumsum(sizes)
    first = np.full((256, 32), -1, np.int8)  # 8 kB: stays in the first cache
    chain = np.full(len(keys), -1, np.int8)
    for index in reversed(range(len(keys))):
        slot = (keys[index][-1], keys[index][-2] & 31)
        chain[index] = first[slot]
        first[slot] = index
    return np.frombuffer(b"".join(keys), np.uint8), key_ends - sizes, key_ends, first, chain


def pairs(block: Block, keys: tuple[bytes, ...], quoted: bool) -> list[Spans]:
    """As `scan_numpy.pairs`."""
    if keys not in _KEYS:
        _KEYS[keys] = _key_table(keys)
    table = _KEYS[keys]
    out_start = np.zeros((len(keys), len(block)), np.int64)
    out_end = np.zeros((len(keys), len(block)), np.int64)
    equals = np.flatnonzero(block.data == EQUALS)
    quotes = np.flatnonzero(block.data == QUOTE) if quoted else equals[:0]
    _pairs(block.data, block.starts, block.ends, equals, quotes, *table, quoted, out_start, out_end)
    return [Spans(out_start[index], out_end[index]) for index in range(len(keys))]


@jit
def _gather(data, start, end, offsets):  # type: ignore[no-untyped-def]
    total = 0
    for line in range(len(start)):
        offsets[line] = total
        total += max(end[line] - start[line], 0)
    offsets[len(start)] = total
    out = np.empty(total, np.uint8)
    for line in range(len(start)):
        at = offsets[line]
        for position in range(start[line], end[line]):
            out[at] = data[position]
            at += 1
    return out


def gather(data: Bytes, start: Positions, end: Positions) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """As `scan_numpy.gather`."""
    offsets = np.empty(len(start) + 1, np.int32)
    return _gather(data, start, end, offsets), offsets


@jit
def _integers(data, start, end, digits_max, values, bad):  # type: ignore[no-untyped-def]
    for line in range(len(start)):
        if end[line] - start[line] > digits_max:
            bad[line] = True
            continue
        value = np.int64(0)
        for position in range(start[line], end[line]):
            digit = np.int64(data[position]) - 48
            if digit < 0 or digit > 9:
                bad[line] = True
                value = np.int64(0)
                break
            value = value * 10 + digit
        values[line] = value


def integers(data: Bytes, start: Positions, end: Positions) -> tuple[npt.NDArray[np.int64], Mask]:
    """As `scan_numpy.integers`."""
    values = np.zeros(len(start), np.int64)
    bad = np.zeros(len(start), np.bool_)
    _integers(data, start, end, DIGITS_MAX, values, bad)
    return values, bad


@jit
def _find(data, at, limit, byte, found):  # type: ignore[no-untyped-def]
    for line in range(len(at)):
        position = at[line]
        while position < limit[line] and data[position] != byte:
            position += 1
        found[line] = position


def find(data: Bytes, at: Positions, limit: Positions, byte: int) -> Positions:
    """As `scan_numpy.find`."""
    found = np.empty(len(at), np.int64)
    _find(data, at, limit, byte, found)
    return found


@jit
def _plain_ipv4(data, start, end, plain):  # type: ignore[no-untyped-def]
    for line in range(len(start)):
        dots = 0
        value = np.int64(-1)  # of the octet so far; -1 before its first digit
        fine = end[line] - start[line] <= 15
        if fine:
            for position in range(start[line], end[line]):
                digit = np.int64(data[position]) - 48
                if digit == -2 and value >= 0:
                    dots += 1
                    value = np.int64(-1)
                elif digit >= 0 and digit <= 9 and value != 0:
                    value = max(value, np.int64(0)) * 10 + digit
                    if value > 255:
                        fine = False
                        break
                else:
                    fine = False
                    break
        plain[line] = fine and dots == 3 and value >= 0


def plain_ipv4(data: Bytes, start: Positions, end: Positions) -> Mask:
    """As `scan_numpy.plain_ipv4`."""
    plain = np.zeros(len(start), np.bool_)
    _plain_ipv4(data, start, end, plain)
    return plain
