"""A plan to its text: one way to write each plan, which parses back to the same plan.

Used to show plans (EXPLAIN, `pier queries`) and to store them. Objects are indented, settings keep the
order of the plan, texts go without quotes where the grammar allows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from query.plan import (
    Array,
    Constant,
    Expression,
    Field,
    Operator,
    Opgraph,
    Plan,
    Predicate,
    Setting,
    Table,
    Value,
)
from query.plan_check import require_well_formed
from query.plan_problem import Place, PlanError, Problem
from ufl.limits import TEXT_BYTES_MAX
from ufl.literals import encode, is_text_string

_INDENT = "    "


def unparse(plan: Plan) -> str:
    """The text of a plan. Raises PlanError for a plan that no text describes."""
    require_well_formed(plan)
    text = "\n\n".join("\n".join(_opgraph_lines(opgraph)) for opgraph in plan.opgraphs) + "\n"
    if len(text.encode()) > TEXT_BYTES_MAX:
        problem = Problem(Place(), f"the text would be larger than {TEXT_BYTES_MAX} bytes (TEXT_BYTES_MAX)")
        raise PlanError(problem, plan)
    return text


def _opgraph_lines(opgraph: Opgraph) -> Iterator[str]:
    settings = list(_settings_lines(opgraph.settings))
    inner = [list(_operator_lines(operator)) for operator in opgraph.operators]
    return _object_lines("opgraph", opgraph.name, settings, inner)


def _operator_lines(operator: Operator) -> Iterator[str]:
    settings = [f"type = {operator.type}"]
    if operator.implementation:
        settings.append(f"implementation = {_text(operator.implementation)}")
    settings.extend(_names_lines("sources", operator.sources))
    settings.extend(_settings_lines(operator.settings))
    inner = [list(_predicate_lines(predicate)) for predicate in operator.predicates]
    return _object_lines("operator", operator.name, settings, inner)


def _predicate_lines(predicate: Predicate) -> Iterator[str]:
    settings = [f"type = {predicate.type}"]
    if predicate.left is not None:
        settings.append(f"leftexpression = {_expression(predicate.left)}")
    if predicate.op:
        settings.append(f"op = {_text(predicate.op)}")
    if predicate.right is not None:
        settings.append(f"rightexpression = {_expression(predicate.right)}")
    settings.extend(_names_lines("predicates", predicate.members))
    return _object_lines("predicate", predicate.name, settings, [])


def _object_lines(kind: str, name: str, settings: list[str], inner: list[list[str]]) -> Iterator[str]:
    yield f"%{kind}({_text(name)}) {{"
    for setting in settings:
        yield _INDENT + setting
    blank = bool(settings)
    for lines in inner:
        if blank:
            yield ""
        for line in lines:
            yield _INDENT + line if line else ""
        blank = True
    yield "}"


def _names_lines(key: str, names: Iterable[str]) -> Iterator[str]:
    for number, name in enumerate(names):
        yield f"{key}[{number}] = {_text(name)}"


def _settings_lines(settings: Mapping[str, Setting]) -> Iterator[str]:
    for name, setting in settings.items():
        key = _text(name)
        if isinstance(setting, Array):
            yield from _array_lines(key, setting)
        elif isinstance(setting, Table):
            yield from _table_lines(key, setting)
        else:
            yield f"{key} = {_value(setting)}"


def _array_lines(key: str, array: Array) -> Iterator[str]:
    if not array.items:
        yield f"{key} = []"
    for number, value in enumerate(array.items):
        if value is not None:
            yield f"{key}[{number}] = {_value(value)}"


def _table_lines(key: str, table: Table) -> Iterator[str]:
    first = next(iter(table.items), "")
    if first.removeprefix("-").isdigit() or not table.items:
        yield f'{key}[*] = ""'
    for name, value in table.items.items():
        index = '"*"' if name == "*" else _text(name)
        yield f"{key}[{index}] = {_value(value)}"


def _value(value: Value) -> str:
    return _text(value) if isinstance(value, str) else _expression(value)


def _expression(expression: Expression) -> str:
    """Recurses no deeper than FUNCTION_DEPTH_MAX, which was checked."""
    if isinstance(expression, Constant):
        return f"{encode(expression.text)}::{_text(expression.type)}"
    if isinstance(expression, Field):
        return "$" + _text(expression.name)
    return f"{_text(expression.name)}({', '.join([_expression(argument) for argument in expression.args])})"


def _text(text: str) -> str:
    return text if is_text_string(text) else encode(text)
