"""ORDER BY an indexed column LIMIT k: the first rows are read from the end of a Prefix Hash Tree where they are.

It works for one published table whose conditions all bound that column, or say that it is not NULL: NULLs are in no
index, and any other condition could leave out what the index finds. The scan reads on until it has k rows for certain
(`query.operators.scan.index`), and the sort above puts them in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from query.index.keys import PHT
from query.plan import Constant, Expression, Field, Function, Setting
from ufl.sql.fragments import ASKER, Builder, Fragment
from ufl.sql.indexes import compared, of_kind, usable
from ufl.sql.relations import Filter, Ordered, Project, Relation, Scan, conjuncts

#: Rows that are read through an index because they are the first; more are better asked of all nodes at once.
ROWS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class Leading:
    """The first rows by a column of a table are all that is wanted of a relation."""

    relation: Filter
    column: str
    descending: bool
    rows: int


def leading(ordered: Ordered) -> Leading | None:
    """What a sort with a limit wants of the table below it, if that is a table with a condition."""
    if ordered.limit is None or not ordered.keys or not 0 < ordered.limit + ordered.offset <= ROWS_MAX:
        return None
    key: Expression = ordered.keys[0].expression
    relation: Relation = ordered.source
    while isinstance(key, Field) and isinstance(relation, Project) and key.name in relation.outputs:
        key, relation = relation.outputs[key.name], relation.source
    if not isinstance(relation, Filter) or not isinstance(table := relation.source, Project):
        return None
    if not isinstance(key, Field) or key.name not in table.outputs or not isinstance(table.source, Scan):
        return None
    column = table.outputs[key.name]
    if not isinstance(column, Field):
        return None
    descending = ordered.keys[0].text.startswith("desc")
    return Leading(relation, column.name, descending, ordered.limit + ordered.offset)


def first_rows(builder: Builder, scan: Scan, condition: Expression, wanted: Leading) -> Fragment | None:
    """The table read from one end of an index on the column, at the node that was asked."""
    info = scan.info
    if info is None or scan.places != ("published",):
        return None
    indexes = [each for each in usable(info) if each.column == wanted.column and each.using == PHT]
    bounds = _bounds(wanted, scan, conjuncts(condition))
    if not indexes or bounds is None:
        return None
    end = "last" if wanted.descending else "first"
    builder.note(
        f"{scan.table}: index {indexes[0].name} on {wanted.column} (pht) finds the {end} {wanted.rows} rows, "
        "which the node that was asked fetches"
    )
    order = "desc" if wanted.descending else "asc"
    settings: dict[str, Setting] = {
        **bounds,
        "first": str(wanted.rows),
        "order": order,
        "column": wanted.column,
    }
    return builder.source(
        ASKER,
        "indexed",
        "scan",
        "Index",
        ns=scan.table,
        index=indexes[0].name,
        mark=indexes[0].mark,
        **settings,
    )


def _bounds(wanted: Leading, scan: Scan, conditions: list[Expression]) -> dict[str, Constant] | None:
    """The bounds of the column; None if a condition says anything else, leaves out the very value that is its bound
    where the rows begin, or is a second bound on one side: rows that the scan counts must not fall to a condition."""
    assert scan.info is not None, "asked before"
    kind = scan.info.columns.get(wanted.column)
    bounds: dict[str, Constant] = {}
    strict = "less" if wanted.descending else "greater"
    for condition in conditions:
        if _is_not_null(condition, wanted.column):
            continue
        said = compared(wanted.column, condition)
        if not isinstance(condition, Function) or len(said) != len(condition.args) - 1:
            return None
        for name, constant in said:
            bound = None if kind is None else of_kind(kind, constant)
            side = "low" if name.startswith("greater") else "high"
            if bound is None or side in bounds or name in (strict, "equal"):
                return None
            bounds[side] = bound
    return bounds


def _is_not_null(condition: Expression, column: str) -> bool:
    return condition == Function("not", (Function("is_null", (Field(column),)),))
