"""Query texts to plans, by language. A text that cannot be one is a `Failure` with its position.

UFL has query expansions that need the query's id and time; both are fixed here, once, so that every node sees
the same plan. SQL is helped by what the ring knows of its tables.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import pyarrow as pa

import ufl
from pier_node.protocol.messages import Position, Scalar
from pier_node.service import Description, Failure
from query.dataflow.check import operator_problems
from query.dataflow.normal import normal, tables_of
from query.engine.facts import HIDDEN
from query.engine.stages import is_divisible
from query.plan import Plan
from query.plan_hints import did_you_mean, quoted
from ufl.sql import Repetition, TableInfo, compile_sql, explain_sql, tables_named

T = TypeVar("T")
UNTOLD = "planned without the data dictionary: the ring did not say in time what tables there are"


class Told(enum.Enum):
    """How much of the ring has said what tables there are."""

    #: Every node, or the dictionary about all tables that matter.
    ALL = "all"
    #: Those that could be reached.
    SOME = "some"
    #: It took too long.
    LATE = "late"


class UnknownTable(NamedTuple):
    """A table that nobody has, and what may have been meant."""

    name: str
    hint: str

    @property
    def message(self) -> str:
        return f"unknown table {quoted(self.name)}"


@dataclass(frozen=True, slots=True)
class Text:
    """A query to compile, and what goes into it beside its text."""

    text: str
    query_id: str
    time_s: int
    tables: Mapping[str, TableInfo] = field(default_factory=dict)
    params: Mapping[str, Scalar] = field(default_factory=dict)
    #: How much of the ring has said what tables there are.
    told: Told = Told.ALL

    @property
    def untold(self) -> bool:
        """The ring did not say in time what tables there are: there may be more than these."""
        return self.told is Told.LATE


@dataclass(frozen=True, slots=True)
class Question:
    """A plan, and how it is to be repeated if it is continuous."""

    plan: Plan
    repetition: Repetition | None = None
    #: What its author should know about the answer.
    remarks: tuple[str, ...] = ()
    #: Tables that it names and that nobody who was heard has.
    unknown: tuple[UnknownTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Language:
    """How texts of one language become plans, or something to read."""

    compile: Callable[[Text], Question]
    explain: Callable[[Text], str]
    #: The tables that a text names, of which it matters what is known; None when it is about all there are.
    tables: Callable[[str], Collection[str] | None]
    describe: Callable[[Text], Description]


def _compile_ufl(text: Text) -> Plan:
    located = ufl.parse_located(text.text)
    for problem in operator_problems(located.plan):
        raise located.error(problem)
    return ufl.expand(normal(located.plan), text.query_id, text.time_s)


def _ufl_question(text: Text) -> Question:
    plan = _compile_ufl(text)
    if text.untold:
        return Question(plan, remarks=(UNTOLD,))
    names = [name for name in tables_of(plan) if name not in text.tables and not name.startswith(HIDDEN)]
    unknown = tuple(UnknownTable(name, did_you_mean(name, text.tables)) for name in names)
    return Question(
        plan, remarks=tuple(f"no node knows a table {quoted(name)}" for name in names), unknown=unknown
    )


def _ufl_tables(text: str) -> Collection[str]:
    """The tables that a text names; none where it is no query, which compiling it will say."""
    try:
        plan = _compile_ufl(Text(text, "", 0))
    except ufl.UflError:
        return ()
    return [name for name in tables_of(plan) if not name.startswith(HIDDEN)]


def _compile_sql(text: Text) -> Question:
    done = compile_sql(text.text, text.query_id, text.time_s, text.tables, text.params)
    # Without having been told, nothing can be said of tables that nobody seems to have.
    if text.untold:
        return Question(done.plan, done.repetition, (UNTOLD,))
    unknown = tuple(UnknownTable(name, did_you_mean(name, text.tables)) for name in done.unknown)
    return Question(done.plan, done.repetition, done.remarks, unknown)


def _explain_sql(text: Text) -> str:
    return explain_sql(text.text, text.query_id, text.time_s, text.tables, text.params)


def _describe_sql(text: Text) -> Description:
    compiled = compile_sql(text.text, text.query_id, text.time_s, text.tables, text.params)
    columns = compiled.relation.columns
    known = not compiled.relation.open and all(column.kind is not None for column in columns)
    schema = pa.schema([(column.label, column.kind) for column in columns]) if known else None
    return Description(schema, is_divisible(compiled.plan))


LANGUAGES: dict[str, Language] = {
    "ufl": Language(
        _ufl_question,
        lambda text: ufl.unparse(_compile_ufl(text)),
        _ufl_tables,
        lambda text: Description(None, is_divisible(_compile_ufl(text))),
    ),
    "sql": Language(_compile_sql, _explain_sql, tables_named, _describe_sql),
}


def compiled(language: Language, text: Text) -> Question | Failure:
    return _or_failure(language.compile, text)


def explained(language: Language, text: Text) -> str | Failure:
    return _or_failure(language.explain, text)


def described(language: Language, text: Text) -> Description | Failure:
    return _or_failure(language.describe, text)


def _or_failure(make: Callable[[Text], T], text: Text) -> T | Failure:
    try:
        return make(text)
    except ufl.UflError as error:
        hint = UNTOLD if text.untold else error.hint
        return Failure("syntax", str(error), Position(error.line, error.column), hint)
