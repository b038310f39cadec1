"""Whole nodes under every fault at once: questions and publications throughout, and judges outside the system.

Every node has the same number of rows of a table of its own. Somebody asks somewhere, all the time, how many rows there
are, in all or by group; publishers keep objects alive. Seen from outside, at all times:

 * an account adds up; an answer that calls itself complete has exactly the rows of the nodes it asked, and none has
   more than those;
 * a query ends within its budget, whatever happens to nodes, and leaves nothing behind on any of them;
 * what a node holds stays within bounds.

And at the end, when the faults are over and the ring has had time to heal:

 * the living nodes are one ring: their arcs divide the circle, in the order of their ids;
 * every object whose publisher lives is at the node that owns it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from overlay.ring import owned_arc, routing_id
from overlay.stack import OverlayConfig
from pier_node.engine.compilers import LANGUAGES, Text, compiled
from pier_node.engine.tables import NodeTables
from pier_node.scenario.form import Form, NotNegative, Positive, Rate
from pier_node.scenario.overlay_nodes import Life, OverlayNodes
from pier_node.scenario.sample import Sample
from pier_node.scenario.workload import Workload, register_workload
from pier_node.service import Failure
from pier_node.sources.static import StaticTable
from query.batch import Batch
from query.dataflow.budget import Limits
from query.engine.account import Account
from query.engine.messages import Remark
from query.engine.node import NODE_MESSAGES, EngineNode
from query.engine.proxy import TooManyQueries
from query.plan import Plan
from runtime.sim import SimHost, World
from ufl.sql.tables import TableInfo

TABLE, NAMESPACE = "rows", "kept"
GROUPS = 5
COUNT = f"SELECT count(*) AS n FROM {TABLE}"
BY_GROUP = f"SELECT g, count(*) AS n FROM {TABLE} GROUP BY g"
#: What a query may take beyond its limit of time: the grace in which nodes that ran out of it say so, and a timer's
#: turn on a host that is slow or whose clock drifts.
BUDGET_SLACK_S = 7.0
#: How often what nodes hold is looked at.
LOOK_S = 30.0
#: Complaints of one kind that are told; all are counted.
TOLD_MAX = 5


class ChaosForm(Form, frozen=True):
    #: Quiet time between the last arrival and the first question.
    settle_s: NotNegative = 30.0
    rows_per_node: int = 10
    #: Mean time between two questions.
    ask_every_s: Positive = 20.0
    query_time_s: Positive = 30.0
    #: Share of the nodes that publish, what each publishes, and for how long it lives without its publisher.
    publishers: Rate = 0.1
    objects: int = 10
    lifetime_s: Positive = 150.0
    renewal_s: Positive = 60.0
    #: Bounds of what one node may hold at any time.
    runs_max: int = 64
    objects_held_max: int = 5_000
    requests_max: int = 2_000
    #: Timers and messages of the whole world, for each node.
    pending_per_node_max: int = 400


@dataclass(slots=True)
class _Kept:
    publisher: Life
    key: str
    value: bytes
    stored: bool = False


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that each node has, as a reader of them."""

    rows: pa.RecordBatch

    def schema(self) -> pa.Schema:
        return self.rows.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield self.rows


class _Asked:
    """One question, and who judges its answer."""

    def __init__(self, chaos: Chaos, life: Life) -> None:
        self.chaos = chaos
        self.life = life
        self.asked_at = chaos.world.now
        self.rows_counted = 0
        self.account: Account | None = None

    def rows(self, batch: Batch) -> bool:
        self.rows_counted += sum(row["n"] for row in batch.to_rows())
        return True

    def progress(self, asked: int, answered: int) -> None:
        """Nobody watches."""

    def remark(self, remark: Remark) -> None:
        """Nobody listens."""

    def finish(self, account: Account) -> None:
        if self.account is not None:
            self.chaos.complain("accounts", f"query {account.query} finished twice")
        self.account = account
        self.chaos.judge(self, account)


