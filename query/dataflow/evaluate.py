"""Expressions of an operator, evaluated on a batch: rows without a result are dropped and counted.

A batch that lacks a column or has the wrong type fails whole (`ExprError`, which the operator's base counts); a row
whose data has no result, as a number too large, goes alone (PIER 3.3.7: best effort, never silent).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from query.batch import Batch
from query.causes import Cause
from query.dataflow.operator import Operator
from query.expr import Context as ExprContext
from query.expr import ExprCache
from query.plan import Expression


class Evaluator:
    """Some expressions of one operator."""

    __slots__ = ("_caches", "_context", "_operator")

    def __init__(self, operator: Operator, expressions: Sequence[Expression]) -> None:
        self._operator = operator
        self._caches = [ExprCache(expression) for expression in expressions]
        self._context = ExprContext(operator.context.time_us)

    def types(self, batch: Batch) -> list[pa.DataType]:
        """The types of the results for batches of this schema."""
        return [cache.get(batch).type for cache in self._caches]

    def __call__(self, batch: Batch) -> tuple[Batch, list[pa.Array]]:
        """The rows that have a result for every expression, and the results."""
        columns, bad = self._evaluate(batch)
        if bad is not None:
            self._operator.drop(pc.sum(bad).as_py(), "no result for this row", Cause.UNFIT)
            good = pc.invert(bad)
            batch = batch.take(good)
            columns = [column.filter(good) for column in columns]
        return batch, columns

    def _evaluate(self, batch: Batch) -> tuple[list[pa.Array], pa.Array | None]:
        columns: list[pa.Array] = []
        bad: pa.Array | None = None
        for cache in self._caches:
            column, failed = cache.get(batch).evaluate(batch.data, self._context)
            columns.append(column)
            if failed is not None:
                bad = failed if bad is None else pc.or_(bad, failed)
        return columns, bad
