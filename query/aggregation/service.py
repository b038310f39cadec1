"""All aggregations of one node: states, redirects and results to the session they belong to.

A state that comes to a node which the query has not reached yet waits for it a while; one that comes to a node
where it has ended is routed on from there, past all others where it has ended too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from overlay.dht.loopback import Loopback
from overlay.dht.messages import Cause
from overlay.dht.operations import GotObject
from overlay.dht.recent import Recent
from overlay.dht.verbs import Dht
from overlay.dht.watch import NewData, Subscription
from overlay.objects.name import Prefix
from overlay.ring import routing_id
from overlay.router import Passage, Router, Verdict
from query.aggregation.epoch import Combine
from query.aggregation.messages import Clock, EpochResult, Psr, Redirect
from query.aggregation.session import Edges, Session, SessionCounts, SessionSpec, Source
from query.aggregation.strategy import Routing, Structure
from query.aggregation.transit import ROOT_KEY, Transit, namespace_of
from query.dataflow.budget import LimitReached
from runtime.api import Address, Messenger, Runtime
from runtime.message import Message

#: Aggregations at work on one node, and results one waits for.
SESSIONS_MAX = 4_096
#: States that wait for their query, over all of them, and for how long.
EARLY_MAX = 65_536
EARLY_S = 15.0
#: States put into the DHT that the root of one aggregation remembers.
PUTS_SEEN_MAX = 65_536
#: Ids of ended aggregations that are remembered.
ENDED_MAX = 4_096
_decoder = msgspec.msgpack.Decoder(Psr)


class TooManySessions(LimitReached):
    """This node has as many aggregations at work as it may."""


@dataclass(slots=True)
class _Part:
    session: Session
    subscription: Subscription | None


class Aggregations:
    """The service."""

    def __init__(self, runtime: Runtime, messenger: Messenger, router: Router, dht: Dht) -> None:
        self._runtime = runtime
        self._messenger = Loopback.over(runtime, messenger)
        self._router = router
        self._dht = dht
        self._parts: dict[str, _Part] = {}
        self._askers: dict[str, Callable[[Address, EpochResult], None]] = {}
        self._early: dict[str, list[tuple[Psr, Address]]] = {}
        self._early_count = 0
        self._ended: Recent[str] = Recent(ENDED_MAX)
        #: States and results that nobody here knows, and states that could not be read.
        self.strays = 0
        self.malformed = 0
        #: Of aggregations that are over: states lost, late and malformed.
        self._lost = (0, 0, 0)
        router.on_upcall(Psr, self._passing)
        router.on_deliver(Psr, self._delivered)
        self._messenger.on(Psr, self._direct)
        self._messenger.on(Clock, self._told_time)
        self._messenger.on(Redirect, self._redirected)
        self._messenger.on(EpochResult, self._result)

    @property
    def address(self) -> Address:
        return self._runtime.address

    def __len__(self) -> int:
        return len(self._parts)

    def open(
        self,
        spec: SessionSpec,
        combine: Combine,
        source: Source,
        edges: Callable[[], Edges] | None = None,
        age_s: float = 0.0,
        over: Callable[[], None] | None = None,
        first: int = 0,
    ) -> Session:
        """This node takes part from now on, in epochs from `first`; `over` is called when there is nothing left for it
        to do. Raises TooManySessions."""
        if len(self._parts) >= SESSIONS_MAX:
            raise TooManySessions(f"limit {SESSIONS_MAX} aggregations at once on this node reached")
        assert spec.id not in self._parts, "opened twice"
        transit = Transit(spec, self._messenger, self._router, self._dht, SessionCounts())
        session = Session(spec, self._runtime, transit, combine, source, edges, age_s, over, first)
        self._parts[spec.id] = _Part(session, self._watch(session))
        for psr, previous in self._take_early(spec.id):
            session.arrived(psr, previous)
        return session

    def close(self, session_id: str) -> None:
        part = self._parts.pop(session_id, None)
        if part is not None:
            self._ended.add(session_id)
            part.session.close()
            self._count(part.session.counts)
            if part.subscription is not None:
                part.subscription.cancel()

    def listen(self, session_id: str, handler: Callable[[Address, EpochResult], None]) -> Callable[[], None]:
        """At the asker: calls handler(root, result) for each result; returns what ends it."""
        if len(self._askers) >= SESSIONS_MAX:
            raise TooManySessions(f"limit {SESSIONS_MAX} aggregations asked at once at this node reached")
        self._askers[session_id] = handler
        return lambda: self._askers.pop(session_id, None) and None

    def dropped(self) -> dict[str, int]:
        """States that were lost on their way or came too late, that nobody knows or that could not be read."""
        lost, late, malformed = self._lost
        for part in self._parts.values():
            counts = part.session.counts
            lost, late, malformed = lost + counts.lost, late + counts.late, malformed + counts.malformed
        return {
            "of_no_query": self.strays,
            "malformed": self.malformed + malformed,
            "lost": lost,
            "late": late,
        }

    def _count(self, counts: SessionCounts) -> None:
        """Of an aggregation that is over its counts stay."""
        lost, late, malformed = self._lost
        self._lost = (lost + counts.lost, late + counts.late, malformed + counts.malformed)

    # -- states

    def _watch(self, session: Session) -> Subscription | None:
        """With one level and the DHT, states are put: the owner of the root id sees them come."""
        strategy = session.spec.strategy
        if strategy.routing is not Routing.DHT or strategy.structure is not Structure.ONE_LEVEL:
            return None
        prefix = Prefix(namespace_of(session.spec.id))
        # An object that arrives while those already here are looked at is seen twice; one that moved was counted
        # where it came from.
        seen: Recent[str] = Recent(PUTS_SEEN_MAX)

        def caught_up(found: list[GotObject]) -> None:
            for each in found:
                arrived(each)

        def arrived(data: NewData | GotObject) -> None:
            moved = isinstance(data, NewData) and data.cause is Cause.MOVED
            if moved or not session.is_root or not seen.add(data.name.suffix):
                return
            try:
                psr = _decoder.decode(data.value)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self.malformed += 1
                return
            session.arrived(psr, psr.sender)

        subscription = self._dht.new_data(prefix, arrived)
        self._dht.local_scan(prefix, caught_up, lambda: None)
        return subscription

    def _passing(self, psr: Psr, passage: Passage) -> Verdict | Message:
        part = self._parts.get(psr.session)
        if passage.locally_sent or part is None:
            return Verdict.FORWARD
        strategy = part.session.spec.strategy
        if strategy.structure is not Structure.HIERARCHY and not strategy.keeps_hop:
            return Verdict.FORWARD
        part.session.arrived(psr, passage.previous.address)
        return Verdict.STOP

    def _delivered(self, psr: Psr, passage: Passage) -> None:
        part = self._parts.get(psr.session)
        if part is not None:
            part.session.arrived(psr, passage.previous.address)
        elif psr.session in self._ended:
            self.strays += 1
        else:
            self._hold(psr, passage.previous.address)

    def _direct(self, sender: Address, psr: Psr) -> None:
        part = self._parts.get(psr.session)
        if part is not None:
            part.session.arrived(psr, sender)
        elif psr.session in self._ended:
            self._router.route(routing_id(namespace_of(psr.session), ROOT_KEY), psr)
        else:
            self._hold(psr, sender)

    # -- states that are here before their query

    def _hold(self, psr: Psr, previous: Address) -> None:
        if self._early_count >= EARLY_MAX:
            self.strays += 1
            return
        if psr.session not in self._early:
            self._early[psr.session] = []
            self._runtime.call_later(EARLY_S, self._expired, psr.session)
        self._early[psr.session].append((psr, previous))
        self._early_count += 1

    def _take_early(self, session_id: str) -> list[tuple[Psr, Address]]:
        held = self._early.pop(session_id, [])
        self._early_count -= len(held)
        return held

    def _expired(self, session_id: str) -> None:
        """The query has not come: others may have it."""
        key = routing_id(namespace_of(session_id), ROOT_KEY)
        for psr, _ in self._take_early(session_id):
            if self._router.owns(key):
                self.strays += 1
            else:
                self._router.route(key, psr)

    def _told_time(self, sender: Address, message: Clock) -> None:
        part = self._parts.get(message.session)
        if part is not None:
            part.session.catch_up(message.age_ms / 1000.0)

    def _redirected(self, sender: Address, message: Redirect) -> None:
        part = self._parts.get(message.session)
        if part is not None:
            part.session.transit.redirected_to(message.parent)

    def _result(self, sender: Address, message: EpochResult) -> None:
        handler = self._askers.get(message.session)
        if handler is None:
            self.strays += 1
        else:
            handler(sender, message)
