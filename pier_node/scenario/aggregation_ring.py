"""A simulated ring that aggregates: COUNT over all nodes by any strategy, and what it cost (PIER 4.1, 4.2).

Nodes get perfect routing tables (the oracle start) and do no maintenance, so that all traffic after the dissemination
is the query's. The query is disseminated by a real spread; each node begins its first epoch a while after it came,
when the last message of the dissemination has long arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import msgspec

from overlay.bamboo import BambooConfig, BambooRouter
from overlay.bamboo.static import fill
from overlay.ring import BITS
from overlay.spread.branch import Branch
from overlay.stack import OVERLAY_MESSAGES, OverlayConfig, OverlayNode
from query.aggregation.gather import Gather
from query.aggregation.messages import AGGREGATION_MESSAGES, EpochResult
from query.aggregation.service import Aggregations
from query.aggregation.session import Edges, Session, SessionSpec
from runtime.api import Address
from runtime.message import Codec
from runtime.sim import SimHost, World, king
from runtime.sim.links import CAPACITY_BPS, Fifo

TOPIC = "aggregation"
#: Between the arrival of the query and the first epoch.
WARM_S = 10.0
#: After the last epoch: time for timeouts that follow each other up the tree.
DRAIN_S = 45.0

#: Latencies of a seed are drawn once, however many rings use them.
_king = lru_cache(maxsize=4)(king)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(int).decode


def add(left: bytes, right: bytes) -> bytes:
    """COUNT: two partial states into one."""
    return _encode(_decode(left) + _decode(right)) if left else right


@dataclass(frozen=True, slots=True)
class Given:
    """A result as the asker got it."""

    epoch: int
    revision: int
    nodes: int
    count: int
    #: Since the epoch began at the asker.
    latency_s: float


@dataclass(slots=True)
class Outcome:
    """What one aggregation gave and cost."""

    results: list[Given] = field(default_factory=list)
    #: Bytes on the network from the first epoch on, and by node what came in.
    total_bytes: int = 0
    in_bytes: list[int] = field(default_factory=list)
    messages: int = 0
    in_degree_max: int = 0
    late: int = 0
    redirected: int = 0

    def final(self) -> dict[int, Given]:
        """The last result of each epoch."""
        return {given.epoch: given for given in self.results}


class AggregationRing:
    """Some nodes that can aggregate."""

    def __init__(self, nodes: int, seed: int, link_bps: float = CAPACITY_BPS, trace: bool = False) -> None:
        codec = Codec((*OVERLAY_MESSAGES, *AGGREGATION_MESSAGES))
        links = Fifo(link_bps, link_bps)
        self.world = World(seed=seed, topology=_king(seed), codec=codec, links=links, trace=trace)
        self.hosts: list[SimHost] = []
        self.overlays: list[OverlayNode] = []
        self.services: list[Aggregations] = []
        self.sessions: dict[int, Session] = {}
        self._sequence = 0
        self._begin: Callable[[int, Branch], None] = lambda number, branch: None
        config = OverlayConfig(bamboo=BambooConfig(maintenance=False), in_trees=False)
        ids = self.world.rng("ids")
        for number in range(nodes):
            self._grow(number, int.from_bytes(ids.randbytes(BITS // 8), "big"), config)
        routers = [overlay.router for overlay in self.overlays]
        assert all(isinstance(router, BambooRouter) for router in routers)
        latency_s = self.world.topology.latency_s
        place = {router: host.index for router, host in zip(routers, self.hosts, strict=True)}
        fill(
            [router for router in routers if isinstance(router, BambooRouter)],
            self.world.rng("tables"),
            lambda a, b: 2.0 * latency_s(place[a], place[b]),
        )
        for overlay in self.overlays:
            overlay.start()

    def run(
        self,
        spec: SessionSpec,
        victims: tuple[tuple[float, int], ...] = (),
        late_s: Mapping[int, float] | None = None,
    ) -> Outcome:
        """Aggregates to the end; `victims` are nodes that die, by when after the first epoch began; `late_s` says which
        nodes begin later than the others, and by how much."""
        self._sequence += 1
        asker = self.hosts[0].address
        # The id decides where the root is: the same for every strategy on a ring of the same seed.
        session_id = f"{self._sequence:08}"
        spec = replace(spec, id=session_id, asker=asker, root=asker, nodes=len(self.hosts))
        outcome = Outcome()
        began_s = 0.0
        self.sessions.clear()

        def begin(number: int, branch: Branch) -> None:
            edges = Edges(
                None if number == 0 else branch.parent.address if branch.parent else None,
                tuple(
                    child.address for child in branch.children if child.address != self.hosts[number].address
                ),
            )
            one = _encode(1)
            self.sessions[number] = self.services[number].open(
                spec,
                add,
                lambda epoch, give: give(one),
                lambda: edges,
                -WARM_S - (late_s or {}).get(number, 0.0),
            )

        gather = Gather()

        def got(root: Address, result: EpochResult) -> None:
            whole = gather.take(0, root, result)
            if whole is not None:
                latency_s = self.world.now - began_s - whole.epoch * spec.epoch_s
                count = sum(_decode(state) for states in whole.states for state in states if state)
                outcome.results.append(Given(whole.epoch, whole.revision, whole.nodes, count, latency_s))

        self._begin = begin
        stop = self.services[0].listen(spec.id, got)
        self.overlays[0].spread.start(TOPIC, b"", lambda reply, account: None)
        began_s = self.world.now + WARM_S
        self.world.run_until(began_s - 0.5)
        before = [(host.counters.bytes_in, host.counters.messages_in) for host in self.hosts]
        for after_s, number in victims:
            self.world.call_at(began_s + after_s, self.world.crash, self.hosts[number])
        self.world.run_until(began_s + spec.epochs * spec.epoch_s + DRAIN_S)
        self._account(outcome, before)
        stop()
        for number in self.sessions:
            self.services[number].close(spec.id)
        return outcome

    def _account(self, outcome: Outcome, before: list[tuple[int, int]]) -> None:
        for host, (in_bytes, messages) in zip(self.hosts, before, strict=True):
            outcome.in_bytes.append(host.counters.bytes_in - in_bytes)
            outcome.messages += host.counters.messages_in - messages
        outcome.total_bytes = sum(outcome.in_bytes)
        sessions = self.sessions.values()
        outcome.in_degree_max = max((session.in_degree for session in sessions), default=0)
        outcome.late = sum(session.counts.late for session in sessions)
        outcome.redirected = sum(session.counts.redirected for session in sessions)

    def _grow(self, number: int, node_id: int, config: OverlayConfig) -> None:
        host = self.world.add_host()
        overlay = OverlayNode(host.runtime, host.messenger, node_id, config)
        self.hosts.append(host)
        self.overlays.append(overlay)
        self.services.append(Aggregations(host.runtime, overlay.messenger, overlay.router, overlay.dht))

        def called(branch: Branch) -> None:
            # The children of a branch are found in the turn after its arrival.
            host.runtime.call_later(0.0, lambda _: self._begin(number, branch), None)
            branch.reply()

        overlay.spread.on_arrival(TOPIC, called)
