"""Finding spans in a block with numpy alone: newlines, separators, key=value pairs, digits.

Each function reads a whole block at once; no Python loop runs over lines. `scan_numba` has the same
functions compiled; tests hold the two equal on any bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pier_node.logs.block import NEWLINE, Block, Bytes, Mask, Positions, Spans

SPACE = 32
QUOTE = 34
EQUALS = 61
# 18 digits always fit an int64; a longer number in a log is not one of ours.
DIGITS_MAX = 18


def inside_quotes(block: Block, positions: Positions, lines: Positions) -> Mask:
    """Whether each position has an odd number of double quotes before it on its own line."""
    quotes = np.flatnonzero(block.data == QUOTE)
    if not len(quotes):
        return np.zeros(len(positions), np.bool_)
    before = np.searchsorted(quotes, positions)
    at_start = np.searchsorted(quotes, block.starts)
    return ((before - at_start[lines]) & 1).astype(np.bool_)


def words_at(data: Bytes) -> npt.NDArray[np.uint64]:
    """View: element i is the little-endian 8-byte word that starts at byte i."""
    return np.ndarray((len(data) - 8,), np.dtype("<u8"), data.data, 0, (1,))


def _endings(keys: tuple[bytes, ...]) -> tuple[npt.NDArray[np.uint8], dict[int, list[int]]]:
    """A table from a key's last two bytes to a group number, and the keys of each group."""
    table = np.zeros(1 << 16, np.uint8)
    groups: dict[int, list[int]] = {}
    numbers: dict[bytes, int] = {}
    for index, key in enumerate(keys):
        group = numbers.setdefault(key[-2:], len(numbers) + 1)
        table[int.from_bytes(key[-2:], "little")] = group
        groups.setdefault(group, []).append(index)
    return table, groups


# One entry per dialect that reads pairs: the keys are the code's, never a log's.
_TABLES: dict[tuple[bytes, ...], tuple[npt.NDArray[np.uint8], dict[int, list[int]]]] = {}


def _key_matches(block: Block, at: Positions, key: bytes) -> Mask:
    """Whether the bytes before each '=' are `key`, themselves preceded by a space or a line's start."""
    data, size = block.data, len(key)
    tail = key[-8:]
    shift = np.uint64(8 * (8 - len(tail)))
    words = words_at(data)[at - 8]
    matches: Mask = (words >> shift) == np.uint64(int.from_bytes(tail, "little"))
    before = data[at - size - 1]
    matches &= (before == SPACE) | (before == NEWLINE)
    for offset, byte in enumerate(key[:-8]):
        matches &= data[at - size + offset] == byte
    return matches


def pairs(block: Block, keys: tuple[bytes, ...], quoted: bool) -> list[Spans]:
    """For each key the value of its first `key=value` on every line; keys are 2 to 15 bytes long.

    The block holds all its lines. A value ends at a space or at the line's end. When `quoted`, a value that
    opens with a double quote ends at the next one, and pairs inside quotes are text, not pairs.
    """
    data, count = block.data, len(block)
    if keys not in _TABLES:
        _TABLES[keys] = _endings(keys)
    table, groups = _TABLES[keys]
    equals = np.flatnonzero(data == EQUALS)
    group_of = table[data[equals - 2].astype(np.uint16) | (data[equals - 1].astype(np.uint16) << 8)]
    wanted = np.flatnonzero(group_of != 0)
    equals, group_of = equals[wanted], group_of[wanted]
    bounds = np.searchsorted(equals, block.starts)
    lines = np.repeat(np.arange(count), np.diff(np.append(bounds, len(equals))))
    open_pair = ~inside_quotes(block, equals, lines) if quoted else None
    starts = [np.zeros(count, np.int64) for _ in keys]
    for group, members in groups.items():
        chosen = np.flatnonzero(group_of == group)
        for index in members:
            mine = chosen[_key_matches(block, equals[chosen], keys[index])]
            if open_pair is not None:
                mine = mine[open_pair[mine]]
            # Written backwards: of several values on one line the first is written last and stays.
            starts[index][lines[mine][::-1]] = equals[mine][::-1] + 1
    return [_values(block, start, quoted) for start in starts]


def _values(block: Block, start: Positions, quoted: bool) -> Spans:
    """Values from where they begin (0: nowhere) to a space, to the closing quote, or to the line's end."""
    data = block.data
    here = start > 0
    limit = np.where(here, block.ends, 0)
    end = find(data, start, limit, SPACE)
    if quoted:
        opened = np.flatnonzero((data[start] == QUOTE) & (end > start))
        if len(opened):
            start = start.copy()
            start[opened] += 1
            end[opened] = find(data, start[opened], limit[opened], QUOTE)
    return Spans(start, end)


def gather(data: Bytes, start: Positions, end: Positions) -> tuple[Bytes, npt.NDArray[np.int32]]:
    """The spans' bytes one after another, and where each begins."""
    sizes = np.maximum(end - start, 0)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    index = np.repeat(start - offsets[:-1], sizes)
    index += np.arange(offsets[-1])
    return data[index], offsets.astype(np.int32)


_ONES = np.uint64(0x0101_0101_0101_0101)
_HIGHS = np.uint64(0x8080_8080_8080_8080)
_ZEROS = np.uint64(0x3030_3030_3030_3030)
_EVERY_FOURTH = np.uint64(0x0000_00FF_0000_00FF)
_ALL = np.uint64(0xFFFF_FFFF_FFFF_FFFF)


