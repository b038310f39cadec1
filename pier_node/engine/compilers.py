"""Query texts to plans, by language. A text that cannot be one is a `Failure` with its position.

UFL has query expansions that need the query's id and time; both are fixed here, once, so that every node sees
the same plan. SQL is helped by what the ring knows of its tables.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa

import ufl
from pier_node.access.clients import Client
from pier_node.access.rights import may_run
from pier_node.protocol.messages import Position, Scalar
from pier_node.service import UNKNOWN_TABLE, Description, Failure
from query.dataflow.check import operator_problems
from query.dataflow.normal import normal, tables_of
from query.engine.facts import HIDDEN
from query.engine.stages import is_divisible
from query.plan import Plan
from query.plan_hints import did_you_mean, quoted
from ufl import sql
from ufl.lexer import require_short
from ufl.sql import STEPS_MAX, Repetition, TableInfo, compile_sql, explain_sql, tables_named

T = TypeVar("T")
UNKNOWN_HINT = "pier tables lists those there are; --allow-unknown takes it for an empty one"
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


class TooLarge(Exception):
    """The text takes more steps to plan than it was given."""


@dataclass(frozen=True, slots=True)
class Job:
    """One text to be planned, wherever that is done."""

    language: str
    text: Text
    #: Who asks, where it matters what it may do.
    who: Client | None = None
    #: Whether tables that nobody has may be asked for.
    unknown_tables: bool = False
    steps: int = STEPS_MAX


@dataclass(frozen=True, slots=True)
class Question:
    """A plan, and how it is to be repeated if it is continuous."""

    plan: Plan
    repetition: Repetition | None = None
    #: What its author should know about the answer.
    remarks: tuple[str, ...] = ()
    #: Tables that it names and that nobody who was heard has.
    unknown: tuple[UnknownTable, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        """From the process that made it the plan comes in its wire form: that is read several times as fast."""
        return _question, (msgspec.msgpack.encode(self.plan), self.repetition, self.remarks, self.unknown)


def _question(
    plan: bytes, repetition: Repetition | None, remarks: tuple[str, ...], unknown: tuple[UnknownTable, ...]
) -> Question:
    return Question(msgspec.msgpack.decode(plan, type=Plan), repetition, remarks, unknown)


@dataclass(frozen=True, slots=True)
class Language:
    """How texts of one language become plans, or something to read."""

    compile: Callable[[Text, int], Question]
    explain: Callable[[Text, int], str]
    #: The tables that a text names, of which it matters what is known; None when it is about all there are.
    tables: Callable[[str, int], Collection[str] | None]
    describe: Callable[[Text, int], Description]
    #: Raises UflError for a text that is too long to be looked at.
    require_short: Callable[[str], None]


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


def _compile_sql(text: Text, steps: int) -> Question:
    done = compile_sql(text.text, text.query_id, text.time_s, text.tables, text.params, steps)
    # Without having been told, nothing can be said of tables that nobody seems to have.
    if text.untold:
        return Question(done.plan, done.repetition, (UNTOLD,))
    unknown = tuple(UnknownTable(name, did_you_mean(name, text.tables)) for name in done.unknown)
    return Question(done.plan, done.repetition, done.remarks, unknown)


def _explain_sql(text: Text, steps: int) -> str:
    return explain_sql(text.text, text.query_id, text.time_s, text.tables, text.params, steps)


def _describe_sql(text: Text, steps: int) -> Description:
    compiled = compile_sql(text.text, text.query_id, text.time_s, text.tables, text.params, steps)
    columns = compiled.relation.columns
    known = not compiled.relation.open and all(column.kind is not None for column in columns)
    schema = pa.schema([(column.label, column.kind) for column in columns]) if known else None
    return Description(schema, is_divisible(compiled.plan))


LANGUAGES: dict[str, Language] = {
    "ufl": Language(
        lambda text, steps: _ufl_question(text),
        lambda text, steps: ufl.unparse(_compile_ufl(text)),
        lambda text, steps: _ufl_tables(text),
        lambda text, steps: Description(None, is_divisible(_compile_ufl(text))),
        require_short,
    ),
    "sql": Language(_compile_sql, _explain_sql, tables_named, _describe_sql, sql.require_short),
}


# What is made of a text, by functions that another process can run, too.


def too_long(job: Job) -> Failure | None:
    """What is wrong with the text's length, before anything else is done with it."""
    return _or_failure(lambda: LANGUAGES[job.language].require_short(job.text.text), job)


def named(job: Job) -> Collection[str] | Failure | None:
    """The tables that it names."""
    return _or_failure(lambda: LANGUAGES[job.language].tables(job.text.text, job.steps), job)


def planned(job: Job) -> Question | Failure:
    """What is to be run, if the client may run it."""
    question = _or_failure(lambda: LANGUAGES[job.language].compile(job.text, job.steps), job)
    if isinstance(question, Failure) or job.who is None:
        return question
    if question.unknown and job.text.told is Told.ALL and not job.unknown_tables:
        table = question.unknown[0]
        return Failure(UNKNOWN_TABLE, table.message, hint=table.hint or UNKNOWN_HINT)
    return may_run(job.who, question.plan, job.text.query_id) or question


def explained(job: Job) -> tuple[str, Plan] | Failure:
    """How it would run, to read, and as a plan."""
    language = LANGUAGES[job.language]
    shown = _or_failure(lambda: language.explain(job.text, job.steps), job)
    if isinstance(shown, Failure):
        return shown
    question = _or_failure(lambda: language.compile(job.text, job.steps), job)
    return question if isinstance(question, Failure) else (shown, question.plan)


def described(job: Job) -> Description | Failure:
    """The rows it would give."""
    return _or_failure(lambda: LANGUAGES[job.language].describe(job.text, job.steps), job)


def _or_failure(make: Callable[[], T], job: Job) -> T | Failure:
    try:
        return make()
    except sql.TooLarge as error:
        if job.steps < STEPS_MAX:
            raise TooLarge from None
        return Failure("limit", error.message)
    except ufl.UflError as error:
        hint = UNTOLD if job.text.untold else error.hint
        return Failure("syntax", str(error), Position(error.line, error.column), hint)
