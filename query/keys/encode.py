"""Key columns as 64-bit words that are equal exactly when the keys are.

Numbers, times and booleans are their own word; texts and everything else get the number under which a dictionary
of the values seen so far holds them, looked up once for each distinct value of a batch. Words of different
kinds of values never count as equal: the kinds of a row's columns are a word of their own, which also says
where NULLs stand. Integers equal whatever their width, and equal the floating-point numbers of the same value;
0.0 equals -0.0 and NaN equals NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import type_name
from query.expr.columns import Mask, Numbers, nulls, numbers
from query.expr.errors import ExprLimit

Words = npt.NDArray[np.uint64]
States = npt.NDArray[np.uint8]
#: Combinations of column kinds that one index tells apart; a namespace with more is no table.
KINDS_MAX = 4_096
#: What the dictionary entry of an interned value costs beside the value itself (measured on CPython 3.11).
INTERNED_BYTES = 120
#: Columns whose two bits of state fit into one word, beside the number of the kinds in the first.
_COLUMNS_A_WORD = 24
_KINDS_BITS = 16
#: How a word is to be read: as it is, as NULL, as the bits of a floating-point number, or as interned.
_NULL, _BITS, _INTERNED = 1, 2, 3
_TIMES = (pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration)
#: The state word of a single column whose value is interned.
INTERNED_STATE = np.uint64(_INTERNED << _KINDS_BITS)
_INT64_LIMIT = 2.0**63
_NAN = np.float64("nan")


def kind_of(kind: pa.DataType) -> str:
    """Values of one kind can be equal, of two never; NULL of no type goes with every kind."""
    if pa.types.is_null(kind):
        return ""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    return type_name(kind)


class Encoder:
    """Turns the key columns of one operator into words; remembers the values it numbered."""

    __slots__ = ("_interned", "_kinds", "interned_bytes")

    def __init__(self, columns: int) -> None:
        self._interned: list[dict[Any, int]] = [{} for _ in range(columns)]
        self._kinds: dict[tuple[str, ...], int] = {}
        self.interned_bytes = 0

    @property
    def state_words(self) -> int:
        """Words of a key beside those of its columns: they say how to read these."""
        return max(1, -(-len(self._interned) // _COLUMNS_A_WORD))

    def encode(self, columns: Sequence[pa.Array], rows: int) -> tuple[list[Words], list[Words] | None]:
        """The words of each row, a word at a time, and the state words; None stands for all zero, which is
        what keys without NULL have whose columns are of the kinds first seen."""
        words: list[Words] = []
        kinds: list[str] = []
        states: list[States | None] = []
        for position, column in enumerate(columns):
            kind, values, state = self._column(position, column)
            kinds.append(kind)
            words.append(values)
            states.append(state)
        if not self._kinds:
            self._number(tuple(kinds))
        number = self._numbers(tuple(kinds), states, rows)
        if isinstance(number, int) and number == 0 and all(state is None for state in states):
            return words, None
        return words, _state_words(number, states, rows)

    def _numbers(self, kinds: tuple[str, ...], states: Sequence[States | None], rows: int) -> int | Words:
        """The number of the kinds of each row, or of all. A NULL has no kind of its own: it counts as what its column
        had first, so that NULL equals NULL whatever the type of the batch it came in."""
        first = next(iter(self._kinds))
        if kinds == first:
            return 0
        missing = [None if state is None else state == _NULL for state in states]
        if all(mask is None or not mask.any() for mask in missing):
            return self._number(kinds)
        nothing = np.zeros(rows, dtype=np.bool_)
        differing = [place for place, kind in enumerate(kinds) if kind != first[place]]
        masks = np.stack([nothing if (m := missing[place]) is None else m for place in differing], axis=1)
        _, examples, inverse = np.unique(masks, axis=0, return_index=True, return_inverse=True)
        numbers = np.zeros(len(examples), dtype=np.uint64)
        for pattern, at in enumerate(examples.tolist()):
            of_row = list(kinds)
            for place in differing:
                if (mask := missing[place]) is not None and mask[at]:
                    of_row[place] = first[place]
            numbers[pattern] = self._number(tuple(of_row))
        return numbers[inverse.reshape(rows)]

    def _number(self, kinds: tuple[str, ...]) -> int:
        known = self._kinds.get(kinds)
        if known is None:
            if len(self._kinds) >= KINDS_MAX:
                raise ExprLimit(f"keys of more than {KINDS_MAX} combinations of types (KINDS_MAX)")
            known = self._kinds[kinds] = len(self._kinds)
        return known

    def _column(self, position: int, column: pa.Array) -> tuple[str, Words, States | None]:
        kind = column.type
        state: States | None = None
        if pa.types.is_floating(kind):
            words, state = _floating(column)
        elif pa.types.is_integer(kind):
            words, state = self._integer(position, column)
        elif pa.types.is_decimal(kind):
            words, state = self._decimal(position, column)
        elif pa.types.is_boolean(kind):
            words = _words(column.cast(pa.uint8()).cast(pa.int64()))
        elif any(matches(kind) for matches in _TIMES):
            wide = column.cast(pa.int32()) if pa.types.is_date32(kind) else column
            words = _words(wide.cast(pa.int64()))
        elif pa.types.is_null(kind):
            words = np.zeros(len(column), dtype=np.uint64)
        else:
            words = self._interned_words(position, column)
        missing = nulls(column)
        if missing is not None:
            words = np.where(missing, np.uint64(0), words)
            state = np.zeros(len(column), dtype=np.uint8) if state is None else state
            state[missing] = _NULL
        return kind_of(kind), words, state

    def _integer(self, position: int, column: pa.Array) -> tuple[Words, States | None]:
        if column.type != pa.uint64():
            return _words(column.cast(pa.int64())), None
        words = numbers(column, np.uint64).copy()
        large = words > np.uint64((1 << 63) - 1)
        missing = nulls(column)
        if missing is not None:
            large &= ~missing
        return self._intern_some(position, column, words, large)

    def _decimal(self, position: int, column: pa.Array) -> tuple[Words, States | None]:
        values = column.to_pylist()
        whole = np.array(
            [v is None or (v == v.to_integral_value() and abs(v) < 2**63 - 1) for v in values], dtype=np.bool_
        )
        words = np.array(
            [int(v) if v is not None and ok else 0 for v, ok in zip(values, whole, strict=True)],
            dtype=np.int64,
        ).view(np.uint64)
        return self._intern_some(position, column, words, ~whole)

    def _intern_some(
        self, position: int, column: pa.Array, words: Words, some: Mask
    ) -> tuple[Words, States | None]:
        if not some.any():
            return words, None
        words = words.copy()
        words[some] = self._interned_words(position, column.filter(pa.array(some)))
        return words, np.where(some, np.uint8(_INTERNED), np.uint8(0))

    def _interned_words(self, position: int, column: pa.Array) -> Words:
        known = self._interned[position]
        if pa.types.is_nested(column.type) or column.type == pa.month_day_nano_interval():
            values = [_hashable(value) for value in column.to_pylist()]
            return self._intern(known, values, column.nbytes).view(np.uint64)
        encoded = column.dictionary_encode()
        ids = self._intern(known, encoded.dictionary.to_pylist(), encoded.dictionary.nbytes)
        if encoded.indices.null_count:
            ids = np.append(ids, 0)
            places = pc.fill_null(encoded.indices, len(ids) - 1).to_numpy()
        else:
            places = encoded.indices.to_numpy()
        found: Words = ids[places].view(np.uint64)
        return found

    def _intern(self, known: dict[Any, int], values: list[Any], size_bytes: int) -> npt.NDArray[np.int64]:
        before = len(known)
        found: list[Any] = list(map(known.get, values))
        if None in found:
            found = [known.setdefault(value, len(known)) for value in values]
        ids = np.array(found, dtype=np.int64)
        fresh = len(known) - before
        if fresh:
            self.interned_bytes += fresh * INTERNED_BYTES + size_bytes * fresh // len(values)
        return ids


def _state_words(kinds: int | Words, states: Sequence[States | None], rows: int) -> list[Words]:
    made = []
    for first in range(0, max(1, len(states)), _COLUMNS_A_WORD):
        word = np.zeros(rows, dtype=np.uint64)
        if first == 0:
            word |= np.uint64(kinds) if isinstance(kinds, int) else kinds
        for place, state in enumerate(states[first : first + _COLUMNS_A_WORD]):
            if state is not None:
                word |= state.astype(np.uint64) << np.uint64(_KINDS_BITS + 2 * place)
        made.append(word)
    return made


def _words(column: pa.Array) -> Words:
    return numbers(column).view(np.uint64)


def _floating(column: pa.Array) -> tuple[Words, States | None]:
    """Whole numbers as integers, so that 2.0 meets 2; others as their bits."""
    values: Numbers = numbers(column.cast(pa.float64()), np.float64)
    with np.errstate(invalid="ignore"):
        whole: Mask = (np.floor(values) == values) & (np.abs(values) < _INT64_LIMIT)
        integers = np.where(whole, values, 0.0).astype(np.int64)
    if whole.all():
        return integers.view(np.uint64), None
    bits = np.where(np.isnan(values), _NAN, values).view(np.uint64)
    return np.where(whole, integers.view(np.uint64), bits), np.where(whole, np.uint8(0), np.uint8(_BITS))


def _hashable(value: Any) -> Any:
    """Lists and structs as tuples; NaN as one value that equals itself."""
    if isinstance(value, list | tuple):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, float) and value != value:
        return ("nan",)
    return value
