"""Selection, Basic: evaluates a predicate against tuples and keeps those for which it is true (PIER Table 3.3).

The predicate is given as predicate objects, or as one expression of type bool in the setting `where`, or both.
"""

from __future__ import annotations

from typing import ClassVar

from query.batch import Batch
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.operators.selection.predicate import condition_expression
from query.plan import Constant, Expression, fields_of


@register
class Selection(Operator):
    """Keeps the rows for which its predicates are true; NULL is not true."""

    TYPE = "selection"
    IMPLEMENTATION = "Basic"
    OPTIONS: ClassVar = (
        Option("where", "expression", "a condition, beside or in place of predicate objects"),
    )

    def open(self) -> None:
        self._evaluator = Evaluator(self, self._condition())

    def needs(self, port: int) -> frozenset[str]:
        return frozenset(fields_of(*self._condition()))

    def _condition(self) -> list[Expression]:
        condition = condition_expression(self.spec.predicates, self.options["where"])
        return [Constant("true", "bool") if condition is None else condition]

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, (keep,) = self._evaluator(batch)
        return self.emit(rows.take(keep), tag)
