"""Aggregates by order: the value at the least or greatest of another column, and the k greatest or least values.

The rows of one kernel call are ranked once over all groups; then a group's first is the least of its ranks.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.aggregate import Aggregate, Call
from query.aggregate.gathered import Gathered, Members, Rows
from query.expr.errors import TypeClash

#: The most values a top-k keeps of each group: beyond it a sort is what is wanted.
TOP_MAX = 10_000


def orderable(name: str, kind: pa.DataType) -> None:
    """Raises TypeClash for a type whose values have no order."""
    if pa.types.is_null(kind):
        return
    try:
        pc.sort_indices(pa.array([], kind))
    except pa.ArrowNotImplementedError:
        raise TypeClash(f"{name} does not take {kind}: its values have no order") from None


class _At(Aggregate):
    """The value of the first argument where the second is first in some order."""

    ARGUMENTS = (2, 2)
    COLUMNS = 2
    STATES = ("value", "at")
    ADD = (Call(0, "min"),)
    COMBINE = (Call(0, "min"),)
    DIRECTION: ClassVar[str] = "ascending"
    _held: tuple[pa.Array, pa.Array, pa.Array]

    def check(self, types: list[pa.DataType]) -> None:
        for kind in types:
            orderable(self.NAME, kind)

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        """Ranks: a row with NULL in either column has none. Of equals the least value is first, so that the
        answer is the same however rows were batched."""
        value, at = arguments
        known = pc.and_(value.is_valid(), at.is_valid()).to_numpy(zero_copy_only=False)
        sort_keys = [
            (name, direction)
            for name, column, direction in (("at", at, self.DIRECTION), ("value", value, "ascending"))
            if not pa.types.is_null(column.type)
        ]
        order = (
            pc.sort_indices(pa.table({"value": value, "at": at}), sort_keys=sort_keys)
            if sort_keys
            else pa.array(np.arange(len(at)))
        )
        self._held = (value, at, order)
        return [pa.array(ranks(order), mask=~known)]

    def added(self, columns: list[pa.Array]) -> list[pa.Array]:
        value, at, order = self._held
        del self._held
        places = order.take(columns[0])
        return [value.take(places), at.take(places)]

    def regroup(self, states: list[pa.Array]) -> list[pa.Array]:
        return self.prepare(states)

    def combined(self, columns: list[pa.Array]) -> list[pa.Array]:
        return self.added(columns)


class ArgMin(_At):
    """The first argument where the second is least; rows with NULL in either do not count."""

    NAME = "arg_min"


class ArgMax(_At):
    """The first argument where the second is greatest; rows with NULL in either do not count."""

    NAME = "arg_max"
    DIRECTION = "descending"


class First(ArgMin):
    """The earliest value of the first argument by the time in the second: `first($load, $ts)`."""

    NAME = "first"


class Last(ArgMax):
    """The latest value of the first argument by the time in the second: `last($load, $ts)`."""

    NAME = "last"


def ranks(order: pa.Array) -> Rows:
    """The place of each row in an order of rows."""
    place: Rows = np.empty(len(order), dtype=np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    return place


class _Top(Gathered):
    ARGUMENTS = (2, 2)
    STATES = ("top",)
    DIRECTION: ClassVar[str] = "descending"

    def __init__(self, k: Any = None) -> None:
        if not isinstance(k, int) or not 1 <= k <= TOP_MAX:
            raise TypeClash(f"{self.NAME} keeps 1 to {TOP_MAX} values, not {k!r}")
        self._k = k

    def check(self, types: list[pa.DataType]) -> None:
        orderable(self.NAME, types[0])

    def add_rows(self, arguments: list[pa.Array], members: Members) -> list[pa.Array]:
        return [self._top(arguments[0], members)]

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        return [self._top(*members.elements(states[0]))]

    def _top(self, values: pa.Array, members: Members) -> pa.Array:
        members = members.valid(values)
        if pa.types.is_null(values.type):
            return members.lists(values, null_if_empty=True)
        place = ranks(pc.array_sort_indices(values, order=self.DIRECTION))
        by_place = Members(members.rows[np.lexsort((place[members.rows], members.group_of))], members.offsets)
        within = np.arange(len(by_place.rows)) - np.repeat(by_place.offsets[:-1], by_place.counts)
        return by_place.keep(within < self._k).lists(values, null_if_empty=True)


class MaxK(_Top):
    """The k greatest values of the argument, greatest first: `max($v, 10)`."""

    NAME = "max_k"


class MinK(_Top):
    """The k least values of the argument, least first: `min($v, 10)`."""

    NAME = "min_k"
    DIRECTION = "ascending"
