"""Whole nodes under every fault at once: questions and publications throughout, and judges outside the system.

Somebody asks somewhere, all the time, through the door that clients use: counts, groups, joins, answers every few
seconds (`pier_node.scenario.questions`); some change their minds, and cancel there or at any other node. Publishers
keep objects alive, and a table that is asked for as well (`pier_node.scenario.published_table`). Seen from outside, at
all times:

 * an account adds up; an answer that calls itself complete has exactly the rows of the nodes it asked, and none has
   more than those; an epoch has the rows of just as many nodes as it says;
 * an answer about the published table that calls itself complete has every row of the publisher that lives on, once,
   and no row twice;
 * a query ends within its budget, whatever happens to nodes, a cancelled one at once, and leaves nothing behind on any;
 * what a node holds stays within bounds.

And at the end, when the faults are over and the ring has had time to heal:

 * the living nodes are one ring: their arcs divide the circle, in the order of their ids;
 * every object whose publisher lives is at the node that owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from overlay.ring import owned_arc, routing_id
from overlay.stack import OverlayConfig
from pier_node.engine.service import QueryService
from pier_node.engine.tables import NodeTables
from pier_node.protocol.messages import QueryEntry
from pier_node.scenario.form import Form, NotNegative, Positive, Rate
from pier_node.scenario.overlay_nodes import Life, OverlayNodes
from pier_node.scenario.published_table import DRAWN as DRAWN_PUBLISHED
from pier_node.scenario.published_table import AskedRows, PublishedTable, Truth
from pier_node.scenario.questions import DRAWN, TABLE, Asked, table_of
from pier_node.scenario.sample import Sample
from pier_node.scenario.workload import Workload, register_workload
from pier_node.service import Failure, QueryRequest
from query.dataflow.budget import Limits
from query.engine.node import NODE_MESSAGES, EngineNode
from runtime.sim import SimHost, World

NAMESPACE = "kept"
#: How often what nodes hold is looked at.
LOOK_S = 30.0
#: Complaints of one kind that are told; all are counted.
TOLD_MAX = 5


class ChaosForm(Form, frozen=True):
    #: Quiet time between the last arrival and the first question.
    settle_s: NotNegative = 30.0
    #: Mean time between two questions.
    ask_every_s: Positive = 20.0
    #: The same for questions about the published table.
    ask_published_every_s: Positive = 10.0
    query_time_s: Positive = 30.0
    #: Share of the questions that are cancelled, within so long, and of those the share that is cancelled elsewhere.
    cancelled: Rate = 0.1
    cancelled_within_s: Positive = 5.0
    elsewhere: Rate = 0.5
    #: Share of the nodes that publish, what each publishes, and for how long it lives without its publisher.
    publishers: Rate = 0.1
    objects: int = 10
    lifetime_s: Positive = 150.0
    renewal_s: Positive = 60.0
    #: Bounds of what one node may hold at any time.
    runs_max: int = 64
    objects_held_max: int = 5_000
    requests_max: int = 2_000
    spreads_max: int = 64
    #: Timers and messages of the whole world, for each node.
    pending_per_node_max: int = 400


@dataclass(slots=True)
class _Kept:
    publisher: Life
    key: str
    value: bytes
    stored: bool = False


@dataclass(frozen=True, slots=True)
class _Node:
    """One node as its clients and the judges see it."""

    engine: EngineNode
    service: QueryService


def _listed(service: QueryService) -> tuple[QueryEntry, ...]:
    listed: list[tuple[QueryEntry, ...] | Failure] = []
    service.queries(listed.append)
    assert not isinstance(listed[0], Failure)
    return listed[0]


@register_workload("chaos")
class Chaos(Workload[ChaosForm]):
    form = ChaosForm
    messages = NODE_MESSAGES

    def __init__(self, world: World, form: ChaosForm) -> None:
        super().__init__(world, form)
        self._nodes = OverlayNodes(world, OverlayConfig(), world.rng("nodes"))
        self._rng = world.rng("chaos")
        self._published_rng = world.rng("published")
        self._doors: dict[int, _Node] = {}
        self._kept: list[_Kept] = []
        self._table = PublishedTable(world, form.lifetime_s)
        self._asked = 0
        #: Questions without an answer, and who was asked.
        self._open: dict[Asked, Life] = {}
        self._ended: dict[str, dict[str, int]] = {}
        self._complaints: dict[str, list[str]] = {}
        self._elapsed_s = Sample(world.rng("elapsed sample"))
        self._most: dict[str, int] = {}
        self._running = False

    # -- the load

    def build(self, host: SimHost) -> None:
        life = self._nodes.build(host)
        tables = NodeTables()
        tables.register(TABLE, table_of(life.number))
        engine = EngineNode(host.runtime, life.node, tables)
        limits = Limits(time_s=self.form_values.query_time_s)
        self._doors[life.number] = _Node(engine, QueryService(host.runtime, engine, limits))
        if self._running and self._rng.random() < self.form_values.publishers:
            host.runtime.call_later(10.0, self._publish, life)

    def start(self) -> None:
        self.world.call_at(self.world.now + self.form_values.settle_s, self._begin, None)

    def stop(self) -> None:
        self._running = False

    def _begin(self, _: None) -> None:
        self._running = True
        members = self._nodes.members()
        staying = next(life for life in members if life.number == 0)
        self._table.publish(staying, self._doors[staying.number].service)
        for life in self._rng.sample(members, max(1, round(len(members) * self.form_values.publishers))):
            self._publish(life)
        self._ask(None)
        self._ask_published(None)
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
        self._table.publish(life, self._doors[life.number].service)

    def _awake(self) -> list[Life]:
        """Members that take questions: a host that stands still has no door open."""
        return [life for life in self._nodes.members() if life.host.runtime.awake]

    def _ask(self, _: None) -> None:
        if not self._running:
            return
        form = self.form_values
        self.world.call_at(self.world.now + self._rng.expovariate(1.0 / form.ask_every_s), self._ask, None)
        members = self._awake()
        if not members:
            return
        life = self._rng.choice(members)
        question = self._rng.choice(DRAWN)
        asked = Asked(question, self._clock(life), form.query_time_s, self.complain, self._over)
        request = self._submit(life, asked)
        if self._rng.random() < form.cancelled:
            after_s = self._rng.uniform(0.0, form.cancelled_within_s)
            self.world.call_at(self.world.now + after_s, self._cancel, (asked, request.client))

    def _ask_published(self, _: None) -> None:
        if not self._running:
            return
        form, rng = self.form_values, self._published_rng
        after_s = rng.expovariate(1.0 / form.ask_published_every_s)
        self.world.call_at(self.world.now + after_s, self._ask_published, None)
        members = self._awake()
        if not members or not self._table.is_stored:
            return
        life, question = rng.choice(members), rng.choice(DRAWN_PUBLISHED)

        def truth() -> Truth:
            return self._table.truth(life, question)

        self._submit(
            life,
            AskedRows(question, self._clock(life), form.query_time_s, self.complain, self._over, truth),
        )

    def _clock(self, life: Life) -> Callable[[], float]:
        """Time as far as a node had any: no query can end at a host that stands still."""
        runtime = life.host.runtime
        return lambda: self.world.now - runtime.stood_still_s

    def _submit(self, life: Life, asked: Asked) -> QueryRequest:
        self._open[asked] = life
        self._asked += 1
        request = QueryRequest(asked.question.text, "sql", client=f"client {self._asked}")
        asked.handle = self._doors[life.number].service.query(request, asked)
        return request

    def _cancel(self, whose: tuple[Asked, str]) -> None:
        """As its client does, or as somebody does who sees the query in the list of any node."""
        asked, client = whose
        life, members = self._open.get(asked), self._awake()
        if life is None or not life.alive or not members:
            return
        assert asked.handle is not None
        if self._rng.random() >= self.form_values.elsewhere:
            asked.cancelled_at = self._clock(life)()
            asked.handle.cancel("the client changed its mind")
            return
        elsewhere = self._doors[self._rng.choice(members).number].service
        running = {entry.id for entry in _listed(elsewhere)}
        for entry in _listed(self._doors[life.number].service):
            if entry.client == client and entry.id in running:
                asked.may_be_cancelled = True
                elsewhere.cancel(entry.id, lambda reply: None)

    # -- judges while it runs

    def complain(self, kind: str, text: str) -> None:
        self._complaints.setdefault(kind, []).append(f"at {self.world.now:.1f} s: {text}")

    def _over(self, asked: Asked, how: str) -> None:
        self._open.pop(asked, None)
        self._elapsed_s.add(asked.age_s)
        ended = self._ended.setdefault(asked.question.name, {})
        ended[how] = ended.get(how, 0) + 1

    def _look(self, _: None) -> None:
        """Looks at what nodes hold, and at queries that should have ended."""
        form = self.form_values
        if self._running:
            self.world.call_at(self.world.now + LOOK_S, self._look, None)
        for life in self._nodes.living():
            statistics = life.node.dht.statistics()
            self._bound("runs", len(self._doors[life.number].engine.executor.runs), form.runs_max)
            self._bound("objects", statistics.store.objects, form.objects_held_max)
            self._bound("requests", statistics.requests.under_way, form.requests_max)
            self._bound("spreads", life.node.spread.statistics().open, form.spreads_max)
        living = sum(1 for _ in self._nodes.living())
        self._bound("pending", self.world.wheel.pending(), form.pending_per_node_max * max(1, living))
        for asked, life in list(self._open.items()):
            if not life.alive:
                del self._open[asked]
            elif asked.is_late():
                self.complain("budgets", f"{asked.question.name}, {asked.age_s:.1f} s old, has not ended")
                del self._open[asked]

    def _bound(self, what: str, held: int, most: int) -> None:
        self._most[what] = max(self._most.get(what, 0), held)
        if held > most:
            self.complain("bounds", f"{held} {what}, the bound is {most}")

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
        left = [
            f"{asked.question.name}, {asked.age_s:.1f} s old, never ended"
            for asked, life in self._open.items()
            if life.alive
        ]
        for life in self._nodes.living():
            engine = self._doors[life.number].engine
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
            "queries": sum(sum(ended.values()) for ended in self._ended.values()),
            "ended": {kind: dict(sorted(ended.items())) for kind, ended in sorted(self._ended.items())},
            "elapsed_s": self._elapsed_s.figures(),
            "published": len(self._kept),
            "live_objects": len(self._live_objects()),
            "members": len(self._nodes.members()),
            "lives": len(self._nodes.lives),
            "most": dict(sorted(self._most.items())),
        }
