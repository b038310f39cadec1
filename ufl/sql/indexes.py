"""Indexes in SQL: CREATE INDEX and DROP INDEX as plans, and which index answers a condition (PIER 3.3.3).

    CREATE INDEX by_port ON flows (dpt) USING pht       in order: = < <= > >= BETWEEN
    CREATE INDEX by_src ON flows (src) USING hash       equality
    DROP INDEX by_port

An index is used for a table that lies in the DHT alone, when the condition says a value of the column or bounds it on
both sides: fewer rows than that are better asked of everybody. It is a little behind its table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from query.engine.facts import IndexFacts
from query.expr import ExprError, literal
from query.expr.coerce import common_number, convert, is_number
from query.expr.errors import EvalError
from query.expr.nodes import Literal
from query.index.keys import HASH, PHT, USINGS, can_index
from query.plan import Array, Constant, Expression, Field, Function, Setting
from query.plan_hints import did_you_mean, quoted
from ufl.sql.errors import Refused
from ufl.sql.fragments import ASKER, Builder, Fragment
from ufl.sql.relations import Scan, conjuncts
from ufl.sql.tables import TableInfo

if TYPE_CHECKING:
    from query.plan import Plan

_NAME = r'(?:"([^"]+)"|(\w+))'
_CREATE = re.compile(
    rf"\s*create\s+index\s+{_NAME}\s+on\s+{_NAME}\s*(?:using\s+(\w+)\s*)?\(\s*{_NAME}\s*\)\s*(?:using\s+(\w+))?$",
    re.IGNORECASE,
)
_DROP = re.compile(rf"\s*drop\s+index\s+(if\s+exists\s+)?{_NAME}$", re.IGNORECASE)
_BEGINS = re.compile(r"\s*(create|drop)\s+index\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Statement:
    """CREATE INDEX, or DROP INDEX when there is no table."""

    name: str
    table: str = ""
    column: str = ""
    using: str = ""
    if_exists: bool = False


def statement(text: str) -> Statement | None:
    """The statement that a text is; None if it is about something else."""
    if not _BEGINS.match(text):
        return None
    # What may end a statement is taken off first: a pattern would try every way to share out its blanks.
    text = text.rstrip().removesuffix(";").rstrip()
    made = _CREATE.match(text)
    if made is not None:
        g = made.groups()
        using = (g[4] or g[7] or PHT).lower()
        if using not in USINGS:
            known = "there is " + " and ".join(USINGS)
            raise Refused(
                f"there is no kind of index {quoted(using)}",
                None,
                did_you_mean(using, USINGS, known),
                word=using,
            )
        return Statement(g[0] or g[1], g[2] or g[3], g[5] or g[6], using)
    gone = _DROP.match(text)
    if gone is not None:
        return Statement(gone.group(2) or gone.group(3), if_exists=bool(gone.group(1)))
    raise Refused(
        "this is no statement about an index",
        None,
        "CREATE INDEX name ON table (column) USING pht, or DROP INDEX name",
    )


def plan_of(made: Statement, query_id: str, tables: Mapping[str, TableInfo]) -> Plan:
    """One opgraph at the node that was asked; its row says what was done."""
    builder = Builder(query_id)
    if made.table:
        table, settings = _created(made, tables)
        says = f"index {made.name} on {table}({settings['column']}) using {made.using}"
    else:
        table = _indexed(made, tables)
        settings, says = {}, f"index {made.name} dropped" if table else f"there is no index {made.name}"
    row = Array((Constant(says, "string"),))
    fragment = builder.source(ASKER, "values", "scan", "Values", columns=Array(("done",)), values=row)
    if table:
        builder.add(fragment, "define", "put", "Index", ns=table, index=made.name, **settings)
    builder.add(fragment, "answer", "result", "NetSend", table="result")
    builder.close(fragment)
    return builder.plan()


def _created(made: Statement, tables: Mapping[str, TableInfo]) -> tuple[str, dict[str, Setting]]:
    match = next((name for name in tables if name.lower() == made.table.lower()), None)
    if match is None:
        hint = did_you_mean(made.table, tables, "SHOW TABLES lists them")
        raise Refused(f"no node knows a table {quoted(made.table)}", None, hint, word=made.table)
    info = tables[match]
    if info.kinds != ("published",):
        message = f"{match} is not, or not only, a published table"
        raise Refused(
            message,
            None,
            "pier publish puts rows into the ring; nodes' own files are read anyway",
            word=made.table,
        )
    column = next((name for name in info.columns if name.lower() == made.column.lower()), None)
    if column is None:
        known = "there is " + ", ".join(info.columns)
        raise Refused(
            f"no column {quoted(made.column)} in {match}",
            None,
            did_you_mean(made.column, info.columns, known),
            word=made.column,
        )
    kind = info.columns[column]
    if kind is None or not can_index(kind):
        raise Refused(f"column {quoted(column)} is of a type that cannot be indexed", None, word=made.column)
    if any(each.name.lower() == made.name.lower() for other in tables.values() for each in other.indexes):
        raise Refused(
            f"there is an index {quoted(made.name)} already", None, "DROP INDEX takes it away", word=made.name
        )
    return match, {"column": column, "using": made.using}


def _indexed(made: Statement, tables: Mapping[str, TableInfo]) -> str:
    """The table that has the index."""
    for table, info in tables.items():
        if any(each.name.lower() == made.name.lower() for each in info.indexes):
            return table
    if made.if_exists:
        return ""
    known = [each.name for info in tables.values() for each in info.indexes]
    listed = "there is " + ", ".join(known) if known else "there are none"
    raise Refused(
        f"there is no index {quoted(made.name)}", None, did_you_mean(made.name, known, listed), word=made.name
    )


def indexed(builder: Builder, scan: Scan, condition: Expression) -> Fragment | None:
    """The table read through an index at the node that was asked, if one answers the condition."""
    info = scan.info
    if info is None or scan.places != ("published",):
        return None
    for index in sorted(usable(info), key=lambda each: (each.using != HASH, each.name)):
        bounds = _bounds(index, info.columns.get(index.column), conjuncts(condition))
        if bounds is None:
            continue
        low, high = bounds
        builder.note(
            f"{scan.table}: index {index.name} on {index.column} ({index.using}) finds the keys of its rows, "
            "which the node that was asked fetches"
        )
        return builder.source(
            ASKER,
            "indexed",
            "scan",
            "Index",
            ns=scan.table,
            index=index.name,
            mark=index.mark,
            using=index.using,
            low=low,
            high=high,
        )
    return None


def usable(info: TableInfo) -> list[IndexFacts]:
    """The indexes that are known to have every row."""
    return [each for each in info.indexes if each.whole]


def _bounds(
    index: IndexFacts, kind: pa.DataType | None, conditions: Sequence[Expression]
) -> tuple[Constant, Constant] | None:
    """The least and the largest value of the column under the conditions, both included; None when one is unknown."""
    if kind is None or not can_index(kind):
        return None
    low: list[Constant] = []
    high: list[Constant] = []
    for condition in conditions:
        for name, constant in compared(index.column, condition):
            bound = of_kind(kind, constant)
            if bound is None:
                continue
            if name == "equal":
                return bound, bound
            (low if name.startswith("greater") else high).append(bound)
    if index.using == HASH or not low or not high:
        return None
    # Any bound is right, since the condition itself is tested again; the first is taken.
    return low[0], high[0]


_TURNED = {
    "less": "greater",
    "less_equal": "greater_equal",
    "greater": "less",
    "greater_equal": "less_equal",
    "equal": "equal",
}


def compared(column: str, condition: Expression) -> list[tuple[str, Constant]]:
    """How a condition compares the column with constants."""
    if not isinstance(condition, Function):
        return []
    if condition.name == "between" and condition.args[0] == Field(column):
        low, high = condition.args[1:]
        return [
            (name, bound)
            for name, bound in (("greater_equal", low), ("less_equal", high))
            if isinstance(bound, Constant)
        ]
    if condition.name not in _TURNED:
        return []
    name, (one, other) = condition.name, condition.args
    if isinstance(one, Constant):
        name, one, other = _TURNED[name], other, one
    return [(name, other)] if one == Field(column) and isinstance(other, Constant) else []


def of_kind(kind: pa.DataType, constant: Constant) -> Constant | None:
    """A constant as one that has the same key as equal values of a column; None when there is none."""
    try:
        value = literal(constant)
    except ExprError:
        return None
    types = pa.types
    if not value.is_valid:
        return None
    if types.is_floating(kind):
        return _float_of(kind, value)
    if types.is_integer(value.type) and not types.is_integer(kind):
        return None
    if types.is_integer(value.type) and not -(1 << 63) <= value.as_py() < 1 << 63:
        return None
    for test in (types.is_integer, types.is_string, types.is_boolean):
        if test(kind):
            return constant if test(value.type) else None
    return constant if value.type == kind else None


def _float_of(kind: pa.DataType, value: pa.Scalar) -> Constant | None:
    """A number as it is compared with floats of a width: rounded to theirs, or they are made doubles as it is."""
    if not is_number(value.type):
        return None
    try:
        rounded = convert(Literal(value), common_number([kind, value.type])).constant
    except (ExprError, EvalError):
        return None
    return None if rounded is None else Constant(repr(rounded.as_py()), "double")
