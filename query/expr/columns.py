"""Arrow columns seen as numpy arrays, and the other way round, for work that Arrow has no kernel for.

Two devices keep Python out of the common path: numpy over whole columns, and `map_unique`, which calls a
Python function once for each distinct value of a column.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from query.expr.errors import EvalError
from query.expr.nodes import Kernel, Value, spread

INTERVAL_DTYPE = np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")])
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[Any]


def whole(kernel: Kernel) -> Kernel:
    """A kernel over arrays that also takes scalars: they are spread, or, alone, computed as one row."""

    @wraps(kernel)
    def run(*values: Value) -> Value:
        rows = next((len(v) for v in values if not isinstance(v, pa.Scalar)), None)
        if rows is None:
            return kernel(*[pa.repeat(v, 1) for v in values])[0]
        return kernel(*[spread(v, rows) for v in values])

    return run


def numbers(column: pa.Array, dtype: Any = np.int64) -> Numbers:
    """The values of a fixed-width column as they lie in memory; rows that are NULL hold anything."""
    data = column.buffers()[1]
    if data is None:
        return np.zeros(len(column), dtype=dtype)
    view: Numbers = np.frombuffer(data, dtype=dtype, count=column.offset + len(column))[column.offset :]
    return view


def nulls(*columns: pa.Array) -> Mask | None:
    """The rows where any of the columns is NULL; None when there are none."""
    found: Mask | None = None
    for column in columns:
        if column.null_count:
            here: Mask = column.is_null().to_numpy(zero_copy_only=False)
            found = here if found is None else found | here
    return found


def column_of(values: Numbers, kind: pa.DataType, null: Mask | None = None) -> pa.Array:
    """Numbers as a column of `kind`, whose values have the same width."""
    values = np.ascontiguousarray(values)
    validity = None if null is None else pa.array(~null).buffers()[1]
    return pa.Array.from_buffers(kind, len(values), [validity, pa.py_buffer(values.data)])


def map_unique(column: pa.Array, function: Callable[[Any], Any], kind: pa.DataType) -> pa.Array:
    """`function` of every value, called once a distinct value; NULL stays NULL, as does a None result."""
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    results = pa.array([function(v) for v in encoded.dictionary.to_pylist()], type=kind)
    return results.take(encoded.indices)


def row_wise(function: Callable[..., Any], kind: pa.DataType) -> Kernel:
    """A kernel that calls a Python function row by row: for arguments that are rarely columns."""

    @whole
    def run(*columns: pa.Array) -> pa.Array:
        rows = zip(*[c.to_pylist() for c in columns], strict=True)
        return pa.array([None if None in row else function(*row) for row in rows], type=kind)

    return run


def require(good: Value, message: str) -> None:
    """Raises EvalError unless every row that is not NULL is good."""
    verdict = good if isinstance(good, pa.Scalar) else pc.all(good)
    if verdict.as_py() is False:
        raise EvalError(message)
