"""bit_and, bit_or, bit_xor of integers."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.gathered import Gathered, Members
from query.expr.errors import TypeClash


class _Bits(Gathered):
    STATES = ("bits",)
    FUNCTION: ClassVar[np.ufunc]

    def check(self, types: list[pa.DataType]) -> None:
        if not pa.types.is_integer(types[0]) and not pa.types.is_null(types[0]):
            raise TypeClash(f"{self.NAME} takes integers, not {types[0]}")

    def add_rows(self, arguments: list[pa.Array], members: Members) -> list[pa.Array]:
        column = arguments[0]
        if pa.types.is_null(column.type):
            column = column.cast(pa.int64())
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        return [members.valid(column).reduce(self.FUNCTION, values)]

    def merge_states(self, states: list[pa.Array], members: Members) -> list[pa.Array]:
        return self.add_rows(states, members)


class BitAnd(_Bits):
    """The bits that are set in every value of the argument."""

    NAME = "bit_and"
    FUNCTION = np.bitwise_and


class BitOr(_Bits):
    """The bits that are set in some value of the argument."""

    NAME = "bit_or"
    FUNCTION = np.bitwise_or


class BitXor(_Bits):
    """The bits that are set in an odd number of values of the argument."""

    NAME = "bit_xor"
    FUNCTION = np.bitwise_xor
