"""A compiled expression: a tree of nodes that turns a record batch into one Arrow array.

The compiler builds the tree once per schema; operators run it on every batch. There are two ways to run
it. `run` is the fast one: whole columns, and an exception as soon as any row has no result. `careful`
follows when that happened: it finds the rows that are at fault, gives them NULL and reports them, so that
one bad row costs one row and not its batch (PIER 3.3.7: a tuple that cannot be processed is discarded).
A value is an Arrow array as long as the batch, or an Arrow scalar that stands for every row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from query.expr.errors import EvalError, EvalLimit

#: A pa.Array or a pa.Scalar; pyarrow is untyped.
Value: TypeAlias = Any
Bad: TypeAlias = npt.NDArray[np.bool_] | None
Kernel: TypeAlias = Callable[..., Value]
#: What a kernel raises for data it has no result for.
FAULTS = (pa.lib.ArrowException, EvalError, OverflowError)


class Frame:
    """One batch under evaluation, and the time that `now()` gives."""

    __slots__ = ("data", "now")

    def __init__(self, data: pa.RecordBatch, now: pa.Scalar | None) -> None:
        self.data = data
        self.now = now

    def only(self, rows: npt.NDArray[np.bool_]) -> Frame:
        return Frame(self.data.filter(pa.array(rows)), self.now)


class Node(Protocol):
    @property
    def type(self) -> pa.DataType: ...

    @property
    def constant(self) -> pa.Scalar | None:
        """The value, when it is the same for every batch."""

    def run(self, frame: Frame) -> Value: ...

    def careful(self, frame: Frame) -> tuple[Value, Bad]: ...


class Literal:
    __slots__ = ("constant", "type")

    def __init__(self, value: pa.Scalar) -> None:
        self.constant = value
        self.type = value.type

    def run(self, frame: Frame) -> Value:
        return self.constant

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        return self.constant, None


class Column:
    __slots__ = ("constant", "index", "type")

    def __init__(self, index: int, kind: pa.DataType) -> None:
        self.index = index
        self.type = kind
        self.constant = None

    def run(self, frame: Frame) -> Value:
        return frame.data.column(self.index)

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        return frame.data.column(self.index), None


class Now:
    """The time of evaluation, given by the caller: expressions never read a clock."""

    __slots__ = ("constant", "type")

    def __init__(self) -> None:
        self.type = pa.timestamp("us", "UTC")
        self.constant = None

    def run(self, frame: Frame) -> Value:
        if frame.now is None:
            raise EvalError("now() needs the time of evaluation")
        return frame.now

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        return self.run(frame), None


class Call:
    """A function whose arguments are all evaluated first."""

    __slots__ = ("args", "constant", "faults", "kernel", "type")

    def __init__(
        self,
        kind: pa.DataType,
        kernel: Kernel,
        args: Sequence[Node],
        faults: Callable[..., npt.NDArray[np.bool_]] | None = None,
    ) -> None:
        """`faults`, where a kernel has it, tells the rows it fails on faster than trying them."""
        self.type = kind
        self.kernel = kernel
        self.args = tuple(args)
        self.faults = faults
        self.constant = None

    def run(self, frame: Frame) -> Value:
        return self.kernel(*[arg.run(frame) for arg in self.args])

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        values, bad = careful_all(self.args, frame)
        try:
            return self.kernel(*values), bad
        except FAULTS:
            value, own = isolate(self.kernel, values, frame.data.num_rows, self.type, self.faults)
            return value, merge(bad, own)


def careful_all(args: Sequence[Node], frame: Frame) -> tuple[list[Value], Bad]:
    """Every argument, with NULL where it or another is bad: kernels have a result for NULL."""
    values: list[Value] = []
    bad: Bad = None
    for arg in args:
        value, own = arg.careful(frame)
        values.append(value)
        bad = merge(bad, own)
    if bad is not None:
        values = [blank(value, bad) for value in values]
    return values, bad


def merge(one: Bad, other: Bad) -> Bad:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def blank(value: Value, rows: npt.NDArray[np.bool_]) -> Value:
    """`value` with NULL in `rows`; a scalar stays, the others blank the row."""
    if isinstance(value, pa.Scalar):
        return value
    return pc.if_else(pa.array(rows), pa.scalar(None, value.type), value)


def isolate(
    kernel: Kernel,
    values: Sequence[Value],
    rows: int,
    kind: pa.DataType,
    faults: Callable[..., npt.NDArray[np.bool_]] | None = None,
) -> tuple[Value, Bad]:
    """The kernel's result where it has one, NULL elsewhere, and the rows of elsewhere.

    By halving: at most twice as many calls as rows, and about log2(rows) for each row at fault.
    """
    if faults is not None:
        # A scalar at fault is at fault in every row, and only an array can be NULL in some.
        values = [spread(v, rows) for v in values]
        found = faults(*values)
        return kernel(*[blank(v, found) for v in values]), found
    bad = np.zeros(rows, dtype=np.bool_)
    pieces: list[pa.Array] = []
    pending = [(0, rows)]
    while pending:
        start, stop = pending.pop()
        part = [v if isinstance(v, pa.Scalar) else v.slice(start, stop - start) for v in values]
        try:
            pieces.append(spread(kernel(*part), stop - start))
        except FAULTS as fault:
            if stop - start == 1 or isinstance(fault, EvalLimit):
                bad[start:stop] = True
                pieces.append(pa.nulls(stop - start, kind))
            else:
                middle = (start + stop) // 2
                pending += [(middle, stop), (start, middle)]
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, kind), bad


def spread(value: Value, rows: int) -> pa.Array:
    """A value as an array of `rows` values."""
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


class Try:
    """`try(x)`: NULL where x has no result."""

    __slots__ = ("arg", "constant", "type")

    def __init__(self, arg: Node) -> None:
        self.arg = arg
        self.type = arg.type
        self.constant = None

    def run(self, frame: Frame) -> Value:
        try:
            return self.arg.run(frame)
        except FAULTS:
            return self.careful(frame)[0]

    def careful(self, frame: Frame) -> tuple[Value, Bad]:
        value, bad = self.arg.careful(frame)
        if bad is None:
            return value, None
        return blank(spread(value, frame.data.num_rows), bad), None
