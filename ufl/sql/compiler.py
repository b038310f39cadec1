"""A text becomes a plan: the steps in their order, and the errors of all of them with their place in the text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import Dialect, exp
from sqlglot.errors import ErrorLevel, ParseError, TokenError

import query.operators  # noqa: F401  (makes the operators known, which check a plan's settings)
from query.batch import type_name
from query.dataflow.check import operator_problems
from query.plan import Constant, Plan
from query.plan_check import plan_problems
from query.plan_hints import did_you_mean, quoted
from ufl.errors import Source, UflError
from ufl.sql import indexes
from ufl.sql.binder import Binder
from ufl.sql.continuous import Repetition, repetition_of
from ufl.sql.dialect import Continuous
from ufl.sql.epochs import lower_epochs
from ufl.sql.errors import Refused, located, misread, unsupported
from ufl.sql.lowering import Lowering
from ufl.sql.relations import Column, Relation, Values
from ufl.sql.steps import STEPS_MAX, Steps, TooManySteps
from ufl.sql.tables import TableInfo
from ufl.sql.understood import require_understood

Scalar: TypeAlias = str | int | float | bool | None

_EXPLAIN = re.compile(r"\s*explain\s+", re.IGNORECASE)
#: SQL texts longer than this are refused before anything else is done with them,
TEXT_CHARS_MAX = 1 << 20
#: and so are those of more words and signs before they are parsed: sqlglot needs about a kilobyte and 15 µs for each.
TOKENS_MAX = 50_000
#: Words and signs that take as long to parse as a step of planning takes.
TOKENS_A_STEP = 4


@dataclass(frozen=True, slots=True)
class Compiled:
    """A plan, and what was decided on the way to it."""

    plan: Plan
    notes: tuple[str, ...]
    relation: Relation
    #: What its author should know about the answer.
    remarks: tuple[str, ...] = ()
    #: How a continuous query is repeated; None for one that is asked once.
    repetition: Repetition | None = None
    #: Tables that it names and that are not among those known.
    unknown: tuple[str, ...] = ()


def compile_sql(
    text: str,
    query_id: str,
    time_s: int,
    tables: Mapping[str, TableInfo] | None = None,
    params: Mapping[str, Scalar] | None = None,
    steps: int = STEPS_MAX,
) -> Compiled:
    """The plan of a SQL query; raises UflError. `tables` is what the catalog knows, None if it was not asked;
    `params` are the values of `$name` in the text. One that takes more than `steps` to plan raises `TooLarge`."""
    require_short(text)
    explained = _EXPLAIN.match(text)
    if explained is not None:
        return _explained(text, explained.end(), query_id, time_s, tables, params, steps)
    try:
        made = indexes.statement(text)
        if made is not None:
            return Compiled(indexes.plan_of(made, query_id, tables or {}), (), Values([], [[]]))
        counted = Steps(steps)
        return _compiled(_filled(_parsed(text, counted), params or {}), query_id, tables, counted)
    except TooManySteps as error:
        raise TooLarge.of(located(text, error)) from None
    except (ParseError, TokenError) as error:
        raise misread(text, error) from None
    except Refused as error:
        raise located(text, error) from None
    except RecursionError:
        raise Source(text).error("the query is nested too deep", 0) from None


class TooManyTokens(Refused):
    """It is long enough to be told at once: to take it apart takes a second or two."""


class TooLarge(UflError):
    """The query takes more work to plan than it was given; the query itself may be in order."""

    @classmethod
    def of(cls, error: UflError) -> TooLarge:
        return cls(error.message, error.line, error.column, error.shown, error.hint)


def require_short(text: str) -> None:
    """Raises UflError for a text that is too long to be looked at."""
    if len(text) > TEXT_CHARS_MAX:
        raise Source(text).error(f"the text is longer than {TEXT_CHARS_MAX} characters (TEXT_CHARS_MAX)", 0)


def tables_named(text: str, steps: int = STEPS_MAX) -> Collection[str] | None:
    """The tables that a text names; None when it is about all there are, nothing when it cannot be read. Raises
    UflError for a text that is too long to be looked at."""
    require_short(text)
    explained = _EXPLAIN.match(text)
    try:
        if indexes.statement(text) is not None:
            return None
        tree = _parsed(text if explained is None else text[explained.end() :], Steps(steps))
    except TooManySteps as error:
        raise TooLarge.of(located(text, error)) from None
    except TooManyTokens as error:
        raise located(text, error) from None
    except (ParseError, TokenError, Refused, RecursionError):
        return ()
    if isinstance(tree, exp.Show):
        return None
    queries = [(cte.alias.lower(), cte) for cte in tree.find_all(exp.CTE)]
    names = {
        table.name: None
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier)
        # A name given in WITH is a table only inside its own definition.
        and all(name != table.name.lower() or _is_inside(table, cte) for name, cte in queries)
    }
    return [name for name in names if name]


def _is_inside(node: exp.Expr, around: exp.Expr) -> bool:
    parent = node.parent
    while parent is not None and parent is not around:
        parent = parent.parent
    return parent is not None


def _explained(
    text: str,
    start: int,
    query_id: str,
    time_s: int,
    tables: Mapping[str, TableInfo] | None,
    params: Mapping[str, Scalar] | None,
    steps: int,
) -> Compiled:
    """EXPLAIN as a query: how the rest would run, a line a row."""
    from ufl.sql.explain import described

    # Blanks in place of the word, so that mistakes keep their places.
    inner = compile_sql(" " * start + text[start:], query_id, time_s, tables, params, steps)
    rows = [(line,) for line in described(inner).splitlines()]
    lowering = Lowering(query_id)
    relation = _rows(("plan",), rows)
    lowering.root(relation)
    return Compiled(lowering.builder.plan(), (), relation)


def _parsed(text: str, steps: Steps) -> exp.Expr:
    dialect = Dialect.get_or_raise("pier")
    tokens = dialect.tokenize(text)
    if len(tokens) > TOKENS_MAX:
        raise TooManyTokens(f"the text has more than {TOKENS_MAX} words and signs (TOKENS_MAX)", None)
    steps.spend(len(tokens) // TOKENS_A_STEP)
    statements = [
        each
        for each in dialect.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
        if each is not None and not isinstance(each, exp.Semicolon)
    ]
    if not statements:
        raise Refused("the query is empty", None, "for example SELECT * FROM fw LIMIT 10")
    if len(statements) > 1:
        raise Refused("there is more than one query", statements[1], "ask one at a time")
    return statements[0]


def _filled(tree: exp.Expr, params: Mapping[str, Scalar]) -> exp.Expr:
    """The query with the values of its parameters; they are literals, never text of the query."""
    for node in list(tree.find_all(exp.Placeholder)):
        name = node.name
        if name not in params:
            known = ", ".join(f"${each}" for each in params)
            hint = f"there is {known}" if known else ""
            raise Refused(f"parameter ${name} has no value", node, hint, word=f"${name}")
        node.replace(exp.convert(params[name]))
    return tree


def _compiled(
    tree: exp.Expr, query_id: str, tables: Mapping[str, TableInfo] | None, steps: Steps
) -> Compiled:
    lowering = Lowering(query_id, steps)
    repetition: Repetition | None = None
    binder = Binder(tables, steps)
    if isinstance(tree, exp.Query | exp.Values | exp.Table | Continuous):
        require_understood(tree)
    if isinstance(tree, Continuous):
        repetition = repetition_of(tree)
        relation = binder.root(tree.this)
        repetition = lower_epochs(lowering, relation, repetition, tree)
    else:
        relation = _about_tables(tree, tables) or binder.root(tree)
        lowering.root(relation)
    plan = lowering.builder.plan()
    for problem in (*plan_problems(plan), *operator_problems(plan)):
        raise Refused(problem.message, None, problem.hint)
    remarks = tuple(_nobody_has(name, tables or {}) for name in binder.unknown)
    unknown = tuple(binder.unknown)
    return Compiled(plan, tuple(lowering.builder.notes), relation, remarks, repetition, unknown)


def _nobody_has(table: str, tables: Mapping[str, TableInfo]) -> str:
    hint = did_you_mean(table, tables)
    return f"no node knows a table {quoted(table)}" + (f"; {hint}" if hint else "")


def _about_tables(tree: exp.Expr, tables: Mapping[str, TableInfo] | None) -> Relation | None:
    """SHOW TABLES and DESCRIBE, answered from the catalog."""
    if isinstance(tree, exp.Show):
        if tree.name.upper() != "TABLES" or any(value for part, value in tree.args.items() if part != "this"):
            raise unsupported(f"{tree.sql(dialect='pier')}", tree, "SHOW TABLES lists them all")
        names = ("name", "kind", "key", "nodes", "rows", "bytes", "columns")
        return _rows(names, [_listed(name, info) for name, info in (tables or {}).items()])
    if isinstance(tree, exp.Describe):
        table = tree.this
        if any(value for part, value in tree.args.items() if part != "this"):
            raise unsupported("this kind of DESCRIBE", tree, "DESCRIBE and the name of a table")
        if not isinstance(table, exp.Table):
            raise unsupported("DESCRIBE of something else than a table", tree)
        require_understood(table)
        known = tables or {}
        match = next((name for name in known if name.lower() == table.name.lower()), None)
        if match is None:
            hint = did_you_mean(table.name, known, "SHOW TABLES lists them")
            raise Refused(f"no node knows a table {quoted(table.name)}", table, hint)
        columns = known[match].columns
        described = [
            (name, "" if kind is None else type_name(kind), "key" if name in known[match].keys else "")
            for name, kind in columns.items()
        ]
        return _rows(("column_name", "column_type", "key"), described)
    return None


def _listed(name: str, info: TableInfo) -> tuple[str | int | None, ...]:
    kinds, keys = "+".join(info.kinds), ", ".join(info.keys)
    columns = len(info.columns) + info.columns_left_out
    return name, kinds, keys, info.nodes, info.rows, info.bytes, columns


def _rows(names: tuple[str, ...], rows: Sequence[Sequence[str | int | None]]) -> Relation:
    return Values([Column(name, name) for name in names], [[_cell(cell) for cell in row] for row in rows])


def _cell(value: str | int | None) -> Constant:
    if value is None:
        return Constant("", "null")
    return Constant(str(value), "string" if isinstance(value, str) else "long")
