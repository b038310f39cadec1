"""WITH RECURSIVE as opgraphs that feed each other (PIER 3.3.3).

Rows found go into one namespace, placed by all their columns, so equal rows meet at one owner, which passes each on
once (UNION) or every time (UNION ALL). What it passes on is part of the result and goes through the step, whose rows
go into the same namespace. The opgraphs of the circle are complete together, when nothing is on its way any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from query.plan import Field
from ufl.sql.fragments import Fragment
from ufl.sql.relations import Recursive

if TYPE_CHECKING:
    from ufl.sql.lowering import Lowering


def recursive(lowering: Lowering, relation: Recursive) -> Fragment:
    builder = lowering.builder
    names = relation.names
    keys = [Field(name) for name in names]
    rows, result = builder.namespace("found"), builder.namespace("result")
    builder.put(builder.narrow(lowering.lower(relation.base, names), names), rows, keys)
    circle = builder.take_up(rows, names, keys)
    if relation.distinct:
        builder.add(circle, "new", "dupelim", "Basic")
    builder.add(circle, "copy", "tee", "Basic")
    builder.put_beside(circle, result, keys)
    inside = zip(relation.found.shape, names, strict=True)
    circle = builder.project(circle, {column.name: Field(name) for column, name in inside})
    lowering.found.append((relation.found, circle))
    step = builder.narrow(lowering.lower(relation.step, names), names)
    builder.put(step, rows, keys)
    builder.note("WITH RECURSIVE: rows found go round until no node finds new ones")
    return builder.take_up(result, names, keys)
