"""count, sum, avg, min, max and the logical ones: states that Arrow's grouped kernels return directly."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.accumulators import (
    Accumulator,
    Counts,
    Extremes,
    Sums,
    SumsAndCounts,
    extremes_fit,
    sums_fit,
)
from query.aggregate.aggregate import Aggregate, Call
from query.aggregate.arithmetic import as_double, is_summable, narrowed, summable
from query.expr.errors import TypeClash


class Count(Aggregate):
    """Rows where the argument is not NULL."""

    NAME = "count"
    STATES = ("count",)
    ADD = (Call(0, "count", pc.CountOptions(mode="only_valid")),)
    COMBINE = (Call(0, "sum"),)

    def accumulator(self, types: list[pa.DataType]) -> Accumulator | None:
        return Counts()

    def combined(self, columns: list[pa.Array]) -> list[pa.Array]:
        return [pc.fill_null(columns[0], 0)]


class CountAll(Count):
    """Rows: `count(*)`."""

    NAME = "count_all"
    ARGUMENTS = (0, 0)
    COLUMNS = 0
    ADD = (Call(None, "count_all"),)


class Sum(Aggregate):
    """The sum of the argument; NULL where a group has only NULLs."""

    NAME = "sum"
    STATES = ("sum",)
    ADD = (Call(0, "sum"),)
    COMBINE = (Call(0, "sum"),)

    def check(self, types: list[pa.DataType]) -> None:
        if not is_summable(types[0]):
            raise TypeClash(f"sum does not take {types[0]}")

    def accumulator(self, types: list[pa.DataType]) -> Accumulator | None:
        return Sums(types[0]) if sums_fit(types[0]) else None

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        return [summable(arguments[0])]

    def regroup(self, states: list[pa.Array]) -> list[pa.Array]:
        return [summable(states[0])]

    def result(self, states: list[pa.Array]) -> pa.Array:
        return narrowed(states[0])


class Avg(Aggregate):
    """The mean of the argument, as a double."""

    NAME = "avg"
    STATES = ("sum", "count")
    ADD = (Call(0, "sum"), Call(0, "count"))
    COMBINE = (Call(0, "sum"), Call(1, "sum"))

    def check(self, types: list[pa.DataType]) -> None:
        if not is_summable(types[0]) or pa.types.is_boolean(types[0]):
            raise TypeClash(f"avg does not take {types[0]}")

    def accumulator(self, types: list[pa.DataType]) -> Accumulator | None:
        return SumsAndCounts(types[0]) if sums_fit(types[0]) else None

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        return [summable(arguments[0])]

    def regroup(self, states: list[pa.Array]) -> list[pa.Array]:
        return [summable(states[0]), states[1]]

    def result(self, states: list[pa.Array]) -> pa.Array:
        total, count = as_double(states[0]), as_double(states[1])
        return pc.divide(total, pc.if_else(pc.equal(count, 0.0), None, count))


class Min(Aggregate):
    """The least value of the argument."""

    NAME = "min"
    STATES = ("min",)
    ADD = (Call(0, "min"),)
    COMBINE = (Call(0, "min"),)

    def accumulator(self, types: list[pa.DataType]) -> Accumulator | None:
        return Extremes(types[0], False) if extremes_fit(types[0]) else None


class Max(Aggregate):
    """The greatest value of the argument."""

    NAME = "max"
    STATES = ("max",)
    ADD = (Call(0, "max"),)
    COMBINE = (Call(0, "max"),)

    def accumulator(self, types: list[pa.DataType]) -> Accumulator | None:
        return Extremes(types[0], True) if extremes_fit(types[0]) else None


class _Logical(Aggregate):
    def check(self, types: list[pa.DataType]) -> None:
        if not pa.types.is_boolean(types[0]) and not pa.types.is_null(types[0]):
            raise TypeClash(f"{self.NAME} takes bool, not {types[0]}")

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        return [arguments[0].cast(pa.bool_())]


class BoolAnd(_Logical):
    """Whether the argument is true in every row where it is not NULL."""

    NAME = "bool_and"
    STATES = ("all",)
    ADD = (Call(0, "min"),)
    COMBINE = (Call(0, "min"),)


class BoolOr(_Logical):
    """Whether the argument is true in some row."""

    NAME = "bool_or"
    STATES = ("any",)
    ADD = (Call(0, "max"),)
    COMBINE = (Call(0, "max"),)
