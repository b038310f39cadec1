"""`QueryService`: what a node with an engine does for its clients (see `pier_node.service`)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

import msgspec

from overlay.loads import Heard
from overlay.ring import ID_BYTES, WireArc
from overlay.spread.account import Account as Coverage
from pier_node.engine.again import Again
from pier_node.engine.asking import Asked
from pier_node.engine.compilers import (
    LANGUAGES,
    Job,
    Question,
    Text,
    Told,
    described,
    explained,
    named,
    planned,
)
from pier_node.engine.dictionary import Dictionary, Tables
from pier_node.engine.figures import QueryFigures, QueryStatistics
from pier_node.engine.owners import with_owners
from pier_node.engine.planning import Planning
from pier_node.engine.publication import Publishing
from pier_node.engine.published import LoadJournal, PublishedLoads
from pier_node.engine.result_log import LogLimits, ResultLogs
from pier_node.engine.staging import STAGED_BYTES_MAX, Staging
from pier_node.protocol.messages import Account, QueryEntry, Slice, TableEntry
from pier_node.protocol.messages import Limits as WireLimits
from pier_node.service import (
    AnswerSink,
    Description,
    Failure,
    Feed,
    FeedControl,
    LogName,
    LogState,
    Publication,
    PublicationResult,
    QueryHandle,
    QueryRequest,
    Reply,
    Settlement,
)
from query.batch.key_text import key_of
from query.causes import Cause
from query.dataflow.budget import Limits
from query.engine.facts import HIDDEN, TableFacts
from query.engine.node import EngineNode
from query.engine.proxy import ProxyQuery, Sink, TooManyQueries
from query.engine.run import Run
from query.engine.stages import is_divisible
from query.plan import Plan
from runtime.api import Runtime
from ufl.sql import Repetition

T = TypeVar("T")
_log = logging.getLogger("pier.query")

#: How long the ring has to say what tables there are; a query is planned without that then.
PLAN_S = 5.0
#: How long a text has, with waiting for its turn, to become something where no query's own time says it.
PLANNED_S_MAX = 30.0
#: The least that is left of a query's time when it has been planned; from when on the account notes how long that took.
TIME_LEAST_S = 0.1
PLAN_NOTED_S = 1.0
#: A continuous query that nobody cancels ends after this time: nobody remembers it then.
CONTINUOUS_S_MAX = 30 * 86_400.0
#: On top of the epochs: to reach all nodes and to hear from them.
SPREAD_S = 60.0
#: Queries of clients of one node that are asked again in every epoch.
REPEATED_MAX = 256
#: Keys of a table that are ended together, in characters: what one word to the ring carries.
UNPUBLISHED_CHARS_MAX = 500_000
#: Query text shown in lists of queries.
TEXT_SHOWN_CHARS = 200


class QueryService:
    """The engine half of a node's service."""

    def __init__(
        self,
        runtime: Runtime,
        engine: EngineNode,
        limits: Limits,
        staged_bytes_max: int = STAGED_BYTES_MAX,
        journal: LoadJournal | None = None,
        log_limits: LogLimits | None = None,
    ) -> None:
        """`limits` are the node owner's: what a query gets when it asks for nothing, and the most it may ask for. What
        this node keeps alive stands in the journal, for when it is started again."""
        self._runtime = runtime
        self._engine = engine
        self._limits = limits
        self._rng = runtime.rng("query-service")
        self._asked: dict[str, Asked] = {}
        #: Those that are asked again in every epoch, by the id they have from one to the next.
        self._repeated: dict[str, Asked] = {}
        self._dictionary = Dictionary(runtime, engine.catalog)
        self._planning = Planning(runtime)
        overlay = engine.overlay
        self.published = PublishedLoads(runtime, overlay.publisher, overlay.loads, journal)
        self.staging = Staging(runtime, self.published, overlay.router.me.id, staged_bytes_max)
        self.logs = ResultLogs(runtime, self.query, log_limits)
        self._figures = QueryFigures()

    # -- queries

    def query(self, request: QueryRequest, sink: AnswerSink) -> QueryHandle:
        asked = Asked(request, sink, self._runtime, self._over)
        try:
            limits = granted(request.limits, narrowed(self._limits, request.who.limits))
        except ValueError as error:
            asked.fail(Failure("limit", str(error)))
            return asked

        asked.watch(limits.time_s)
        self._plan(request, limits, lambda question: self._start(asked, question, limits))
        return asked

    def _plan(
        self, request: QueryRequest, limits: Limits, then: Callable[[Question | Failure], None]
    ) -> None:
        """What is to be run, if the client may run it."""
        self._read(request, planned, then, min(PLAN_S, limits.time_s), limits.time_s)

    def explain(self, request: QueryRequest, done: Reply[str]) -> None:
        """As text; where it is about keys, with the nodes that own them now."""

        def then(result: tuple[str, Plan] | Failure) -> None:
            if isinstance(result, Failure):
                done(result)
            else:
                with_owners(self._engine.overlay.router, *result, done)

        self._read(request, explained, then)

    def describe(self, request: QueryRequest, done: Reply[Description]) -> None:
        self._read(request, described, done)

    def _read(
        self,
        request: QueryRequest,
        make: Callable[[Job], T | Failure],
        then: Callable[[T | Failure], None],
        told_s: float = PLAN_S,
        within_s: float = PLANNED_S_MAX,
    ) -> None:
        """Makes something of a text within a time; asks the ring for its tables first, which has a time of its own,
        where the language wants that."""
        if request.language not in LANGUAGES:
            then(Failure("unsupported", f"this node does not speak {request.language}"))
            return
        query_id, time_s = self._rng.randbytes(8).hex(), int(self._runtime.wall())
        began_s = self._runtime.now()
        until_s, told_until_s = began_s + within_s, began_s + told_s
        whose, names_some = request.share.client or request.client, False

        def job(tables: Tables, told: Told) -> Job:
            text = Text(request.text, query_id, time_s, tables, request.params, told)
            return Job(request.language, text, request.who, request.unknown_tables)

        def read(tables: Tables, told: Told, last: bool) -> None:
            def made(result: T | Failure) -> None:
                if isinstance(result, Failure) and result.kind != "limit" and names_some and not last:
                    self._dictionary.ask(None, told_until_s, lambda now, told: read(now, told, last=True))
                else:
                    then(result)

            self._planning.plan(whose, make, job(tables, told), until_s, made)

        def found(names: Collection[str] | Failure | None) -> None:
            nonlocal names_some
            if isinstance(names, Failure):
                then(names)
                return
            names_some = names is None or bool(names)
            recent = self._dictionary.recent(names)
            if recent is not None:
                read(recent, Told.ALL, last=False)
            else:
                self._dictionary.ask(
                    names, told_until_s, lambda now, told: read(now, told, last=names is None)
                )

        self._planning.plan(whose, named, job({}, Told.ALL), until_s, found)

    def _start(self, asked: Asked, question: Question | Failure, limits: Limits) -> None:
        """Runs what was planned, in what is left of its time."""
        if asked.ended:
            return
        if isinstance(question, Failure):
            asked.fail(question)
            return
        repetition, asked.remarks = question.repetition, question.remarks
        if asked.age_s >= PLAN_NOTED_S:
            asked.remarks += (f"{asked.age_s:.1f} s of the query's time had passed when it was planned",)
        if repetition is not None and repetition.again:
            self._repeat(asked, repetition, limits)
            return
        if repetition is not None:
            time_s = lasting_s(repetition, asked.request, limits)
            asked.watch(time_s)
        else:
            time_s = left_s(limits.time_s, asked.age_s)
        limits = msgspec.structs.replace(limits, time_s=time_s)
        query = self._submit(asked, question, limits, asked)
        if isinstance(query, Failure):
            asked.fail(query)
        else:
            asked.attach(query, query.spec.id)

    def _submit(self, asked: Asked, question: Question, limits: Limits, sink: Sink) -> ProxyQuery | Failure:
        try:
            part = part_of(asked.request.part, question.plan)
            whose = asked.request.share.client
            query = self._engine.proxy.submit(question.plan, limits, sink, part=part, client=whose)
        except ValueError as error:
            return Failure("refused", str(error))
        except TooManyQueries as error:
            return Failure("limit", str(error))
        if not asked.request.unknown_tables:
            for table in question.unknown:
                # Not all nodes could be asked for their tables: one that was not heard may have it.
                query.note(Cause.UNKNOWN_TABLE, 1, f"{table.message} among the nodes that were heard")
        self._figures.asked += 1
        _log.debug(
            "query started",
            extra={
                "details": {
                    "query": query.spec.id,
                    "client": asked.request.client,
                    "text": asked.request.text[:TEXT_SHOWN_CHARS],
                }
            },
        )
        self._asked = {id_: each for id_, each in self._asked.items() if id_ in self._engine.proxy.queries}
        self._asked[query.spec.id] = asked
        return query

    def _repeat(self, asked: Asked, repetition: Repetition, limits: Limits) -> None:
        """Asks the whole query in every epoch, planned anew."""
        if len(self._repeated) >= REPEATED_MAX:
            asked.fail(Failure("limit", f"limit {REPEATED_MAX} repeated queries on this node reached"))
            return

        time_s = lasting_s(repetition, asked.request, limits)

        def submit(sink: Sink, started: Callable[[ProxyQuery | Failure], None]) -> None:
            left = min(limits.time_s, left_s(time_s, asked.age_s))
            within = msgspec.structs.replace(limits, time_s=left)

            def planned(question: Question | Failure) -> None:
                if isinstance(question, Failure):
                    started(question)
                else:
                    started(self._submit(asked, question, within, sink))

            # A table that has gone since the first epoch is an empty one.
            self._plan(replace(asked.request, unknown_tables=True), within, planned)

        query_id = self._rng.randbytes(8).hex()
        self._repeated[query_id] = asked
        asked.watch(time_s)
        again = Again(query_id, self._runtime, repetition, asked, submit, limits.time_s, time_s)
        asked.attach(again, query_id)
        again.begin()

    def _over(self, asked: Asked, outcome: Account | Failure) -> None:
        """Counts how a query ended, and says so with its id."""
        self._repeated = {id_: each for id_, each in self._repeated.items() if each is not asked}
        if isinstance(outcome, Failure):
            self._figures.refused(outcome.kind)
            details: dict[str, object] = {"kind": outcome.kind, "reason": outcome.message[:TEXT_SHOWN_CHARS]}
            _log.info("query rejected", extra={"details": {"client": asked.request.client, **details}})
            return
        self._figures.finished(outcome.ended, outcome.causes, outcome.rows, outcome.elapsed_s)
        told = ("query", "ended", "asked", "answered", "empty", "failed", "unreachable", "rows", "elapsed_s")
        details = {name: getattr(outcome, name) for name in told}
        if outcome.causes:
            details["causes"] = dict(outcome.causes)
        _log.info("query ended", extra={"details": {"client": asked.request.client, **details}})

    def statistics(self) -> QueryStatistics:
        figures, engine = self._figures, self._engine
        return QueryStatistics(
            running=len(engine.proxy.queries),
            runs=len(engine.executor.runs),
            asked=figures.asked,
            ended=dict(figures.ended),
            rejected=dict(figures.rejected),
            rows=figures.rows,
            runs_refused=engine.executor.refused,
            remarks_suppressed=engine.executor.remarks_suppressed,
            durations=figures.durations,
            causes=dict(figures.causes),
            dropped=engine.dropped(),
        )

    def queries(self, done: Reply[tuple[QueryEntry, ...]]) -> None:
        """Every query that runs on this node, whoever asked it; text and client where this node is its proxy."""
        entries = []
        known: dict[str, Run | ProxyQuery] = {**self._engine.executor.runs, **self._engine.proxy.queries}
        for query_id, running in known.items():
            asked = self._asked.get(query_id)
            if asked is None:
                age_s = max(0.0, self._runtime.now() - running.started_s)
                entries.append(QueryEntry(query_id, "", proxy=running.spec.proxy.address, age_s=age_s))
            elif asked not in self._repeated.values():
                entries.append(self._entry(query_id, asked))
        entries += [self._entry(query_id, asked) for query_id, asked in self._repeated.items()]
        done(tuple(entries))

    def _entry(self, query_id: str, asked: Asked) -> QueryEntry:
        return QueryEntry(
            id=query_id,
            text=asked.request.text[:TEXT_SHOWN_CHARS],
            language=asked.request.language,
            proxy=self._engine.overlay.router.me.address,
            client=asked.request.client,
            age_s=asked.age_s,
            rows=asked.rows_given,
            owner=asked.request.who.name,
        )

    def cancel(self, query: str, done: Reply[None]) -> None:
        """Cancels here where this node is the proxy, and elsewhere by telling every node."""
        mine = self._repeated.get(query) or self._engine.proxy.queries.get(query)
        if mine is not None:
            mine.cancel("cancelled on request")
            done(None)
        elif query in self._engine.executor.runs:
            self._engine.proxy.end_everywhere(query)
            done(None)
        else:
            done(Failure("refused", f"no query {query} runs here", hint="pier queries lists them"))

    # -- tables

    def tables(self, done: Reply[tuple[TableEntry, ...]]) -> None:
        def found(facts: list[TableFacts], coverage: Coverage) -> None:
            done(tuple(table_entry(each) for each in facts))

        self._engine.catalog.ask(found)

    def publish(self, publication: Publication, control: FeedControl) -> Feed:
        if publication.stage is not None:
            return self.staging.feed(publication, publication.stage, control)
        return Publishing(self._runtime, publication, control, self.published)

    def settle(self, settlement: Settlement, done: Reply[PublicationResult]) -> None:
        self.staging.settle(settlement, done)

    def unpublish(self, table: str, keys: tuple[str, ...], done: Reply[PublicationResult]) -> None:
        if table.startswith(HIDDEN):
            done(Failure("refused", f"{table} is the system's own: it cannot be unpublished"))
            return
        fitted = [key_of([key]) for key in keys]
        if sum(map(len, fitted)) > UNPUBLISHED_CHARS_MAX:
            done(Failure("limit", f"keys of more than {UNPUBLISHED_CHARS_MAX} characters at once"))
            return

        def told(result: Heard) -> None:
            dropped = {} if result.everybody else {"nodes that could not be told": 1}
            done(PublicationResult(0, result.objects, dropped=dropped))

        self._engine.overlay.loads.drop(table, fitted, told)

    def allow(self, may_publish: Callable[[str, str], bool]) -> None:
        self.published.revoke(may_publish)

    # -- logs of results

    def open_log(self, log: LogName, lease_s: float, request: QueryRequest, done: Reply[LogState]) -> None:
        self.logs.open(log, lease_s, request, done)

    def log(self, log: LogName, action: str, offset: int, done: Reply[LogState]) -> None:
        self.logs.call(log, action, offset, done)

    def read_log(self, log: LogName, start: int, end: int, sink: AnswerSink) -> QueryHandle:
        return self.logs.read(log, start, end, sink)


