"""Variance and standard deviation, of the population and of a sample.

A state is count, mean and the sum of squared distances from the mean; states combine by the formula of Chan, Golub
and LeVeque, which loses no digits where sums of squares would.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.aggregate import Call
from query.aggregate.arithmetic import as_double, is_summable
from query.aggregate.gathered import Gathered, Members
from query.expr.errors import TypeClash


class _Spread(Gathered):
    STATES = ("count", "mean", "squares")
    ADD = (Call(0, "count"), Call(0, "mean"), Call(0, "variance", pc.VarianceOptions(ddof=0)))
    #: What is taken off the count: 1 for a sample.
    LESS: ClassVar[int] = 0
    ROOT: ClassVar[bool] = False

    def check(self, types: list[pa.DataType]) -> None:
        if not is_summable(types[0]) or pa.types.is_boolean(types[0]):
            raise TypeClash(f"{self.NAME} does not take {types[0]}")

    def prepare(self, arguments: list[pa.Array]) -> list[pa.Array]:
        return [as_double(arguments[0])]

    def added(self, columns: list[pa.Array]) -> list[pa.Array]:
        count, mean, variance = columns
        return [count, mean, pc.multiply(variance, count.cast(pa.float64()))]

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        # A state of no values has NULL as its mean.
        counts, means, squares = (
            pc.fill_null(as_double(state), 0.0).to_numpy(zero_copy_only=False) for state in states
        )
        count = members.total(counts)
        none = count == 0
        mean = members.total(counts * means) / np.where(none, 1.0, count)
        apart = np.zeros(len(means))
        apart[members.rows] = means[members.rows] - mean[members.group_of]
        total = members.total(squares + counts * apart * apart)
        return [
            pa.array(count.astype(np.int64)),
            pa.array(mean, mask=none),
            pa.array(total, mask=none),
        ]

    def result(self, states: list[pa.Array]) -> pa.Array:
        degrees = pc.subtract(as_double(states[0]), float(self.LESS))
        variance = pc.divide(as_double(states[2]), pc.if_else(pc.greater(degrees, 0.0), degrees, None))
        return pc.sqrt(variance) if self.ROOT else variance


class VarPop(_Spread):
    """The variance of the argument over all rows."""

    NAME = "var_pop"


class VarSamp(_Spread):
    """The variance of the argument as a sample; NULL for fewer than two values."""

    NAME = "var_samp"
    LESS = 1


class StddevPop(_Spread):
    """The standard deviation of the argument over all rows."""

    NAME = "stddev_pop"
    ROOT = True


class StddevSamp(_Spread):
    """The standard deviation of the argument as a sample; NULL for fewer than two values."""

    NAME = "stddev_samp"
    LESS = 1
    ROOT = True
