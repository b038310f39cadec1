"""All queries on one node: calls arrive by spread, runs start, report and go.

Whatever a peer sends here is checked again: a plan that does not pass ends in a report of a failed node, never
in an exception. Ids of queries that ended are remembered for a while, so that a late call does not start one anew.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from overlay.dht.standing import Standing
from overlay.ring import Arc, NodeRef, from_wire
from overlay.router import Router
from overlay.spread.branch import Branch, Combine, Ended, Event
from overlay.spread.spread import Spread
from query.causes import Cause
from query.dataflow.budget import Budget, Pools
from query.dataflow.scheduler import Scheduler
from query.engine import taps
from query.engine.messages import PeerBatch, Remark, ResultCredit
from query.engine.prepared import Prepared, prepared
from query.engine.results import Handover, ResultSender
from query.engine.run import Run
from query.engine.spec import (
    ID_CHARS_MAX,
    BadCall,
    OwnReport,
    QuerySpec,
    Report,
    StageCall,
    combine,
    encode,
    failure,
)
from query.engine.stages import EPOCHS
from query.plan import Opgraph
from runtime.api import Address, Messenger, Runtime

_log = logging.getLogger("pier.query")

TOPIC = "query"
TOPIC_END = "query-end"
#: Queries at work on one node; a call beyond it is refused and the refusal is in the account.
RUNS_MAX = 256
#: A run that is out of time is kept this much longer for its asker to hear why, who waits less; then it goes, since
#: an asker that died or is cut off never ends it.
EXPIRY_S = 10.0
#: How long a query waits here, at most, until this node is sure of its part of published tables.
STAND_S = 3.0
#: Ids of ended queries that are remembered.
ENDED_MAX = 4_096
#: Messages about dropped rows or taps that one node sends for one query a second (PIER 3.3.7).
REMARKS_PER_S = 10.0
REMARKS_BURST = 20.0


def _combining(payload: bytes) -> Combine:
    """How the reports of a call are combined. A spread remembers it long after the query: it has the call's bytes, not
    what was made of them."""
    return lambda one, other: prepared(payload).trees.combine(one, other)


def _said(call: StageCall, report: Report, earlier: Report | None = None) -> bytes:
    """A report as its call wants it: the asker alone says with it what it said before."""
    return encode(OwnReport(report, earlier or Report()) if call.alone else report)


@dataclass(slots=True)
class _Allowance:
    """A token bucket for remarks."""

    left: float = REMARKS_BURST
    at_s: float = 0.0

    def take(self, now_s: float) -> bool:
        self.left = min(REMARKS_BURST, self.left + (now_s - self.at_s) * REMARKS_PER_S)
        self.at_s = now_s
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


class Executor:
    """The node side of the query engine."""

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        spread: Spread,
        services: dict[str, Any],
        handover: Handover,
        ended: Callable[[str], None],
        runs_max: int = RUNS_MAX,
        pools: Pools | None = None,
    ) -> None:
        """`handover` takes result rows to queries that were asked at this node; `ended` hears of every query that
        somebody has ended everywhere."""
        self.scheduler = Scheduler(runtime)
        self.runs: dict[str, Run] = {}
        #: What queries of one client hold here together.
        self.pools = pools or Pools()
        self.refused = 0
        self.remarks_suppressed = 0
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._services = services
        self._handover = handover
        self._on_ended = ended
        self._runs_max = runs_max
        #: Ids of queries that have ended here; of those that ended before their time, what there is to say of it.
        self._ended: OrderedDict[str, Report | None] = OrderedDict()
        self._allowances: dict[str, _Allowance] = {}
        spread.on_arrival(TOPIC, self._called)
        spread.on_arrival(TOPIC_END, self._ended_everywhere)
        spread.on_arrival(taps.TOPIC, lambda branch: taps.answer(branch, self.runs, self._tapped))
        messenger.on(ResultCredit, self._credited)
        messenger.on(PeerBatch, self._peer_sent)

    @property
    def me(self) -> NodeRef:
        return self._router.me

    def knows(self, query_id: str) -> bool:
        """Whether a query is at work here, or was."""
        return query_id in self.runs or query_id in self._ended

    # -- calls

    def _called(self, branch: Branch) -> None:
        try:
            ready = prepared(branch.payload)
        except BadCall as error:
            branch.combine = combine
            branch.reply(encode(failure(f"unreadable query: {error}", Cause.UNREADABLE)))
            return
        call = ready.call
        branch.combine = _combining(branch.payload)
        run = self._run_of(ready, branch)
        if run is None:
            return
        run.exchange.overflowed.update(call.overflowed)
        run.filters.taken.update(call.filters)
        run.complete(call.complete)
        if call.wave:
            branch.reply(encode(run.report()))
            return
        if not run.called(call.stage):
            branch.reply(_said(call, Report(again=1)))
            return
        last = call.stage >= (len(run.stages) if call.spec.proxy == self.me else run.shared) - 1

        def done(report: Report) -> None:
            run.reported, earlier = report, run.reported
            if last or run.ended:
                self._end(run)
            branch.reply(_said(call, report, earlier))

        branch.on_event = partial(self._told, call.spec.id)
        run.when_done(call.stage, done)

    def _told(self, query_id: str, event: Event) -> None:
        run = self.runs.get(query_id)
        if run is not None and isinstance(event, Ended):
            self._stop(run)
            if not event.cancelled and _is_continuous(run):
                # This node was cut off from the tree, not from the query: the census finds it without.
                self._ended.pop(query_id, None)

    def take_trees(self, query_id: str, trees: dict[str, bytes]) -> None:
        """Combined states for the scans of a query that was asked here."""
        run = self.runs.get(query_id)
        if run is not None:
            run.exchange.taken.update(trees)

    def _run_of(self, ready: Prepared, branch: Branch) -> Run | None:
        """The run a call is about, made if it is new; None when the branch has been answered already."""
        spec = ready.call.spec
        run = self.runs.get(spec.id)
        if run is not None:
            return run
        if spec.id in self._ended and sum(map(len, ready.targets.values())) > 1:
            # It has answered as the owner of another key.
            branch.reply(_said(ready.call, Report(again=1)))
            return None
        refusal = self._refusal(ready)
        if refusal is not None:
            self.refused += 1
            branch.reply(_said(ready.call, refusal))
            return None
        return self._start(ready, branch)

    def _refusal(self, ready: Prepared) -> Report | None:
        if ready.call.spec.id in self._ended:
            return self._ended[ready.call.spec.id] or failure("the query has ended on this node")
        if len(self.runs) >= self._runs_max:
            text = f"limit runs_max = {self._runs_max} reached: too many queries at once on this node"
            return failure(text, Cause.LIMIT)
        return failure(ready.problem) if ready.problem else None

    def _start(self, ready: Prepared, branch: Branch) -> Run:
        """A node that the first call did not reach is late: the account does not count it."""
        call, spec = ready.call, ready.call.spec

        def results(budget: Budget, fail: Callable[[Exception], None]) -> ResultSender:
            return ResultSender(spec, self.me, self._messenger, budget, fail, self._runtime, self._handover)

        run = Run(
            ready,
            self._runtime,
            self.scheduler,
            results,
            self._services,
            lambda operator, reason: self._complain(spec, operator, reason),
            late=call.complete > 0 or call.wave > 1,
            branch=branch,
            pools=self.pools,
        )
        self.runs[spec.id] = run
        _log.debug("query runs here", extra={"details": {"query": spec.id, "asker": spec.proxy.address}})
        run.expiry = self._runtime.call_later(run.left_s(spec.limits.time_s) + EXPIRY_S, self._stop, run)
        if ready.reads_published:
            begin = partial(self._stand, run, ready)
            self._services["dht"].stand(begin, min(STAND_S, run.left_s(spec.limits.time_s) / 4))
        else:
            self._begin(run, ready)
        return run

    def _stand(self, run: Run, ready: Prepared, standing: Standing) -> None:
        """What this node shows of published tables is settled before it begins."""
        if not run.ended:
            run.stand(standing)
            self._begin(run, ready)

    def _begin(self, run: Run, ready: Prepared) -> None:
        run.start(lambda opgraph: self._is_meant_for_me(opgraph, ready, run), ready.call.complete)

    def _is_meant_for_me(self, opgraph: Opgraph, ready: Prepared, run: Run) -> bool:
        """An opgraph with `at = asker` runs on the node that was asked, one with `rid` on the owner of that key in
        its namespace, any other on every node, or on those of the part of the ring that was asked."""
        spec = ready.call.spec
        part = spec.part
        if part is not None and not Arc(from_wire(part.start), from_wire(part.end)).contains(
            from_wire(self.me.id)
        ):
            return False
        if opgraph.settings.get("at") == "asker":
            return spec.proxy == self.me
        keys = ready.targets[opgraph.name]
        owns = self._router.owns if run.standing is None else run.standing.has
        return not keys or any(owns(key) for key in keys)

    def _end(self, run: Run) -> None:
        if run.expiry is not None:
            run.expiry.cancel()
        run.close()
        _log.debug("query is over here", extra={"details": {"query": run.spec.id}})
        self.runs.pop(run.spec.id, None)
        self._allowances.pop(run.spec.id, None)
        self._remember_ended(run.spec.id, None if run.error is None else run.last_words())

    def _stop(self, run: Run) -> None:
        """Ends a query that may be at work: who waits for one of its stages hears that it failed here, since the spread
        that brought the call is open for as long as it waits."""
        run.fail(ConnectionError("the query was ended before it was done here"))
        self._end(run)

    def _remember_ended(self, query_id: str, last_words: Report | None = None) -> None:
        self._ended[query_id] = last_words
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    def _ended_everywhere(self, branch: Branch) -> None:
        """By its asker, or by somebody else who cancels it: then its asker hears it first, and says so. The query's own
        call may come later, since messages overtake each other: it is refused then."""
        query_id = branch.payload[:ID_CHARS_MAX].decode(errors="replace")
        self._on_ended(query_id)
        run = self.runs.get(query_id)
        if run is not None:
            self._stop(run)
        else:
            self._remember_ended(query_id)
        self._services["kept"].release(query_id)
        branch.reply()

    # -- messages

    def _credited(self, sender: Address, credit: ResultCredit) -> None:
        run = self.runs.get(credit.query)
        if run is not None:
            run.results.credited(credit)

    def _peer_sent(self, sender: Address, message: PeerBatch) -> None:
        self._services["peers"].arrived(message)

    def _tapped(self, run: Run, operator: str, direction: str, text: str) -> None:
        self.remark(run.spec, operator, direction, text)

    def _complain(self, spec: QuerySpec, operator: str, reason: str) -> None:
        if spec.complain:
            self.remark(spec, operator, "error", reason)

    def remark(self, spec: QuerySpec, operator: str, kind: str, text: str) -> None:
        """Tells the author something, within the allowance of this node."""
        allowance = self._allowances.setdefault(spec.id, _Allowance(at_s=self._runtime.now()))
        if not allowance.take(self._runtime.now()):
            self.remarks_suppressed += 1
            return
        remark = Remark(spec.id, self.me.id, operator[:256], kind, text[:4_096])
        self._messenger.send(spec.proxy.address, remark)


def _is_continuous(run: Run) -> bool:
    """Whether a node may come to the query at any time: it answers in epochs."""
    return any(namespace.startswith(EPOCHS) for stage in run.stages for namespace in stage.namespaces)
