"""A query as something to read: what was decided and why, the opgraphs as trees, and as UFL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import ufl.printer
from query.engine.stages import stages
from query.plan import Array, Constant, Expression, Field, Operator, Opgraph, Plan, Setting, Table
from ufl.sql.compiler import Compiled, Scalar, compile_sql
from ufl.sql.steps import STEPS_MAX
from ufl.sql.tables import TableInfo

#: Characters of a setting shown in a tree; the UFL has all of it.
SHOWN_CHARS = 100


def explain_sql(
    text: str,
    query_id: str,
    time_s: int,
    tables: Mapping[str, TableInfo] | None = None,
    params: Mapping[str, Scalar] | None = None,
    steps: int = STEPS_MAX,
) -> str:
    """How a query would run; raises UflError."""
    return described(compile_sql(text, query_id, time_s, tables, params, steps))


def described(compiled: Compiled) -> str:
    """A compiled query as text."""
    sections = [
        "-- asked: " + _asked(compiled.plan),
        *(f"-- {note}" for note in compiled.notes),
        "",
        *_tree(compiled.plan),
        "",
        ufl.printer.unparse(compiled.plan),
    ]
    return "\n".join(sections)


def _asked(plan: Plan) -> str:
    keys: dict[tuple[str, str], None] = {}
    asker = False
    for graph in plan.opgraphs:
        asker = asker or graph.settings.get("at") == "asker"
        rid, namespace = graph.settings.get("rid"), str(graph.settings.get("ns"))
        if rid is None and graph.settings.get("at") != "asker":
            return "every node"
        items = rid.items if isinstance(rid, Array) else () if rid is None else (rid,)
        keys.update(dict.fromkeys((namespace, str(each)) for each in items))
    if not keys:
        return "only the node that gets the query has something to do"
    if len(keys) == 1 and not asker:
        ((namespace, key),) = keys
        return f"one node, the owner of key {key!r} of {namespace}"
    listed = ", ".join(repr(key) for _, key in keys)
    itself = " and the node that gets the query" if asker else ""
    return f"few nodes, the owners of keys {listed} of {next(iter(keys))[0]}{itself}"


def _tree(plan: Plan) -> Iterator[str]:
    graphs = {graph.name: graph for graph in plan.opgraphs}
    for number, stage in enumerate(stages(plan), 1):
        again = ", repeated until no node finds anything new" if stage.cyclic else ""
        yield f"stage {number}{again}"
        for name in stage.opgraphs:
            graph = graphs[name]
            where = "at the node that was asked" if graph.settings.get("at") == "asker" else "on every node"
            if "rid" in graph.settings:
                several = isinstance(graph.settings["rid"], Array)
                where = "at the owners of the keys" if several else "at the owner of the key"
            yield f"  {name}, {where}"
            yield from _operators(graph)


def _operators(graph: Opgraph) -> Iterator[str]:
    by_name = {operator.name: operator for operator in graph.operators}
    fed = {source for operator in graph.operators for source in operator.sources}
    seen: set[str] = set()
    frontier = [(operator.name, 2) for operator in reversed(graph.operators) if operator.name not in fed]
    frontier.reverse()
    while frontier:
        name, depth = frontier.pop()
        operator = by_name[name]
        if name in seen:
            yield "  " * depth + f"(rows of {name}, as above)"
            continue
        seen.add(name)
        yield "  " * depth + _line(operator)
        frontier.extend((source, depth + 1) for source in reversed(operator.sources))


def _line(operator: Operator) -> str:
    settings = [f"{key} {_shown(setting)}" for key, setting in operator.settings.items()]
    what = (
        operator.type if operator.implementation == "Basic" else f"{operator.type} {operator.implementation}"
    )
    return f"{operator.name}: {what} {'; '.join(settings)}".rstrip()


def _shown(setting: Setting) -> str:
    if isinstance(setting, Array):
        text = ", ".join(_value(item) for item in setting.items if item is not None)
    elif isinstance(setting, Table):
        text = ", ".join(f"{name} = {_value(item)}" for name, item in setting.items.items())
    else:
        text = _value(setting)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _value(value: str | Expression) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Field):
        return value.name
    if isinstance(value, Constant):
        return "NULL" if value.type == "null" else value.text if value.type != "string" else repr(value.text)
    return f"{value.name}({', '.join(_value(argument) for argument in value.args)})"
