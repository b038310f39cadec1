"""Aggregates that Arrow has no grouped kernel for: they see which rows belong to which group, and whole columns.

One kernel call collects the row numbers of each group; what is then done with the columns is numpy's, over all
groups at once. `PerGroup` is for states that are objects, as sketches and what a node's owner registers: it is called
once for each group and the rows or states that came together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.aggregate import Aggregate, Call
from query.expr.errors import EvalError

Numbers = npt.NDArray[Any]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Members:
    """The rows of each group: `rows[offsets[g] : offsets[g + 1]]` are those of group g."""

    rows: Rows
    offsets: Rows

    @classmethod
    def of(cls, lists: pa.Array) -> Members:
        """From lists of row numbers, one for each group."""
        offsets = lists.offsets.to_numpy().astype(np.int64)
        rows = lists.values.to_numpy()[offsets[0] : offsets[-1]]
        return cls(rows, offsets - offsets[0])

    @classmethod
    def sorted_by(cls, group_of: Rows, groups: int) -> Members:
        """From the group of each row."""
        counts = np.bincount(group_of, minlength=groups)
        return cls(np.argsort(group_of, kind="stable"), _offsets(counts))

    @property
    def groups(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> Rows:
        return np.diff(self.offsets)

    @property
    def group_of(self) -> Rows:
        """The group of each of `rows`."""
        return np.repeat(np.arange(self.groups), self.counts)

    def valid(self, column: pa.Array) -> Members:
        """Without the rows where the column is NULL."""
        if column.null_count == 0:
            return self
        return self.keep(column.is_valid().to_numpy(zero_copy_only=False)[self.rows])

    def keep(self, wanted: npt.NDArray[np.bool_]) -> Members:
        """Those of `rows` that are wanted."""
        counts = np.bincount(self.group_of[wanted], minlength=self.groups)
        return Members(self.rows[wanted], _offsets(counts))

    def total(self, values: Numbers) -> Numbers:
        """The sum in each group of one number per row, as doubles."""
        return np.bincount(self.group_of, weights=values[self.rows], minlength=self.groups)

    def reduce(self, function: np.ufunc, values: Numbers) -> pa.Array:
        """The values of each group by a function of two; NULL for groups without rows."""
        some = self.counts > 0
        results = np.zeros(self.groups, dtype=values.dtype)
        if some.any():
            results[some] = function.reduceat(values[self.rows], self.offsets[:-1][some])
        return pa.array(results, mask=~some)

    def elements(self, lists: pa.Array) -> tuple[pa.Array, Members]:
        """All elements of a column of lists, and to which group each belongs."""
        group_of_row: Rows = np.zeros(len(lists), dtype=np.int64)
        group_of_row[self.rows] = self.group_of
        parents = pc.list_parent_indices(lists).to_numpy()
        return lists.flatten(), Members.sorted_by(group_of_row[parents], self.groups)

    def lists(self, values: pa.Array, null_if_empty: bool = False) -> pa.Array:
        """A list for each group of the values at its rows."""
        offsets = pa.array(self.offsets, pa.int32())
        mask = pa.array(self.counts == 0) if null_if_empty else None
        return pa.ListArray.from_arrays(offsets, values.take(pa.array(self.rows)), mask=mask)


def _offsets(counts: Rows) -> Rows:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])


class Gathered(Aggregate):
    """Base of aggregates over the members of groups; defines `add_rows` and `merge_states`."""

    ADD: ClassVar[tuple[Call, ...]] = (Call(0, "list"),)
    COMBINE: ClassVar[tuple[Call, ...]] = (Call(0, "list"),)
    _held: list[pa.Array]

    def add_rows(self, arguments: list[pa.Array], members: Members) -> list[pa.Array]:
        """States of groups of rows."""
        raise AssertionError("for the subclass to say")

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        """States of groups of states."""
        raise AssertionError("for the subclass to say")

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        return self._hold(arguments)

    def added(self, columns: list[pa.Array]) -> list[pa.Array]:
        return self.add_rows(self._take(), Members.of(columns[0]))

    def regroup(self, states: list[pa.Array]) -> list[pa.Array]:
        return self._hold(states)

    def combined(self, columns: list[pa.Array]) -> list[pa.Array]:
        return self.merge_states(self._take(), Members.of(columns[0]))

    def _hold(self, columns: list[pa.Array]) -> list[pa.Array]:
        """Keeps columns until the kernel has said which rows go together: the very next call."""
        self._held = columns
        return [pa.array(np.arange(len(columns[0])))]

    def _take(self) -> list[pa.Array]:
        held, self._held = self._held, []
        return held


class PerGroup(Gathered):
    """A state is bytes: `summarise` makes one of a group's values, `merge` one of several, `conclude` the result."""

    STATES: ClassVar[tuple[str, ...]] = ("state",)
    #: The Arrow type of results.
    RESULT: ClassVar[pa.DataType] = pa.int64()

    def summarise(self, values: list[pa.Array]) -> bytes | None:
        """The state of some rows, a column for each argument; rows where the first is NULL are left out."""
        raise AssertionError("for the subclass to say")

    def merge(self, states: list[bytes]) -> bytes:
        """One state of several; ValueError for bytes that are none."""
        raise AssertionError("for the subclass to say")

    def conclude(self, state: bytes | None) -> Any:
        """The result; `state` is None for a group without values."""
        raise AssertionError("for the subclass to say")

    def add_rows(self, arguments: list[pa.Array], members: Members) -> list[pa.Array]:
        members = members.valid(arguments[0])
        ordered = [column.take(pa.array(members.rows)) for column in arguments]
        states = []
        for start, count in zip(members.offsets[:-1].tolist(), members.counts.tolist(), strict=True):
            states.append(
                self.summarise([column.slice(start, count) for column in ordered]) if count else None
            )
        return [pa.array(states, pa.binary())]

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        members = members.valid(states[0])
        values = states[0].take(pa.array(members.rows)).to_pylist()
        merged: list[bytes | None] = []
        for start, count in zip(members.offsets[:-1].tolist(), members.counts.tolist(), strict=True):
            some = values[start : start + count]
            merged.append(None if not some else some[0] if count == 1 else self._sound(self.merge, some))
        return [pa.array(merged, pa.binary())]

    def result(self, states: list[pa.Array]) -> pa.Array:
        return pa.array([self._sound(self.conclude, state) for state in states[0].to_pylist()], self.RESULT)

    def _sound(self, function: Callable[[Any], Any], states: Any) -> Any:
        """States come from other nodes: one that cannot be read is its sender's fault and is said so."""
        try:
            return function(states)
        except (ValueError, RuntimeError, IndexError, MemoryError, TypeError) as error:
            raise EvalError(f"a partial state of {self.NAME} cannot be read: {error}") from None
