"""Pairs of rows as rows of the result: which columns, under which names, and whether the further condition holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from query.batch import Batch, SchemaId, schema_id
from query.dataflow.evaluate import Evaluator
from query.dataflow.operator import Operator
from query.expr import MissingColumn, TypeClash
from query.operators.join.settings import unseen
from query.operators.selection.predicate import condition_expression

#: Pairs of schemas whose result schema is remembered; more are worked out again.
SHAPES_MAX = 256


class _Shape(NamedTuple):
    left: list[int]
    right: list[int]
    schema: pa.Schema
    id: SchemaId


class Pairs:
    """Makes result rows of one join."""

    def __init__(self, operator: Operator) -> None:
        options = operator.options
        self._options = options
        self._shapes: dict[tuple[SchemaId, SchemaId], _Shape] = {}
        condition = condition_expression(operator.spec.predicates, options["where"])
        self._condition = None if condition is None else Evaluator(operator, [condition])
        self._unseen = [unseen(options, "left"), unseen(options, "right")]

    @property
    def conditional(self) -> bool:
        """Whether equal keys are not all that a pair needs."""
        return self._condition is not None

    def pair(self, left: Batch, right: Batch) -> tuple[Batch, npt.NDArray[np.int64] | None]:
        """The result of pairing rows one by one, and which of them satisfied the condition; None: all."""
        rows = self._glue(left, right)
        if self._condition is None:
            return rows, None
        # The condition may drop rows; their places say which pairs are left.
        places = pa.array(np.arange(rows.num_rows))
        numbered = Batch(rows.table, rows.data.append_column("", places))
        numbered, (keep,) = self._condition(numbered)
        kept = numbered.take(pc.fill_null(keep, False))
        where: npt.NDArray[np.int64] = kept.data.column(kept.data.num_columns - 1).to_numpy()
        return rows if len(where) == rows.num_rows else _rows(rows, where), where

    def alone(self, batch: Batch, side: int, other: Batch | None) -> Batch:
        """Rows of one side without a partner; the columns of the other, known from `other`, are NULL."""
        schema = self._unseen[1 - side] if other is None else other.schema
        data = pa.RecordBatch.from_arrays([pa.nulls(batch.num_rows, f.type) for f in schema], schema=schema)
        missing = Batch(batch.table, data)
        return self._glue(missing, batch) if side else self._glue(batch, missing)

    def _glue(self, left: Batch, right: Batch) -> Batch:
        key = (left.schema_id, right.schema_id)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shape(left.schema, right.schema)
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            self._shapes[key] = shape
        columns = [left.data.column(place) for place in shape.left]
        columns += [right.data.column(place) for place in shape.right]
        table = self._options["table"] or left.table or right.table
        return Batch(table, pa.RecordBatch.from_arrays(columns, schema=shape.schema), shape.id)

    def _shape(self, left: pa.Schema, right: pa.Schema) -> _Shape:
        options = self._options
        lefts = _places(left, options["leftcolumns"], options["leftname"])
        rights = _places(right, options["rightcolumns"], options["rightname"])
        left_names = [left.field(place).name for place in lefts]
        right_names = [right.field(place).name for place in rights]
        every = options["qualify"] == "all"
        shared = set(left_names) & set(right_names)
        names = [
            *(f"{options['leftname']}.{n}" if every or n in shared else n for n in left_names),
            *(f"{options['rightname']}.{n}" if every or n in shared else n for n in right_names),
        ]
        if len(set(names)) < len(names):
            raise TypeClash("the result of the join would have two columns of one name")
        kinds = [*(left.field(p).type for p in lefts), *(right.field(p).type for p in rights)]
        schema = pa.schema([pa.field(name, kind) for name, kind in zip(names, kinds, strict=True)])
        return _Shape(lefts, rights, schema, schema_id(schema))


def _places(schema: pa.Schema, wanted: Sequence[str] | None, side: str) -> list[int]:
    if wanted is None:
        return list(range(len(schema)))
    known = set(schema.names)
    for name in wanted:
        if name not in known:
            raise MissingColumn(f"no column {name!r} on the {side} side of the join")
    return [schema.get_field_index(name) for name in wanted]


def _rows(batch: Batch, places: npt.NDArray[np.int64]) -> Batch:
    return Batch(batch.table, batch.data.take(pa.array(places)), batch.schema_id)
