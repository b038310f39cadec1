"""One query on one node: its dataflows, which of them are done, what they used, how they went.

Made when the first call of a query arrives, gone when the last stage is reported, the query is cancelled, a limit is
reached or its time is up; then nothing of it stays behind but its id. All opgraphs start at once, whatever their
stage: what later stages scan arrives while earlier ones run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from overlay.dht.standing import Standing
from overlay.spread.branch import Branch
from query.causes import Cause, WireCauses, added
from query.counts import total
from query.dataflow.budget import Budget, BudgetExceeded, LimitReached, Pools
from query.dataflow.check import OPGRAPH_OPTIONS
from query.dataflow.context import Context, SourceUnavailable, Tap
from query.dataflow.graph import Dataflow
from query.dataflow.scheduler import Scheduler
from query.dataflow.settings import read
from query.engine.exchange import Exchange
from query.engine.filters import QueryFilters
from query.engine.prepared import Prepared
from query.engine.results import ResultSender
from query.engine.spec import ERROR_CHARS_MAX, ERRORS_MAX, Report, fold_drop, fold_missing
from query.engine.stages import FILTER, TREE, passes_on, read_by
from query.engine.tiles import Tiles, tiles_of
from query.plan import Opgraph
from runtime.api import Runtime, Timer

#: Why a node's part of the published tables may lack rows.
UNCERTAIN = "a node was not sure of its part of the published tables, and left it out; ask again"
BEREAVED = "a node took over a part of the published tables from one that died: for a while rows may be missing there"

#: What the executor calls back: stages that are now done on this node, or the whole run.
OnStage = Callable[[int], None]


class Run:
    """A query at work on this node."""

    def __init__(
        self,
        ready: Prepared,
        runtime: Runtime,
        scheduler: Scheduler,
        results: Callable[[Budget, Callable[[Exception], None]], ResultSender],
        services: dict[str, Any],
        complain: Callable[[str, str], None],
        late: bool,
        branch: Branch,
        pools: Pools,
    ) -> None:
        self.spec = spec = ready.call.spec
        self.stages = ready.stages
        self.shared = ready.shared
        #: What was reported last.
        self.reported = Report()
        self.late = late
        #: Where the query came from and went to, for aggregations along those edges.
        self.branch = branch
        #: When the executor lets go of it, whoever still might ask.
        self.expiry: Timer | None = None
        #: When the query began, by this node's clock: long before it came here if the node joined later.
        self.started_s = branch.began_at
        self._pools = pools
        self.budget = Budget(spec.limits, pools.join(spec.client))
        self.results = results(self.budget, self.fail)
        self.error: str | None = None
        self._cause = Cause.ERROR
        self.ended = False
        #: Namespaces that are complete, and who waits to hear it.
        self.exchange = Exchange(
            {namespace for stage in self.stages for namespace in stage.namespaces},
            {namespace for opgraph in spec.plan.opgraphs for namespace in read_by(opgraph)},
        )
        self._runtime = runtime
        self._scheduler = scheduler
        self.filters = QueryFilters(len(spec.owners), self.exchange.when_complete)
        self._services = {
            **services,
            "results": self.results,
            "exchange": self.exchange,
            "bloom": self.filters,
            "run": self,
        }
        self._complain = complain
        self._noted: WireCauses = {}
        self._notes: dict[str, None] = {}
        self._flows: dict[str, Dataflow] = {}
        self._done: set[str] = set()
        self._called: set[int] = set()
        self._waiting: list[tuple[int, Callable[[Report], None]]] = []
        #: For which arc this node answers; None where the query reads no published table, or does so again and again.
        self.standing: Standing | None = None
        self._started = False
        self._timers: list[Timer] = [
            runtime.call_later(self.left_s(spec.limits.time_s), self._out_of_time, None)
        ]

    def left_s(self, time_s: float) -> float:
        """What is left of a time that the whole query has."""
        return max(0.0, self.started_s + time_s - self._runtime.now())

    # -- life

    def start(self, wanted: Callable[[Opgraph], bool], complete: int) -> None:
        """Builds and starts the opgraphs that are meant for this node.

        A node that comes in late has no part in the answer with rows of its own: some of those they are to meet have
        gone on already, so the answer would have a few of them, of a node that its account does not count."""
        over = {name for stage in self.stages[:complete] for name in stage.opgraphs}
        internal = {namespace for stage in self.stages for namespace in stage.namespaces}
        for opgraph in self.spec.plan.opgraphs:
            on_time = not self.late or (opgraph.name not in over and passes_on(opgraph, internal))
            if on_time and wanted(opgraph):
                self._build(opgraph)
            else:
                self._done.add(opgraph.name)
        for flow in self._flows.values():
            if not self.ended:
                flow.context.guard(flow.start)
        self._started = True
        self._tell()

    def _build(self, opgraph: Opgraph) -> None:
        context = Context(
            query_id=self.spec.id,
            clock=self._runtime,
            rng=self._runtime.rng(f"query/{self.spec.id}/{opgraph.name}"),
            scheduler=self._scheduler,
            budget=self.budget,
            services=self._services,
            time_us=self.spec.time_us,
            fail=self.fail,
            complain=self._complain,
        )
        try:
            self._flows[opgraph.name] = Dataflow(opgraph, context, lambda: self._flow_done(opgraph.name))
            duration_s = read(OPGRAPH_OPTIONS, opgraph.settings)["duration"]
        except Exception as error:
            self.fail(error)
            return
        if duration_s is not None:
            self._timers.append(self._runtime.call_later(self.left_s(duration_s), self._over, opgraph.name))

    def fail(self, error: Exception) -> None:
        """An operator cannot go on: the query ends on this node and its author hears why."""
        if self.ended:
            return
        expected = isinstance(error, LimitReached | SourceUnavailable | ValueError | ConnectionError)
        self.error = f"{'' if expected else f'{type(error).__name__}: '}{error}"[:ERROR_CHARS_MAX]
        self._cause = (
            Cause.LIMIT
            if isinstance(error, LimitReached)
            else Cause.NOT_READ
            if isinstance(error, SourceUnavailable)
            else Cause.ERROR
        )
        self.close()
        self._tell()

    def stand(self, standing: Standing) -> None:
        """The query reads published tables: of these this node shows what lies in its arc, the same for all of them."""
        self.standing = standing
        if standing.arc is not None and not standing.whole:
            self.note(Cause.UNOWNED, 1, BEREAVED)
        elif standing.arc is None and self.spec.part is not None:
            # Where all of the ring is asked, somebody else may answer for this part, and the asker sees it if not.
            self.note(Cause.UNOWNED, 1, UNCERTAIN)

    def note(self, cause: Cause, count: int, text: str) -> None:
        """Something beside the operators takes rows from this node's part of the answer."""
        self._noted = added(self._noted, {cause.number: count})
        if len(self._notes) < ERRORS_MAX:
            self._notes[text[:ERROR_CHARS_MAX]] = None

    def close(self) -> None:
        """Takes everything down; may be called at any time."""
        if self.ended:
            return
        self.ended = True
        for timer in self._timers:
            timer.cancel()
        self._scheduler.remove(self.spec.id)
        for flow in self._flows.values():
            flow.close()
        self.budget.release()
        self._pools.leave(self.spec.client)

    def _out_of_time(self, _: None) -> None:
        self.fail(BudgetExceeded("time_s", self.spec.limits.time_s, "the whole query"))

    def _over(self, name: str) -> None:
        """An opgraph's duration has passed: it is done as it stands."""
        self._flows[name].close()
        self.results.when_drained(lambda: self._flow_done(name))

    # -- stages

    def complete(self, below: int) -> None:
        """All stages below this one are done on all nodes: what they fed is complete."""
        for stage in self.stages[:below]:
            for namespace in stage.namespaces:
                self.exchange.complete(namespace)

    def called(self, stage: int) -> bool:
        """Whether this is the first call of a stage: the owner of several keys may be called for each."""
        first = stage not in self._called
        self._called.add(stage)
        return first

    def when_done(self, stage: int, tell: Callable[[Report], None]) -> None:
        """Calls tell with this node's report once the stage is done here."""
        self._waiting.append((stage, tell))
        self._tell()

    def is_done(self, stage: int) -> bool:
        if self.ended or stage >= len(self.stages):
            return True
        return all(name in self._done for part in self.stages[: stage + 1] for name in part.opgraphs)

    def report(self, stage: int | None = None) -> Report:
        """How it stands, with the states that a stage sends up the tree.

        A node has answered when something made of its own rows has left it, however it left; if it then comes to a
        limit, what it gave is still in the answer, and the limit is among the causes."""
        dropped: dict[str, int] = {}
        missing: dict[str, tuple[int, str]] = {}
        causes = added(self._noted, {} if self.error is None else {self._cause.number: 1})
        busy = 0
        for flow in self._flows.values():
            for operator in flow.opened:
                busy += 0 if operator.idle() else 1
                for reason, rows in operator.counters.drops.items():
                    fold_drop(dropped, f"{operator.name}: {reason}", rows)
                causes = added(causes, {c.number: rows for c, rows in operator.counters.causes.items()})
                for (table, column), close in operator.counters.missing.items():
                    fold_missing(missing, f"{table} {column}", 1, close)
        gave = any(flow.gave_own_rows() for flow in self._flows.values())
        failed = self.error is not None and not (gave and self._cause is Cause.LIMIT)
        on_time = not failed and not self.late
        return Report(
            answered=int(on_time and gave),
            empty=int(on_time and not gave),
            failed=int(failed),
            late=int(self.late and not failed),
            rows=total(self.results.rows),
            bytes=total(self.results.bytes),
            dropped=dropped,
            missing=missing,
            errors=(*(() if self.error is None else (self.error,)), *self._notes)[:ERRORS_MAX],
            sent=self.exchange.sent,
            received=self.exchange.received,
            busy=busy + self._scheduler.waiting(self.spec.id) + (not self._started),
            trees={} if failed or self.late else self._of_stage(stage, TREE, self.exchange.given),
            filters={} if failed or self.late else self._of_stage(stage, FILTER, self.filters.given),
            holders=1 if self._services["address"] in self.spec.owners else 0,
            causes=causes,
            sated=int(not self.exchange.has_read_all),
            tiles=() if failed or self.late else self._tiles(),
        )

    def _tiles(self) -> Tiles:
        standing = self.standing
        return () if standing is None or standing.arc is None else tiles_of(standing.arc)

    def last_words(self) -> Report:
        """What is to be said of a query that ended early here when later stages are called: who answered and what was
        lost does not change."""
        return msgspec.structs.replace(self.report(), dropped={}, missing={}, trees={}, filters={})

    def _of_stage(self, stage: int | None, kind: str, given: Mapping[str, bytes]) -> dict[str, bytes]:
        """What this node has for the channels that are complete with a stage."""
        namespaces = self.stages[stage].namespaces if stage is not None and stage < len(self.stages) else ()
        return {name: payload for name, payload in given.items() if kind + name in namespaces}

    def set_taps(self, operators: tuple[str, ...], on: bool, tap: Tap) -> None:
        """Shows what flows into and out of some operators, or of all, or stops showing it."""
        for flow in self._flows.values():
            for name in operators or tuple(flow.operators):
                for direction in ("in", "out"):
                    if on and name in flow.operators:
                        flow.context.taps[name, direction] = tap
                    else:
                        flow.context.taps.pop((name, direction), None)

    def _flow_done(self, name: str) -> None:
        self._done.add(name)
        self._tell()

    def _tell(self) -> None:
        """Who waits for a stage hears it when it is done, once all that there is to do has begun."""
        if not (self._started or self.ended):
            return
        ready = [(stage, tell) for stage, tell in self._waiting if self.is_done(stage)]
        self._waiting = [(stage, tell) for stage, tell in self._waiting if not self.is_done(stage)]
        for stage, tell in ready:
            tell(self.report(stage))
