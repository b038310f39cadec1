"""Plans as their operators read them: one spelling for what UFL lets an author spell in several ways.

UFL takes the names of settings, of implementations and of choices in any case, and a type without an implementation.
Everything that looks at a plan before its operators do (stages, aims, rights) would have to know that; instead a plan
is written in one way before it goes anywhere, and what it reads and writes is asked of the operators' own classes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from query.dataflow.check import OPGRAPH_OPTIONS
from query.dataflow.operator import Operator as OperatorClass
from query.dataflow.registry import find
from query.dataflow.settings import normalised, read
from query.plan import Operator, Opgraph, Plan


def normal(plan: Plan) -> Plan:
    """The plan in one spelling. It has no problems (`query.dataflow.check.operator_problems`)."""
    return Plan(tuple(_opgraph(each) for each in plan.opgraphs))


def read_by(plan: Plan) -> Iterator[str]:
    """Namespaces of the DHT that the operators of a plan read."""
    for kind, options in _at_work(plan):
        yield from kind.reads(options)


def tables_of(plan: Plan) -> list[str]:
    """Tables that a plan reads and does not make itself, each once."""
    own = set(written_by(plan))
    named = {table: None for kind, options in _at_work(plan) for table in kind.tables(options)}
    return [table for table in named if table not in own]


def written_by(plan: Plan) -> Iterator[str]:
    """Namespaces of the DHT that the operators of a plan put into or describe."""
    for kind, options in _at_work(plan):
        yield from kind.writes(options)


def _opgraph(opgraph: Opgraph) -> Opgraph:
    return msgspec.structs.replace(
        opgraph,
        settings=normalised(OPGRAPH_OPTIONS, opgraph.settings),
        operators=tuple(_operator(each) for each in opgraph.operators),
    )


def _operator(operator: Operator) -> Operator:
    kind = _class_of(operator)
    return msgspec.structs.replace(
        operator,
        implementation=kind.IMPLEMENTATION,
        settings=normalised(kind.OPTIONS, operator.settings),
    )


def _at_work(plan: Plan) -> Iterator[tuple[type[OperatorClass], dict[str, Any]]]:
    """Each operator's class, with the options exactly as an instance of it would read them."""
    for opgraph in plan.opgraphs:
        for operator in opgraph.operators:
            kind = _class_of(operator)
            yield kind, read(kind.OPTIONS, operator.settings)


def _class_of(operator: Operator) -> type[OperatorClass]:
    kind = find(operator.type, operator.implementation)
    assert kind is not None, f"an unchecked plan: {operator.type} {operator.implementation}"
    return kind