def integers(data: Bytes, start: Positions, end: Positions) -> tuple[npt.NDArray[np.int64], Mask]:
    """Decimal values of spans that are all digits, and which spans are not. Empty spans are 0 and fine."""
    sizes = np.maximum(end - start, 0)
    values, bad = _eight_digits(data, end, np.minimum(sizes, 8))
    bad |= sizes > DIGITS_MAX
    long = np.flatnonzero((sizes > 8) & ~bad)
    if len(long):
        middle, bad_middle = _eight_digits(data, end[long] - 8, np.minimum(sizes[long] - 8, 8))
        first, bad_first = _eight_digits(data, end[long] - 16, np.maximum(sizes[long] - 16, 0))
        values[long] += (first * 10**8 + middle) * 10**8
        bad[long] |= bad_middle | bad_first
    values[bad] = 0
    return values, bad


def _eight_digits(data: Bytes, end: Positions, sizes: Positions) -> tuple[npt.NDArray[np.int64], Mask]:
    """The values of up to eight digits that end at each position, all eight bytes of a word at once."""
    # Bytes before the first digit are made '0': they are the low ones, as the word is little-endian.
    shift = (8 * (8 - np.maximum(sizes, 1))).astype(np.uint64)
    kept = np.where(sizes > 0, _ALL << shift, np.uint64(0))
    digits = (words_at(data)[np.maximum(end - 8, 0)] & kept | _ZEROS & ~kept) - _ZEROS
    # No byte borrowed from its neighbour if all were '0' to '9'; adding 0x76 sets the high bit above 9.
    bad: Mask = ((digits | (digits + np.uint64(0x7676_7676_7676_7676))) & _HIGHS) != 0
    digits = digits * np.uint64(10) + (digits >> np.uint64(8))  # pairs of digits
    upper = (digits & _EVERY_FOURTH) * np.uint64(0x000F_4240_0000_0064)
    lower = ((digits >> np.uint64(16)) & _EVERY_FOURTH) * np.uint64(0x0000_2710_0000_0001)
    return ((upper + lower) >> np.uint64(32)).astype(np.int64), bad


# Words looked at one by one before all places of the byte are listed: most values are short.
_FIND_WORDS = 6


def _first_in_word(words: npt.NDArray[np.uint64], byte: int) -> npt.NDArray[Any]:
    """Which of a word's eight bytes is the first `byte`; 8 when none is."""
    odd = words ^ (_ONES * np.uint64(byte))
    # Zero bytes keep their high bit (Mycroft's test, exact for the lowest one).
    hits = (odd - _ONES) & ~odd & _HIGHS
    below = (hits - np.uint64(1)) & ~hits
    return np.bitwise_count(below) >> 3


def find(data: Bytes, at: Positions, limit: Positions, byte: int) -> Positions:
    """The first `byte` at or after each position, or the limit where there is none before it (never less
    than the position itself)."""
    words = words_at(data)
    offset = _first_in_word(words[at], byte)
    found: Positions = np.maximum(np.minimum(at + offset, limit), at)
    looking = np.flatnonzero((offset == 8) & (at + 8 < limit))
    position = at[looking] + 8
    for _ in range(_FIND_WORDS):
        if not len(looking):
            return found
        offset = _first_in_word(words[position], byte)
        found[looking] = np.minimum(position + offset, limit[looking])
        going = (offset == 8) & (position + 8 < limit[looking])
        looking, position = looking[going], position[going] + 8
    if len(looking):
        places = np.append(np.flatnonzero(data == byte), len(data))
        found[looking] = np.minimum(places[np.searchsorted(places, position)], limit[looking])
    return found


_QUAD_WIDTH = 15


def plain_ipv4(data: Bytes, start: Positions, end: Positions) -> Mask:
    """Which spans are dotted quads without leading zeros: those are in normal form already."""
    sizes = end - start
    fits: Mask = (sizes >= 7) & (sizes <= _QUAD_WIDTH)
    columns = np.arange(_QUAD_WIDTH)[:, None]
    inside = columns < sizes.astype(np.int8)
    byte = data[np.where(fits, start, 0) + columns]
    dot = (byte == 46) & inside
    value = np.where(inside, byte - np.uint8(48), np.uint8(255))  # wraps: only digits are below 10
    digit = value < 10
    wrong = (dot | digit) != inside
    wrong[0] |= dot[0]
    wrong[1:] |= dot[1:] & ~digit[:-1]  # an octet without digits
    leading = value[:-1] == 0
    leading[1:] &= ~digit[:-2]
    wrong[1:] |= leading & digit[1:]  # a zero that begins a longer octet
    three = digit[:-2] & digit[1:-1] & digit[2:]
    wrong[3:] |= three[:-1] & digit[3:]
    tens, ones = value[1:-1], value[2:]
    wrong[2:] |= three & ((value[:-2] > 2) | ((value[:-2] == 2) & ((tens > 5) | ((tens == 5) & (ones > 5)))))
    fits &= ~wrong.any(axis=0) & (dot.view(np.uint8).sum(axis=0, dtype=np.uint8) == 3)
    fits &= data[np.where(fits, end - 1, 0)] != 46
    return fits
