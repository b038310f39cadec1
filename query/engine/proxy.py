"""The asker's side of a query: spreads it stage by stage, collects rows, ends it with an account (PIER 3.3.2).

    query = proxy.submit(plan, limits, sink)      at the node the client is connected to
    sink.rows(batch), sink.remark(...)            while it runs
    sink.finish(account)                          once, at the end, however it ends
    query.cancel(reason)                          at any time

A stage is one spread: it comes back when every node it reached is done with that stage or known to be gone. A cyclic
stage is done when nothing is on the way and nobody has work left: two successive waves that agree on that, with as
many batches taken as put (Mattern's four counters). Nodes that die take counts with them: then the two numbers may
never be equal, and it is enough that nobody has work left, which includes puts that wait for their acknowledgement.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import msgspec

from overlay.ring import MASK, Arc, WireArc, from_wire
from overlay.router import Router
from overlay.spread.account import Account as Coverage
from overlay.spread.branch import Branch
from overlay.spread.spread import Spread
from query.causes import Cause, WireCauses, added
from query.dataflow.budget import Limits
from query.engine import taps
from query.engine.absentees import NOBODY, Roll
from query.engine.account import Account, best_known, settled
from query.engine.aim import arcs_of, published_arcs, spread_over
from query.engine.census import PERIOD_S, Census
from query.engine.executor import TOPIC, TOPIC_END
from query.engine.filters import cut
from query.engine.groups import GroupOwners
from query.engine.messages import Remark, ResultBatch
from query.engine.results import OwnRows, ResultReceiver
from query.engine.sink import Sink as Sink
from query.engine.spec import (
    CLIENT_CHARS_MAX,
    ERROR_CHARS_MAX,
    ERRORS_MAX,
    GROUPS_MAX,
    OwnReport,
    QuerySpec,
    Report,
    StageCall,
    decode_own_report,
    decode_report,
    encode,
)
from query.engine.splits import Splits
from query.engine.stages import (
    is_continuous,
    keeps_rows,
    needs_owners,
    shared,
    stages,
    takes_all,
    takes_overflow,
    without_rows,
)
from query.engine.tiles import judged
from query.engine.trees import CHANNEL_BYTES_MAX, EMPTY, Trees
from query.plan import Plan
from runtime.api import Address, Messenger, Runtime

_log = logging.getLogger("pier.query")

#: Counts of nodes that are remembered: who died is in the accounts of epochs for about a minute.
CENSUSES = 4
#: Queries one node is proxy of at a time.
QUERIES_MAX = 256
#: All results on their way to one query's asker, over all nodes, and the least and most for one node.
WINDOW_TOTAL_BYTES = 64 << 20
WINDOW_LEAST_BYTES = 64 << 10
WINDOW_MOST_BYTES = 4 << 20
#: Partition groups: some for every node, so that owners share evenly, within bounds.
GROUPS_PER_NODE = 4
GROUPS_LEAST = 64
#: After its time a query has this long for the reports of nodes that stopped it before it is ended here.
GRACE_S = 5.0
#: Endings before all nodes have said how it went.
CUT = ("cancelled", "limit")
#: And for adding up what came, which takes a turn.
CONCLUDE_S = 1.0
CANCELLED_ELSEWHERE = "cancelled at another node"
#: Between the waves of a cyclic stage: short at first, so that small recursions end at once.
WAVE_LEAST_S = 0.01
WAVE_MOST_S = 0.5
#: Waves that agree on batches put and never taken, with all nodes alive and idle, before these are given up as lost.
WAVES_STUCK_MAX = 10


class TooManyQueries(Exception):
    """This node is proxy of as many queries as it may be."""


class ProxyQuery:
    """One query as its proxy sees it."""

    def __init__(self, proxy: Proxy, spec: QuerySpec, sink: Sink) -> None:
        self.spec = spec
        self.sink = sink
        self.started_s = proxy.runtime.now()
        self.results = ResultReceiver(spec, proxy.messenger, sink.rows)
        self.ended = False
        self._nodes: deque[int] = deque(maxlen=CENSUSES)
        self._proxy = proxy
        self._stages = stages(spec.plan)
        self._arcs = arcs_of(spec, proxy.own_point)
        #: Calls of the first stage that reached a node a second time.
        self._again = 0
        self._first: Coverage | None = None
        self._errors: dict[str, None] = {}
        self._causes: WireCauses = {}
        self._call_roll = proxy.roll.of(spec.plan)
        self.absent = NOBODY
        #: The last report of nodes other than the asker alone: what is known when it ends before its time.
        self._heard = Report()
        self._wave = 0
        self._last_wave: Report | None = None
        self._wave_delay_s = WAVE_LEAST_S
        self._waves_alike = 0
        self._covered: Coverage | None = None
        self._shared = shared(spec.plan, self._stages)
        #: Whether nodes hold rows of the query beyond their own part in it; and whether all that is put is taken.
        self._takes_all = takes_all(spec.plan)
        self._held_elsewhere = keeps_rows(spec.plan)
        self._overflowed: tuple[str, ...] = ()
        #: Bloom filters that the last stage made, for the next one.
        self._filters: dict[str, bytes] = {}
        #: Spreads that are out, and whether the query's time is up: who has not answered then has failed.
        self._roots: list[Branch] = []
        self._late = False
        self._deadline = proxy.runtime.call_later(spec.limits.time_s + GRACE_S, self._overdue, None)

    def start(self) -> None:
        """Rows of a group must meet at one node: who that is, is settled before the first node is asked."""
        if is_continuous(self._stages):
            self._proxy.census.watch(self.spec.id, self._counted)
        if not needs_owners(self.spec.plan):
            self._stage(0)
            return

        def found(owners: tuple[Address, ...], group_owner: tuple[int, ...]) -> None:
            self.spec = msgspec.structs.replace(self.spec, owners=owners, group_owner=group_owner)
            self._proxy.runtime.call_later(0.0, lambda _: self.guard(lambda: self._stage(0)), None)

        self._proxy.find_owners(self.spec, found, self._unsettled)

    def _counted(self, nodes: int, lacking: int, coverage: Coverage) -> None:
        """So many nodes there are for the epochs of a continuous query to count against, and those that died lately; if
        some have come since it went out, it goes to them, too."""
        self._nodes.append(nodes)
        self.absent = self._call_roll(coverage)
        self.sink.progress(max(self._nodes), 0)
        if lacking and self._proxy.runtime.now() - self.started_s >= PERIOD_S:
            for root in self._roots:
                self._proxy.spread.renew(root)
            self._proxy.splits.announce_again(self.spec.id)

    @property
    def expected(self) -> int | None:
        """Of how many nodes an epoch should have data, those apart that are absent; None while nobody has been counted.
        The census comes now and then; whom it has not met yet, as a host that has just come back, the roster knows."""
        if not self._nodes:
            return None
        return max(*self._nodes, self._proxy.roll.expected - self.absent.count)

    def _unsettled(self) -> None:
        self.note(Cause.UNOWNED, 1, "the ring is not settled: owners of keys cannot be found; try again")
        self._finish(self._heard, "failed")

    def guard(self, call: Callable[[], None]) -> None:
        """Whatever goes wrong in here ends this query, with its account, and nothing else."""
        if self.ended:
            return
        try:
            call()
        except Exception as error:
            _log.exception("query failed at its asker", extra={"details": {"query": self.spec.id}})
            self.note(Cause.ERROR, 1, f"{type(error).__name__}: {error}")
            self._finish(self._heard, "failed")

    def ready(self) -> None:
        """The reader has caught up."""
        self.guard(self.results.ready)

    def cancel(self, reason: str) -> None:
        """Ends the query on every node."""
        if not self.ended:
            self.note(Cause.CANCELLED, 1, reason)
            self._finish(self._heard, "cancelled")

    def note(self, cause: Cause, count: int, text: str) -> None:
        """Something that the asker knows takes rows from the answer."""
        self._causes = added(self._causes, {cause.number: count})
        self._say(text)

    def _say(self, *texts: str) -> None:
        """Words for people; beyond their number they are left out, while causes are counted all."""
        for text in texts:
            if len(self._errors) < ERRORS_MAX:
                self._errors[text[:ERROR_CHARS_MAX]] = None

    def taps(self, on: bool, operators: tuple[str, ...]) -> None:
        """Shows what flows at some operators, or at all, on every node; or stops showing it."""
        if not self.ended:
            call = taps.encode(taps.TapCall(self.spec.id, on, operators))
            self._proxy.spread.start(taps.TOPIC, call, lambda reply, coverage: None)

    # -- stages

    def _stage(self, number: int) -> None:
        if self._stages[number].cyclic:
            self._next_wave(number)
        else:
            call = StageCall(
                self.spec,
                number,
                number,
                overflowed=self._overflowed,
                alone=number >= self._shared,
                filters=self._filters,
            )
            self._call(call, lambda report: self._advance(number, report))

    def _advance(self, number: int, report: Report) -> None:
        if report.trees:
            self._take_trees(number, report.trees)
        self._filters = cut(report.filters, len(self.spec.owners))
        if number + 1 < len(self._stages):
            self._stage(number + 1)
        else:
            # Every row has arrived; the account comes behind the last one the client takes.
            self.results.when_empty(lambda: self._finish(report, "complete"))

    def _take_trees(self, number: int, trees: dict[str, bytes]) -> None:
        """States have climbed to the root. Where none outgrew the tree, the stages made for that have nothing to do."""
        for channel in (channel for channel, payload in trees.items() if payload == EMPTY):
            self._overflowed += (channel,)
            if not takes_overflow(self.spec.plan, channel):
                self.note(
                    Cause.LIMIT,
                    1,
                    f"limit {CHANNEL_BYTES_MAX} bytes of partial states in a tree reached at channel {channel}; "
                    "the plan has no scan Overflow for them",
                )
        self._proxy.take_trees(self.spec.id, trees)
        idle = without_rows(self.spec.plan, self._overflowed)
        needed = max(number + 1, shared(self.spec.plan, self._stages, idle))
        self._held_elsewhere = self._held_elsewhere or needed < self._shared
        self._shared = needed

    def _call(self, call: StageCall, then: Callable[[Report], None]) -> None:
        def done(reply: bytes | None, coverage: Coverage) -> None:
            self._roots = []
            self.guard(lambda: told(reply, coverage))

        def told(reply: bytes | None, coverage: Coverage) -> None:
            report = self._read(reply, call.alone)
            if self._first is None:
                self._first, self._again = coverage, report.again
            if not call.alone:
                self._covered = coverage
                self.sink.progress(
                    self._first.received + self._first.unreachable - self._again,
                    report.answered + report.empty,
                )
            if self._late:
                self._finish(best_known(self._heard, report), "limit")
            else:
                self._heard = report
                then(report)

        arcs = (self._proxy.own_point,) if call.alone else self._arcs
        combine = Trees(self.spec.plan).combine
        self._roots = spread_over(self._proxy.spread, arcs, TOPIC, encode(call), done, combine)

    def _read(self, reply: bytes | None, alone: bool) -> Report:
        """The report of all nodes; the asker alone says what it adds to that, and what it had said before."""
        if not alone:
            report = Report() if reply is None else decode_report(reply)
            self._say(*report.errors)
            return report
        own = OwnReport(Report()) if reply is None else decode_own_report(reply)
        self._say(*own.now.errors)
        return msgspec.structs.replace(
            self._heard.less(own.earlier).plus(own.now), trees=own.now.trees, filters=own.now.filters
        )

    # -- waves

    def _next_wave(self, number: int) -> None:
        self._wave += 1
        call = StageCall(self.spec, number, number, self._wave, filters=self._filters)
        self._call(call, lambda report: self._waved(number, report))

    def _waved(self, number: int, report: Report) -> None:
        last, self._last_wave = self._last_wave, report
        idle = (report.sent, report.received, 0)
        alike = last is not None and (last.sent, last.received, last.busy) == idle and report.busy == 0
        self._waves_alike = self._waves_alike + 1 if alike else 0
        if self._is_quiet(report):
            self._last_wave, self._wave_delay_s, self._waves_alike = None, WAVE_LEAST_S, 0
            self._call(StageCall(self.spec, number, number + 1), lambda done: self._advance(number, done))
            return
        delay_s, self._wave_delay_s = self._wave_delay_s, min(WAVE_MOST_S, self._wave_delay_s * 2)
        self._proxy.runtime.call_later(delay_s, lambda _: self.guard(lambda: self._next_wave(number)), None)

    def _is_quiet(self, report: Report) -> bool:
        """Whether the waves so far show that nothing can happen any more."""
        if self._waves_alike == 0:
            return False
        if report.sent == report.received or self._has_lost_nodes():
            return True
        return self._waves_alike >= WAVES_STUCK_MAX

    def _has_lost_nodes(self) -> bool:
        first, now = self._first, self._covered
        if first is None or now is None:
            return False
        return bool(first.failed or first.unreachable) or now.answered < first.received

    # -- the end

    def _overdue(self, _: None) -> None:
        """Its time is up: it ends with what has come, at once, or if that goes wrong a moment later."""
        text = f"limit time_s = {self.spec.limits.time_s:g} reached; raise it with --limit time_s=…"
        self.note(Cause.LIMIT, 1, text)
        self._late = True
        self._deadline = self._proxy.runtime.call_later(
            CONCLUDE_S, lambda _: self._finish(self._heard, "limit"), None
        )
        roots = self._roots
        if not roots:
            self._finish(self._heard, "limit")
        for root in roots:
            self.guard(root.conclude)

    def _finish(self, report: Report, ended: str) -> None:
        if self.ended:
            return
        self.ended = True
        self._deadline.cancel()
        self._proxy.census.forget(self.spec.id)
        for root in self._roots:
            root.cancel()
        self._roots = []
        if ended != "complete" or self._held_elsewhere:
            self._proxy.end_everywhere(self.spec.id)
        account = self._account(report, ended)
        self._proxy.forget(self)
        self.sink.finish(account)

    def _account(self, report: Report, ended: str) -> Account:
        if self.results.malformed:
            text = f"{self.results.malformed} result messages could not be read"
            self.note(Cause.UNREADABLE, self.results.malformed, text)
        first = self._first if self._first is not None else Coverage()
        self.absent = self._call_roll(first)
        if self.absent.lacking:
            self.note(Cause.ABSENT, self.absent.lacking, self.absent.text())
        if ended == "complete":
            for cause, count, text in judged(
                report.tiles, published_arcs(self.spec, self._stages), report.causes
            ):
                self.note(cause, count, text)
        return settled(
            self.spec.id,
            replace(first, received=max(0, first.received - self._again)),
            msgspec.structs.replace(report, causes=added(report.causes, self._causes)),
            tuple(self._errors),
            self.results.rows,
            self._proxy.runtime.now() - self.started_s,
            ended,
            len(self.spec.owners),
            # Cut short: of a plan without meetings all rows that came are their nodes' own.
            gave=self.results.nodes if ended in CUT and len(self._stages) == 1 else 0,
            takes_all=self._takes_all,
            absent=self.absent,
        )


class Proxy:
    """All queries that clients of this node have asked."""

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        spread: Spread,
        census: Census,
        splits: Splits,
        window_total_bytes: int = WINDOW_TOTAL_BYTES,
        take_trees: Callable[[str, dict[str, bytes]], None] = lambda query_id, trees: None,
        roll: Roll | None = None,
    ) -> None:
        """`take_trees` gets the combined states of put Tree, for the opgraphs at the asker."""
        self.take_trees = take_trees
        self.roll = roll or Roll()
        self.window_total_bytes = window_total_bytes
        #: The most partition groups of a query; and who owns a key, where that is known without asking the ring.
        self.groups_max = GROUPS_MAX
        self.owner_of: Callable[[int], Address] | None = None
        self.runtime = runtime
        self.messenger = messenger
        self.spread = spread
        self.census = census
        self.splits = splits
        self.queries: dict[str, ProxyQuery] = {}
        self.strays = 0
        self._router = router
        self._rng = runtime.rng("proxy")
        messenger.on(ResultBatch, self._result)
        messenger.on(Remark, self._remark)

    def submit(
        self,
        plan: Plan,
        limits: Limits,
        sink: Sink,
        complain: bool = False,
        part: WireArc | None = None,
        client: str = "",
    ) -> ProxyQuery:
        """Starts a query whose plan has been checked, for a client, on a part of the ring. Raises TooManyQueries."""
        if len(self.queries) >= QUERIES_MAX:
            raise TooManyQueries(f"limit {QUERIES_MAX} queries at once on this node reached")
        nodes = self.spread.about_nodes()
        spec = QuerySpec(
            self._rng.randbytes(8).hex(),
            plan,
            self._router.me,
            limits,
            time_us=int(self.runtime.wall() * 1e6),
            window_bytes=max(WINDOW_LEAST_BYTES, min(WINDOW_MOST_BYTES, self.window_total_bytes // nodes)),
            complain=complain,
            part=part,
            client=client[:CLIENT_CHARS_MAX],
            groups=min(self.groups_max, max(GROUPS_LEAST, 1 << (nodes * GROUPS_PER_NODE - 1).bit_length())),
        )
        query = self.queries[spec.id] = ProxyQuery(self, spec, sink)
        query.start()
        return query

    def find_owners(
        self,
        spec: QuerySpec,
        found: Callable[[tuple[Address, ...], tuple[int, ...]], None],
        failed: Callable[[], None],
    ) -> None:
        """Divides the partition groups of a query among the nodes."""
        GroupOwners(self._router, spec.id, spec.groups, found, failed, self.owner_of).start()

    @property
    def own_point(self) -> Arc:
        """The arc that this node alone is in."""
        me = from_wire(self._router.me.id)
        return Arc(me, (me + 1) & MASK)

    def forget(self, query: ProxyQuery) -> None:
        self.queries.pop(query.spec.id, None)

    def end_everywhere(self, query_id: str) -> None:
        """Tells every node that a query is over."""
        self.spread.start(TOPIC_END, query_id.encode(), lambda reply, coverage: None)

    def cancelled(self, query_id: str) -> None:
        """Somebody has ended a query everywhere: at another node, if it was asked here."""
        query = self.queries.get(query_id)
        if query is not None:
            query.cancel(CANCELLED_ELSEWHERE)

    def _result(self, sender: Address, message: ResultBatch) -> None:
        if (query := self._known(message.query)) is not None:
            query.guard(lambda: query.results.arrived(sender, message))

    def _known(self, query_id: str) -> ProxyQuery | None:
        """The query that a message is for; one that is over is a stray."""
        query = self.queries.get(query_id)
        self.strays += query is None
        return query

    def handed(self, own: OwnRows) -> None:
        """Rows that this node gives to a query that was asked here."""
        if (query := self._known(own.query)) is not None:
            query.guard(lambda: query.results.handed(own))

    def _remark(self, sender: Address, remark: Remark) -> None:
        if (query := self._known(remark.query)) is not None:
            query.sink.remark(remark)