@register_workload("chaos")
class Chaos(Workload[ChaosForm]):
    form = ChaosForm
    messages = NODE_MESSAGES

    def __init__(self, world: World, form: ChaosForm) -> None:
        super().__init__(world, form)
        self._nodes = OverlayNodes(world, OverlayConfig(), world.rng("nodes"))
        self._rng = world.rng("chaos")
        self._engines: dict[int, EngineNode] = {}
        self._kept: list[_Kept] = []
        self._asked: list[_Asked] = []
        self._ended: dict[str, int] = {}
        self._complaints: dict[str, list[str]] = {}
        self._elapsed_s = Sample(world.rng("elapsed sample"))
        self._most: dict[str, int] = {}
        self._running = False
        self._rows = _Rows(pa.record_batch({"g": [n % GROUPS for n in range(form.rows_per_node)]}))
        self._tables = {TABLE: TableInfo({"g": pa.int64()}, ("source",))}

    def _plan(self, grouped: bool) -> Plan:
        """Made for each query: the namespaces of a plan carry its id."""
        query_id = self._rng.randbytes(8).hex()
        made = compiled(LANGUAGES["sql"], Text(BY_GROUP if grouped else COUNT, query_id, 0, self._tables))
        assert not isinstance(made, Failure), made
        return made.plan

    # -- the load

    def build(self, host: SimHost) -> None:
        life = self._nodes.build(host)
        tables = NodeTables()
        tables.register(TABLE, StaticTable(TABLE, self._rows))
        self._engines[life.number] = EngineNode(host.runtime, host.messenger, life.node, tables)
        if self._running and self._rng.random() < self.form_values.publishers:
            host.runtime.call_later(10.0, self._publish, life)

    def start(self) -> None:
        self.world.call_at(self.world.now + self.form_values.settle_s, self._begin, None)

    def stop(self) -> None:
        self._running = False

    def _begin(self, _: None) -> None:
        self._running = True
        members = self._nodes.members()
        for life in self._rng.sample(members, max(1, round(len(members) * self.form_values.publishers))):
            self._publish(life)
        self._ask(None)
        self._look(None)

    def _publish(self, life: Life) -> None:
        form = self.form_values
        fresh = [_Kept(life, f"{life.number}/{n}", self._rng.randbytes(50)) for n in range(form.objects)]
        self._kept += fresh
        puts = [PutObject(Name(NAMESPACE, each.key, "0"), each.value, form.lifetime_s) for each in fresh]

        def done(codes: list[Code]) -> None:
            for each, code in zip(fresh, codes, strict=True):
                each.stored = code is Code.OK

        life.node.publisher.publish(puts, done, period_s=form.renewal_s)

    def _ask(self, _: None) -> None:
        if not self._running:
            return
        form = self.form_values
        self.world.call_at(self.world.now + self._rng.expovariate(1.0 / form.ask_every_s), self._ask, None)
        members = self._nodes.members()
        if not members:
            return
        life = self._rng.choice(members)
        asked = _Asked(self, life)
        plan = self._plan(grouped=self._rng.random() < 0.5)
        try:
            self._engines[life.number].proxy.submit(plan, Limits(time_s=form.query_time_s), asked)
        except TooManyQueries as error:
            self.complain("bounds", str(error))
            return
        self._asked.append(asked)

    # -- judges while it runs

    def complain(self, kind: str, text: str) -> None:
        self._complaints.setdefault(kind, []).append(f"at {self.world.now:.1f} s: {text}")

    def judge(self, asked: _Asked, account: Account) -> None:
        self._ended[account.ended] = self._ended.get(account.ended, 0) + 1
        elapsed_s = self.world.now - asked.asked_at
        self._elapsed_s.add(elapsed_s)
        if elapsed_s > self.form_values.query_time_s + BUDGET_SLACK_S:
            self.complain("budgets", f"query {account.query} took {elapsed_s:.1f} s")
        parts = account.answered + account.empty + account.failed + account.unreachable
        if account.asked != parts:
            self.complain("accounts", f"{account.asked} asked are not {parts}: {account}")
        expected = self.form_values.rows_per_node * account.asked
        if account.ended == "complete" and asked.rows_counted < expected:
            self.complain("answers", f"{asked.rows_counted} rows and not {expected}: {account}")
        if asked.rows_counted > expected:
            self.complain("answers", f"{asked.rows_counted} rows of nodes that are not counted: {account}")

    def _look(self, _: None) -> None:
        """Looks at what nodes hold, and at queries that should have ended."""
        form = self.form_values
        if self._running:
            self.world.call_at(self.world.now + LOOK_S, self._look, None)
        for life in self._nodes.living():
            statistics = life.node.dht.statistics()
            self._bound("runs", len(self._engines[life.number].executor.runs), form.runs_max)
            self._bound("objects", statistics.store.objects, form.objects_held_max)
            self._bound("requests", statistics.requests.under_way, form.requests_max)
        living = sum(1 for _ in self._nodes.living())
        self._bound("pending", self.world.wheel.pending(), form.pending_per_node_max * max(1, living))
        overdue_s = form.query_time_s + BUDGET_SLACK_S
        late = [each for each in self._open() if self.world.now - each.asked_at > overdue_s]
        for each in late:
            self.complain("budgets", f"a query asked at {each.asked_at:.1f} s has not ended")
        self._asked = [each for each in self._open() if each not in late]

    def _bound(self, what: str, held: int, most: int) -> None:
        self._most[what] = max(self._most.get(what, 0), held)
        if held > most:
            self.complain("bounds", f"{held} {what}, the bound is {most}")

    def _open(self) -> Iterator[_Asked]:
        """Questions without an account whose asker lives."""
        return (each for each in self._asked if each.account is None and each.life.alive)

    # -- the end

    def _ring_problems(self) -> list[str]:
        living = sorted(self._nodes.living(), key=lambda life: life.id)
        outside = [life.number for life in living if not life.node.router.joined]
        problems = [f"node {number} lives and is no member" for number in outside]
        members = [life for life in living if life.node.router.joined]
        for at, life in enumerate(members):
            before, after = members[at - 1], members[(at + 1) % len(members)]
            right = owned_arc(before.id, life.id, after.id)
            if len(members) > 1 and life.node.router.arc() != right:
                problems.append(f"node {life.number} owns {life.node.router.arc()} and not {right}")
        return problems

    def _lost(self) -> list[str]:
        members = sorted(self._nodes.members(), key=lambda life: life.id)
        lost = []
        for each in self._live_objects():
            owner = self._nodes.owner(routing_id(NAMESPACE, each.key), members)
            if owner.node.dht.peek(Name(NAMESPACE, each.key, "0")) != each.value:
                lost.append(f"object {each.key} is not at its owner, node {owner.number}")
        return lost

    def _live_objects(self) -> list[_Kept]:
        return [each for each in self._kept if each.publisher.alive and each.stored]

    def _leftovers(self) -> list[str]:
        left = [f"a query asked at {each.asked_at:.1f} s never ended" for each in self._open()]
        for life in self._nodes.living():
            engine = self._engines[life.number]
            left += [f"query {query} is left at node {life.number}" for query in engine.executor.runs]
            left += [f"query {query} is left at its asker {life.number}" for query in engine.proxy.queries]
            if spreads := life.node.spread.statistics().open:
                left.append(f"{spreads} spreads are open at node {life.number}")
        return left

    def check(self) -> list[str]:
        told = []
        judged = {
            **self._complaints,
            "ring": self._ring_problems(),
            "lost": self._lost(),
            "leftovers": self._leftovers(),
        }
        for kind, lines in judged.items():
            told += [f"{kind}: {line}" for line in lines[:TOLD_MAX]]
            if len(lines) > TOLD_MAX:
                told.append(f"{kind}: and {len(lines) - TOLD_MAX} more")
        return told

    def figures(self) -> Mapping[str, Any]:
        return {
            "simulated_hours": round(self.world.now / 3600.0, 3),
            "queries": sum(self._ended.values()),
            "ended": dict(sorted(self._ended.items())),
            "elapsed_s": self._elapsed_s.figures(),
            "published": len(self._kept),
            "live_objects": len(self._live_objects()),
            "members": len(self._nodes.members()),
            "lives": len(self._nodes.lives),
            "most": dict(sorted(self._most.items())),
        }
