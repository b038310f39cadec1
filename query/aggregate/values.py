"""Aggregates whose states are the distinct values themselves: exact, and as large as the values are many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.arithmetic import as_double, is_summable
from query.aggregate.gathered import Gathered, Members, Rows
from query.aggregate.ordered import orderable
from query.expr.errors import EvalError, TypeClash

#: Bins of an equi-width histogram.
BINS_MAX = 10_000


def _encodable(name: str, kind: pa.DataType) -> None:
    try:
        pa.array([], kind).dictionary_encode()
    except pa.ArrowNotImplementedError:
        raise TypeClash(f"{name} does not take {kind}") from None


def distinct(values: pa.Array, members: Members) -> tuple[Members, Rows]:
    """The first row of each distinct value in each group, and for each of `members.rows` which of those it equals."""
    encoded = values.dictionary_encode()
    codes = pc.fill_null(encoded.indices, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = members.group_of * max(1, len(encoded.dictionary)) + codes[members.rows]
    _, first, which = np.unique(pairs, return_index=True, return_inverse=True)
    wanted = np.zeros(len(pairs), dtype=np.bool_)
    wanted[first] = True
    # `keep` leaves rows in their own order, so the distinct ones are numbered by that.
    number = np.cumsum(wanted) - 1
    return members.keep(wanted), number[first][which]


class CountDistinct(Gathered):
    """How many different values the argument has, exactly."""

    NAME = "count_distinct"
    STATES = ("values",)

    def check(self, types: list[pa.DataType]) -> None:
        _encodable(self.NAME, types[0])

    def add_rows(self, arguments: list[pa.Array], members: Members) -> list[pa.Array]:
        return [self._distinct(arguments[0], members)]

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        return [self._distinct(*members.elements(states[0]))]

    def result(self, states: list[pa.Array]) -> pa.Array:
        return pc.fill_null(pc.list_value_length(states[0]).cast(pa.int64()), 0)

    def _distinct(self, values: pa.Array, members: Members) -> pa.Array:
        return distinct(values, members.valid(values))[0].lists(values)


class Histogram(Gathered):
    """Every value of the argument with the number of its rows, by value: a list of (value, count)."""

    NAME = "histogram"
    STATES = ("values", "counts")

    def check(self, types: list[pa.DataType]) -> None:
        orderable(self.NAME, types[0])
        _encodable(self.NAME, types[0])

    def add_rows(self, arguments: list[pa.Array], members: Members) -> list[pa.Array]:
        return self._counted(arguments[0], np.ones(len(arguments[0]), dtype=np.int64), members)

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        values, value_members = members.elements(states[0])
        counts = states[1].flatten()
        if len(counts) != len(values):
            raise EvalError("a partial state of histogram has not one count for each value")
        return self._counted(values, counts.to_numpy(zero_copy_only=False), value_members)

    def result(self, states: list[pa.Array]) -> pa.Array:
        kind = pa.struct([("value", states[0].type.value_type), ("count", pa.int64())])
        members = Members.sorted_by(np.arange(len(states[0])), len(states[0]))
        values, of = members.elements(states[0])
        if not pa.types.is_null(values.type):
            group: Rows = np.zeros(len(values), dtype=np.int64)
            group[of.rows] = of.group_of
            order = pc.sort_indices(
                pa.table({"group": group, "value": values}),
                sort_keys=[("group", "ascending"), ("value", "ascending")],
            )
            of = Members(order.to_numpy().astype(np.int64), of.offsets)
        pairs = pa.StructArray.from_arrays([values, states[1].flatten()], fields=list(kind))
        return of.lists(pairs, null_if_empty=True)

    def _counted(self, values: pa.Array, counts: Rows, members: Members) -> list[pa.Array]:
        members = members.valid(values)
        kept, which = distinct(values, members)
        summed: Rows = np.zeros(len(kept.rows), dtype=np.int64)
        np.add.at(summed, which, counts[members.rows])
        in_place = pa.ListArray.from_arrays(pa.array(kept.offsets, pa.int32()), pa.array(summed))
        return [kept.lists(values), in_place]


class WidthHistogram(Gathered):
    """Rows in bins of equal width: `histogram($v, low, high, bins)`. A list of bins + 2 counts: those below low first,
    those at or above high last. Its states have one size, whatever the data."""

    NAME = "width_histogram"
    ARGUMENTS = (4, 4)
    STATES = ("counts",)

    def __init__(self, low: Any = None, high: Any = None, bins: Any = None) -> None:
        numbers = all(isinstance(each, int | float) and math.isfinite(each) for each in (low, high))
        if not numbers or not low < high:
            raise TypeClash(f"a histogram's range is two numbers, not {low!r} to {high!r}")
        if not isinstance(bins, int) or not 1 <= bins <= BINS_MAX:
            raise TypeClash(f"a histogram has 1 to {BINS_MAX} bins, not {bins!r}")
        self._low, self._high, self._bins = float(low), float(high), bins

    def check(self, types: list[pa.DataType]) -> None:
        if not is_summable(types[0]):
            raise TypeClash(f"histogram in bins takes numbers, not {types[0]}")

    def add_rows(self, arguments: list[pa.Array], members: Members) -> list[pa.Array]:
        column = as_double(arguments[0])
        values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
        members = members.valid(column)
        edges = np.linspace(self._low, self._high, self._bins + 1)
        place = np.searchsorted(edges, values, side="right")
        slots = self._bins + 2
        counts = np.bincount(members.group_of * slots + place[members.rows], minlength=members.groups * slots)
        return [self._lists(counts)]

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        slots = self._bins + 2
        counts = states[0].flatten()
        if len(counts) != len(states[0]) * slots or counts.null_count:
            raise EvalError(f"a partial state of histogram has not {slots} counts")
        table = counts.to_numpy().reshape(-1, slots)
        summed = np.zeros((members.groups, slots), dtype=np.int64)
        np.add.at(summed, members.group_of, table[members.rows])
        return [self._lists(summed.reshape(-1))]

    def _lists(self, counts: Rows) -> pa.Array:
        slots = self._bins + 2
        offsets = pa.array(np.arange(0, len(counts) + 1, slots), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array(counts.astype(np.int64)))