def part_of(part: Slice | None, plan: Plan) -> WireArc | None:
    """The part of the ring to ask; raises ValueError when it is none, or the query cannot be divided."""
    if part is None:
        return None
    if not is_divisible(plan):
        raise ValueError(
            "rows of this query meet between nodes: parts of the ring cannot be asked one by one"
        )
    start, end = bytes.fromhex(part.start), bytes.fromhex(part.end)
    if len(start) != ID_BYTES or len(end) != ID_BYTES:
        raise ValueError(f"a part of the ring lies between two ids of {ID_BYTES} bytes in hex")
    return WireArc(start, end)


def lasting_s(repetition: Repetition, request: QueryRequest, limits: Limits) -> float:
    """How long a continuous query may run: as long as it says, unless its author gave it a time of its own. The
    node's usual time is for queries that end by themselves."""
    if request.limits.time_s is not None:
        return limits.time_s
    if repetition.duration_s is None:
        return CONTINUOUS_S_MAX
    return min(CONTINUOUS_S_MAX, repetition.duration_s + 2 * repetition.every_s + SPREAD_S)


def left_s(time_s: float, age_s: float) -> float:
    """What is left of a query's time, in tenths of a second."""
    return min(time_s, max(TIME_LEAST_S, round(time_s - age_s, 1)))


