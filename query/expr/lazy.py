"""Nodes that do not need every argument for every row: AND, OR, CASE and COALESCE.

A row that a CASE keeps from a branch must not fail in that branch, or nobody could guard a cast with a
test. The fast way evaluates everything for every row and hopes; the careful way evaluates each branch
on the rows that reach it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from query.batch.types import BOOL
from query.expr.nodes import Bad, Frame, Node, Value, blank, merge, spread

Rows = npt.NDArray[np.bool_]


class Junction:
    """AND or OR over any number of arguments, three-valued: false AND NULL is false (Kleene).

    A row one argument decides is decided, also when another argument has no result there.
    """

    __slots__ = ("args", "constant", "is_and", "type")

    def __init__(self, is_and: bool, args: Sequence[Node]) -> None:
        self.is_and = is_and
        self.args = tuple(args)
        self.type = BOOL
        self.constant = None

    def run(self, frame: Frame) -> Value:
        kernel = pc.and_kleene if self.is_and else pc.or_kleene
        value = self.args[0].run(frame)
        for arg in self.args[1:]:
            value = kernel(value, arg.run(frame))
        return value

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        kernel = pc.and_kleene if self.is_and else pc.or_kleene
        rows = frame.data.num_rows
        total: Value = pa.scalar(self.is_and)
        bad: Bad = None
        for arg in self.args:
            value, own = arg.careful(frame)
            if own is not None:
                value = blank(spread(value, rows), own)
            total = kernel(total, value)
            bad = merge(bad, own)
        if bad is not None:
            decided = pc.equal(spread(total, rows), pa.scalar(not self.is_and)).fill_null(False)
            bad = bad & ~truth(decided)
        return total, bad


class Case:
    """CASE WHEN c1 THEN v1 WHEN c2 THEN v2 ... ELSE v END."""

    __slots__ = ("branches", "constant", "otherwise", "type")

    def __init__(self, kind: pa.DataType, branches: Sequence[tuple[Node, Node]], otherwise: Node) -> None:
        self.type = kind
        self.branches = tuple(branches)
        self.otherwise = otherwise
        self.constant = None

    def run(self, frame: Frame) -> Value:
        value = self.otherwise.run(frame)
        for test, branch in reversed(self.branches):
            value = pc.if_else(pc.coalesce(test.run(frame), _FALSE), branch.run(frame), value)
        return value

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        left = _Leftover(frame, self.type)
        for test, branch in self.branches:
            if not left.any():
                break
            hit, failed = test.careful(left.frame())
            left.fail(failed)
            left.settle(left.within(hit, failed), branch)
        left.settle(left.open.copy(), self.otherwise)
        return left.value, left.bad


class Coalesce:
    """The first argument that is not NULL."""

    __slots__ = ("args", "constant", "type")

    def __init__(self, kind: pa.DataType, args: Sequence[Node]) -> None:
        self.type = kind
        self.args = tuple(args)
        self.constant = None

    def run(self, frame: Frame) -> Value:
        return pc.coalesce(*[arg.run(frame) for arg in self.args])

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        left = _Leftover(frame, self.type)
        for arg in self.args:
            if not left.any():
                break
            value, failed = arg.careful(left.frame())
            value = spread(value, int(left.open.sum()))
            has = truth(value.is_valid())
            left.put(left.open.copy(), value)
            settled = left.within(pa.array(has), failed)
            left.fail(failed)
            left.open &= ~(settled | left.failed)
        return left.value, left.bad


_FALSE = pa.scalar(False)


class _Leftover:
    """Rows that have no value yet, while a lazy node works through its branches."""

    def __init__(self, frame: Frame, kind: pa.DataType) -> None:
        rows = frame.data.num_rows
        self.whole = frame
        self.open: Rows = np.ones(rows, dtype=np.bool_)
        self.failed: Rows = np.zeros(rows, dtype=np.bool_)
        self.value = pa.nulls(rows, kind)

    @property
    def bad(self) -> Bad:
        return self.failed if self.failed.any() else None

    def any(self) -> bool:
        return bool(self.open.any())

    def frame(self) -> Frame:
        """The batch reduced to the open rows."""
        return self.whole if self.open.all() else self.whole.only(self.open)

    def within(self, hit: Value, failed: Bad) -> Rows:
        """A mask over the open rows as a mask over all rows, without those that failed."""
        chosen = np.zeros(len(self.open), dtype=np.bool_)
        inner = truth(spread(hit, int(self.open.sum())))
        if failed is not None:
            inner = inner & ~failed
        chosen[np.flatnonzero(self.open)[inner]] = True
        return chosen & ~self.failed

    def fail(self, failed: Bad) -> None:
        """Open rows that failed are closed for good."""
        if failed is not None:
            where = np.flatnonzero(self.open)[failed]
            self.failed[where] = True

    def settle(self, rows: Rows, branch: Node) -> None:
        """Gives `rows` the value of `branch` and closes them."""
        rows = rows & ~self.failed
        if rows.any():
            value, failed = branch.careful(self.whole if rows.all() else self.whole.only(rows))
            self.put(rows, value)
            if failed is not None:
                self.failed[np.flatnonzero(rows)[failed]] = True
        self.open &= ~(rows | self.failed)

    def put(self, rows: Rows, value: Value) -> None:
        count = int(rows.sum())
        if count:
            self.value = pc.replace_with_mask(self.value, pa.array(rows), spread(value, count))


def truth(value: pa.Array) -> Rows:
    """A boolean array as a numpy mask; NULL is false."""
    flat = value.fill_null(False) if value.null_count else value
    mask: Rows = flat.to_numpy(zero_copy_only=False)
    return mask
