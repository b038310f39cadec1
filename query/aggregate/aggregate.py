"""What an aggregate is: how rows become partial states, how states combine, how a state becomes a result.

Partial states are columns, one row per group (PSRs, PIER 4.2). Adding and combining are calls of Arrow's grouped
kernels, with a chance before and after each to work on whole columns; nothing here sees a single row. States
of the same rows are the same however the rows were batched, and combining is associative and commutative, up
to the rounding of floating-point sums.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from query.aggregate.accumulators import Accumulator


class Call(NamedTuple):
    """A grouped kernel on one of the prepared columns; column None counts rows."""

    column: int | None
    function: str
    options: Any = None


class Aggregate:
    """Base of all aggregates; the defaults suit those whose states are what the kernels return."""

    NAME: ClassVar[str] = ""
    #: Least and most number of arguments.
    ARGUMENTS: ClassVar[tuple[int, int]] = (1, 1)
    #: How many of the first arguments are columns. The others are constants, given when the aggregate is made.
    COLUMNS: ClassVar[int] = 1
    #: What the states are called behind the aggregate's own name: `n$count`.
    STATES: ClassVar[tuple[str, ...]] = ()
    ADD: ClassVar[tuple[Call, ...]] = ()
    COMBINE: ClassVar[tuple[Call, ...]] = ()

    def accumulator(self, types: list[pa.DataType]) -> Accumulator | None:
        """Something faster than the grouped kernels for arguments of these types, with the same states."""
        return None

    def __init__(self, *constants: Any) -> None:
        """Raises `TypeClash` for constants that make no sense."""
        assert not constants, f"{self.NAME} takes no constants"

    def check(self, types: list[pa.DataType]) -> None:
        """Raises `TypeClash` for arguments the aggregate does not take."""

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        """Columns that ADD refers to, from all the rows that will be grouped in one call."""
        return arguments

    def added(self, columns: list[pa.Array]) -> list[pa.Array]:
        """States from what the ADD calls returned."""
        return columns

    def regroup(self, states: list[pa.Array]) -> list[pa.Array]:
        """Columns that COMBINE refers to, from states of several origins."""
        return states

    def combined(self, columns: list[pa.Array]) -> list[pa.Array]:
        """States from what the COMBINE calls returned."""
        return columns

    def result(self, states: list[pa.Array]) -> pa.Array:
        return states[0]
