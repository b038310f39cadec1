"""`BambooRouter`: the parts of one node put together behind the `Router` interface (PIER 2.3.1, 3.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from overlay.bamboo.candidates import Candidates
from overlay.bamboo.config import BambooConfig
from overlay.bamboo.core import Core, State
from overlay.bamboo.exchange import Exchange
from overlay.bamboo.forward import Forwarder
from overlay.bamboo.join import Joiner
from overlay.bamboo.maintenance import Maintenance
from overlay.bamboo.messages import Leaving
from overlay.bamboo.ownership import Ownership
from overlay.bamboo.payloads import Payloads
from overlay.bamboo.probes import Probes
from overlay.bamboo.requests import Requests
from overlay.bamboo.split import split_arc
from overlay.bamboo.tenure import Tenure
from overlay.bamboo.tuning import Tuning
from overlay.ring import Arc, NodeRef, to_wire
from overlay.router import Deliver, Neighbour, Owner, Place, Upcall
from runtime.api import Address, Messenger, Notice, Runtime
from runtime.message import Message

M = TypeVar("M", bound=Message)


class BambooRouter:
    """One Bamboo node."""

    __slots__ = ("_exchange", "_forwarder", "_joiner", "_maintenance", "_me", "_ownership", "_payloads", "_probes",
                 "_requests", "_tenure", "core")  # fmt: skip

    def __init__(self, runtime: Runtime, messenger: Messenger, node_id: int, config: BambooConfig) -> None:
        self._me = NodeRef(to_wire(node_id), runtime.address)
        self.core = core = Core(runtime, messenger, self._me, config)
        self._probes = Probes(core)
        candidates = Candidates(core, self._probes)
        self._ownership = Ownership(core, self._probes)
        self._exchange = Exchange(core, self._probes, candidates, self._ownership)
        self._payloads = Payloads(core)
        self._forwarder = Forwarder(core, self._probes, self._ownership, self._payloads)
        self._joiner = Joiner(
            core, self._probes, candidates, self._exchange, self._ownership, self._forwarder
        )
        self._tenure = Tenure(core, self._probes, self._ownership)
        self._requests = Requests(core, self._forwarder)
        tuning = Tuning(core, candidates, self._requests)
        self._maintenance = Maintenance(
            core, self._probes, self._ownership, self._exchange, self._joiner, tuning
        )
        messenger.on(Leaving, self._on_leaving)

    @property
    def me(self) -> NodeRef:
        return self._me

    @property
    def joined(self) -> bool:
        return self.core.state is State.MEMBER

    def start(self) -> None:
        """Becomes the first member of a new ring, or a member of one whose tables `static` has filled. Gateways of a
        join that led nowhere are asked again now and then: what they belong to becomes one ring with this."""
        self._joiner.stop()
        self.core.state = State.MEMBER
        self._ownership.reset()
        self._ownership.peaceful = True
        self._ownership.publish()
        self._ownership.peaceful = False
        self._maintenance.start()

    def join(self, gateways: Sequence[Address]) -> None:
        """Joins. A member remembers the gateways for when it has lost everybody, and asks those it does not know for
        its neighbours: they may belong to another ring, which then becomes one with this."""
        if self.joined:
            self._joiner.gateways = [gateway for gateway in gateways if gateway != self._me.address]
            for gateway in self._joiner.gateways:
                if gateway not in self.core.view.peers:
                    self._joiner.ask(gateway)
            return
        self._joiner.stop()
        self._joiner.join(gateways)
        self._maintenance.start()

    def leave(self, whole: bool = True) -> None:
        core = self.core
        if not core.present:
            return
        self._joiner.stop()
        goodbye = Leaving(self._me.id, core.view.leaf_refs(), whole)
        for peer in core.view.peers.values():
            core.messenger.send(peer.ref.address, goodbye)
        core.state = State.LEFT
        self._ownership.publish()

    def route(self, key: int, message: Message, notice: Notice | None = None) -> None:
        self._requests.route(key, message, notice)

    def lookup(self, key: int, done: Callable[[Owner | None], None]) -> None:
        self._requests.lookup(key, done)

    def next_hop(self, key: int, avoid: Sequence[Address] = ()) -> NodeRef | None:
        peer = self.core.view.next_hop(key, avoid)
        return None if peer is None else peer.ref

    def owns(self, key: int) -> bool:
        return self.joined and self.core.view.arc().contains(key)

    def delivers(self, key: int) -> bool:
        """Whether a message for key that reached this node now would end here: it may own a key and still have to
        wait until its neighbours have confirmed that."""
        return self._ownership.ready(key) and self.core.view.next_hop(key) is None

    def arc(self) -> Arc:
        return self.core.view.arc()

    def place(self) -> Place:
        before, after = self.core.view.place()
        if before is None or after is None:
            return Place(self.core.view.place_arc())
        return Place(self.core.view.place_arc(), before.ref, after.ref)

    def certain(self) -> Arc | None:
        return self._tenure.certain()

    def confirm(self, done: Callable[[Arc | None], None], wait_s: float) -> None:
        self._tenure.confirm(done, wait_s)

    def split(self, arc: Arc) -> list[tuple[NodeRef, Arc]]:
        return split_arc(self.core.view.me_id, self.core.view.peers.values(), arc)

    def silent_in(self, arc: Arc) -> list[NodeRef]:
        return [peer.ref for peer in self.core.view.peers.values() if peer.suspect and arc.contains(peer.id)]

    def replicas(self, count: int) -> list[NodeRef]:
        return [peer.ref for peer in self.core.view.leaves.members[:count]]

    def neighbours(self) -> list[Neighbour]:
        view = self.core.view
        described = []
        for peer in view.peers.values():
            role = "leaf" if view.leaves.holds(peer) else "table"
            if peer.suspect:
                role = "suspect"
            described.append(Neighbour(peer.ref, role, peer.rtt_s if peer.rtt_s >= 0.0 else None))
        return described

    def on_deliver(self, kind: type[M], handler: Deliver[M]) -> None:
        self._payloads.on_deliver(kind, handler)

    def on_upcall(self, kind: type[M], handler: Upcall[M]) -> None:
        self._payloads.on_upcall(kind, handler)

    def on_arc(self, handler: Callable[[Arc | None, Arc | None], None]) -> None:
        self._ownership.arc_changed.append(handler)

    def on_place(self, handler: Callable[[Arc | None, Arc | None, bool], None]) -> None:
        self._ownership.place_changed.append(handler)

    def on_suspect(self, handler: Callable[[NodeRef], None]) -> None:
        self.core.suspected.append(handler)

    def on_death(self, handler: Callable[[NodeRef], None]) -> None:
        self.core.died.append(handler)

    def on_namesake(self, handler: Callable[[Address], None]) -> None:
        self.core.namesakes.append(handler)

    def on_unanswered(self, handler: Callable[[NodeRef], None]) -> None:
        self.core.unanswered.append(handler)

    def way_found(self, address: Address) -> None:
        if self.core.present:
            self._probes.way_found(address)

    def statistics(self) -> Mapping[str, int]:
        """What happened so far, by name."""
        refused = self.core.view.table.blocks.refused
        return dict(sorted({**self.core.counts, "block_full": refused}.items()))

    def _on_leaving(self, sender: Address, leaving: Leaving) -> None:
        peer = self.core.view.known(NodeRef(leaving.id, sender))
        if peer is not None:
            self._exchange.merge(leaving.leaves)
            self._ownership.peaceful = leaving.whole
            self._probes.gone(peer)
            self._ownership.peaceful = False
            self.core.view.ignore(peer.ref, self.core.runtime.now())
