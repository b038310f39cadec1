"""What can be said against expressions before any data is seen: functions that do not exist, calls with too many or
too few arguments, literals that their type cannot hold. Columns and types show when data arrives.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from query.expr import compile_expression
from query.expr.errors import ExprError
from query.expr.registry import lookup
from query.plan import QUERY_ID, QUERY_TIME, Array, Constant, Expression, Function, Operator, Setting, Table
from query.plan_problem import Place, Problem

#: Here the outermost function is an aggregate, which the group-by checks itself.
AGGREGATES = "aggregates"
_NO_COLUMNS = pa.schema([])


def expression_problems(operator: Operator, place: Place) -> Iterator[Problem]:
    """Problems of all expressions of an operator, in the order of its settings."""
    for name, setting in operator.settings.items():
        for item, value in _items(setting):
            if isinstance(value, Function) and name == AGGREGATES:
                for argument in value.args:
                    yield from _problems(argument, place.at(name, item))
            elif isinstance(value, Constant | Function):
                yield from _problems(value, place.at(name, item))
    for number, predicate in enumerate(operator.predicates):
        where = place.in_predicate(number)
        if predicate.left is not None:
            yield from _problems(predicate.left, where.at("leftexpression"))
        if predicate.right is not None:
            yield from _problems(predicate.right, where.at("rightexpression"))


def _items(setting: Setting) -> Iterator[tuple[int | str | None, object]]:
    if isinstance(setting, Array):
        yield from enumerate(setting.items)
    elif isinstance(setting, Table):
        yield from setting.items.items()
    else:
        yield None, setting


def _problems(expression: Expression, place: Place) -> Iterator[Problem]:
    """The first problem of an expression."""
    frontier = [expression]
    while frontier:
        part = frontier.pop()
        if isinstance(part, Function):
            frontier.extend(reversed(part.args))
        try:
            _check(part)
        except ExprError as error:
            yield Problem(place, str(error))
            return


def _check(part: Expression) -> None:
    if isinstance(part, Constant):
        # What stands for the query's id and time is not there yet.
        if QUERY_ID not in part.text and QUERY_TIME not in part.text:
            compile_expression(part, _NO_COLUMNS)
    elif isinstance(part, Function):
        spec = lookup(part.name)
        if len(part.args) < spec.least or (spec.most is not None and len(part.args) > spec.most):
            raise ExprError(f"{spec.name}{spec.signature} was given {len(part.args)} arguments")
