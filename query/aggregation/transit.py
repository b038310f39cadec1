"""How states leave a node: straight to an address, into the DHT, or hop by hop toward the root id.

A node of the S algorithms keeps its first next hop, one of a Tree where it was redirected, until that does not
answer; then the overlay finds the way again, and the state that did not arrive takes it at once. Each hop is a message
of its own to the neighbour that the overlay names: it is taken there or known not to be. The overlay's own
routing tries the next neighbour as soon as one is slow, which is right for lookups and would count a state twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from overlay.dht.messages import Code
from overlay.dht.operations import PutObject
from overlay.dht.verbs import Dht
from overlay.objects.name import Name
from overlay.ring import routing_id
from overlay.router import Router
from query.aggregation.messages import Clock, EpochResult, Psr, Redirect
from query.aggregation.strategy import Routing, Structure
from query.causes import Cause, added
from runtime.api import Address, Messenger
from runtime.message import Message

if TYPE_CHECKING:
    from query.aggregation.session import SessionCounts, SessionSpec

#: States put into the DHT stay for a few epochs, in case the root changes hands.
PUT_LIFETIME_S = 60.0
ROOT_KEY = "root"
#: Neighbours tried for one state before it is given up.
HOPS_TRIED_MAX = 4
_encoder = msgspec.msgpack.Encoder()


def namespace_of(session: str) -> str:
    """Where the states of a session meet; its root id is that of ROOT_KEY in it."""
    return f"pier.aggregate.{session}"


def _perhaps_taken(psr: Psr) -> Psr:
    """A state that takes another way: who did not say that it came may have passed it on all the same, and then it is
    counted twice."""
    return msgspec.structs.replace(psr, causes=added(psr.causes, {Cause.DOUBLED.number: 1}))


class Transit:
    """The ways out of one node for one aggregation."""

    __slots__ = (
        "_dht",
        "_key",
        "_me",
        "_messenger",
        "_router",
        "_spec",
        "counts",
        "on_settled",
        "parent",
        "pending",
    )

    def __init__(
        self, spec: SessionSpec, messenger: Messenger, router: Router, dht: Dht, counts: SessionCounts
    ) -> None:
        self._spec = spec
        self._messenger = messenger
        self._router = router
        self._dht = dht
        self._me = router.me.address
        self._key = routing_id(namespace_of(spec.id), ROOT_KEY)
        self.counts = counts
        #: The next hop that is kept.
        self.parent: Address | None = None
        #: States and results that have left and are not known to have arrived; who hears when there are none.
        self.pending = 0
        self.on_settled: Callable[[], None] | None = None

    @property
    def is_root(self) -> bool:
        if self._spec.strategy.routing is Routing.IP:
            return self._spec.root == self._me
        return self._router.owns(self._key)

    def send(self, psr: Psr) -> None:
        """Towards the root."""
        self.counts.sent += 1
        self.pending += 1
        strategy = self._spec.strategy
        if strategy.routing is Routing.IP:
            self._deliver(self._spec.root, psr, self._told, lambda: self._told(False))
        elif strategy.structure is Structure.ONE_LEVEL:
            name = Name(namespace_of(psr.session), ROOT_KEY, f"{psr.sender}/{psr.epoch}/{psr.sequence}")
            self._dht.put_temp(PutObject(name, _encoder.encode(psr), PUT_LIFETIME_S), self._put)
        else:
            self._hop(psr, ())

    def send_to(self, address: Address, psr: Psr) -> None:
        """To a parent that the query's dissemination gave, or if that is gone to the root itself."""
        self.counts.sent += 1
        self.pending += 1

        def gone() -> None:
            if address == self._spec.asker:
                self._told(False)
            else:
                self.counts.rerouted += 1
                self._deliver(self._spec.asker, _perhaps_taken(psr), self._told, lambda: self._told(False))

        self._deliver(address, psr, self._told, gone)

    def redirect(self, child: Address, elsewhere: Address) -> None:
        self._messenger.send(child, Redirect(self._spec.id, elsewhere))

    def tell_time(self, sender: Address, age_ms: int) -> None:
        self._messenger.send(sender, Clock(self._spec.id, age_ms))

    def answer(self, asker: Address, result: EpochResult) -> None:
        self.pending += 1
        self._deliver(asker, result, self._told, lambda: self._told(False))

    def redirected_to(self, parent: Address) -> None:
        if self._spec.strategy.routing is Routing.TREE and parent != self._me:
            self.parent = parent

    def leave_parent(self) -> None:
        """The way through the kept next hop leads back here: the overlay finds another."""
        if self.parent is not None:
            self.counts.rerouted += 1
            self.parent = None

    def _hop(self, psr: Psr, tried: tuple[Address, ...]) -> None:
        """To the kept next hop or the one that the overlay names, and if that is gone to another."""
        parent = self.parent
        if parent is None:
            node = self._router.next_hop(self._key, tried)
            # Nobody is closer: the root is this node now, and takes the state as if it had come from elsewhere.
            to = self._me if node is None else node.address
        else:
            to = parent

        def taken(arrived: bool) -> None:
            if self.parent is None and self._spec.strategy.stable and to != self._me:
                self.parent = to
            self._told(arrived)

        def gone() -> None:
            if self.parent == to:
                self.parent = None
            if len(tried) + 1 >= HOPS_TRIED_MAX:
                self._told(False)
                return
            self.counts.rerouted += 1
            self._hop(_perhaps_taken(psr), (*tried, to))

        self._deliver(to, psr, taken, gone)

    def _deliver(
        self, to: Address, message: Message, taken: Callable[[bool], None], gone: Callable[[], None]
    ) -> None:
        """Sends, and once more if it seems lost: a busy peer that took it knows it by its number."""

        def again(arrived: bool) -> None:
            if arrived:
                taken(True)
            else:
                self.counts.repeated += 1
                self._messenger.send(to, message, lambda arrived: taken(True) if arrived else gone())

        self._messenger.send(to, message, again)

    def _told(self, arrived: bool) -> None:
        self.counts.lost += not arrived
        self.pending -= 1
        if self.pending == 0 and self.on_settled is not None:
            self.on_settled()

    def _put(self, code: Code) -> None:
        self._told(code is Code.OK)