def table_entry(facts: TableFacts) -> TableEntry:
    keys = facts.key_columns[0] if len(facts.key_columns) == 1 else ()
    rows, size_bytes = (facts.rows, facts.bytes) if facts.sized else (None, None)
    return TableEntry(facts.name, facts.kind, facts.columns, facts.types, keys, rows, size_bytes, facts.nodes)


def narrowed(most: Limits, client: WireLimits) -> Limits:
    """What a node allows to one client: never more than to all."""
    names = ("time_s", "memory_bytes", "rows", "bytes", "steps")
    own = {name: getattr(client, name) for name in names}
    return Limits(**{name: min(getattr(most, name), own[name] or getattr(most, name)) for name in names})


def granted(wanted: WireLimits, most: Limits) -> Limits:
    """A query's limits: what it asks for, or what the node gives; never more than the node allows."""
    values = {}
    for name in ("time_s", "memory_bytes", "rows", "bytes", "steps"):
        asked, allowed = getattr(wanted, name), getattr(most, name)
        if asked is not None and asked <= 0:
            raise ValueError(f"limit {name} = {asked:g} must be above zero")
        if asked is not None and asked > allowed:
            raise ValueError(f"limit {name} = {asked:g} is above what this node allows, {allowed:g}")
        values[name] = allowed if asked is None else asked
    return Limits(**values)
