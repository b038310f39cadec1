"""Scan, Values: rows that the query itself spells out. An addition to PIER's operators, for SQL without FROM.

The rows are given value by value, row after row; each is an expression without columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from query import plan
from query.batch import Batch, type_name
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.dataflow.source import Lies, Source
from query.expr import Context, compile_expression
from query.expr.errors import EvalError, ExprError
from query.plan import Constant, Expression, Function

#: One row to evaluate constants in.
_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], names=[""])


@register
class ScanValues(Source):
    """Rows of constants."""

    TYPE = "scan"
    IMPLEMENTATION = "Values"
    LIES = Lies.PLAN
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("columns", "texts", "the names of the columns", required=True),
        Option("values", "expressions", "the values, row after row", ()),
        Option("table", "text", "the table name of the rows", "values"),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        columns, values = len(options["columns"]), len(options["values"])
        if columns == 0 or values % columns:
            raise SettingError("values", f"{values} values do not make rows of {columns} columns")

    def probe(self, probe: Probe) -> None:
        """Every set probe gets all rows; nothing ever arrives for a stream probe."""
        if probe.kind is not ProbeKind.STREAM:
            values: list[Expression] = list(self.options["values"])
            if values:
                self._deliver(values, probe.tag)
            self.deliver_end(probe.tag)

    def _deliver(self, values: list[Expression], tag: int) -> None:
        names = self.options["columns"]
        try:
            columns = [self._column(values[at :: len(names)]) for at in range(len(names))]
        except (ExprError, EvalError) as error:
            self.drop(len(values) // len(names), str(error), error.cause)
            return
        self.deliver(Batch(self.options["table"], pa.RecordBatch.from_arrays(columns, names=names)), tag)

    def _column(self, values: list[Expression]) -> pa.Array:
        """Values of one column, of the type that all of them have in common."""
        context = Context(self.context.time_us)
        kind = compile_expression(Function("coalesce", tuple(values)), _ROW.schema).type
        if pa.types.is_null(kind):
            return pa.nulls(len(values))
        target = Constant(type_name(kind), "string")
        cells = []
        for value in values:
            cell = compile_expression(Function("cast", (value, target)), _ROW.schema)
            cells.append(cell(_ROW, context))
        return pa.concat_arrays(cells)
