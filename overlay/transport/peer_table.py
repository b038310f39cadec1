"""The peers of one node, bounded, and their deadlines."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import islice

from overlay.transport.backlog import Backlog
from overlay.transport.config import TransportConfig
from overlay.transport.congestion import CongestionFactory
from overlay.transport.ledger import Ledger
from overlay.transport.peer import Peer

#: Peers looked at for one that may be forgotten; those that may not move to the back of the table.
EVICTION_LOOKS = 16
#: Superseded deadlines are swept out when the heap holds this many times what it needs.
HEAP_SLACK = 4
HEAP_MIN = 64


class PeerTable:
    """Deadlines move mostly later, so one that moved later stays in the heap and is looked at when it comes."""

    __slots__ = (
        "_config",
        "_forgotten",
        "_heap",
        "_ledger",
        "_make_control",
        "_sequence",
        "backlogs",
        "by_address",
        "dirty",
    )

    def __init__(
        self,
        config: TransportConfig,
        ledger: Ledger,
        make_control: CongestionFactory,
        forgotten: Callable[[], None],
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._make_control = make_control
        self._forgotten = forgotten
        self.by_address: dict[str, Peer] = {}
        #: The same peers' backlogs, for whoever adds to them by the hundred thousand.
        self.backlogs: dict[str, Backlog] = {}
        #: Peers to look at when datagrams are asked for.
        self.dirty: list[Peer] = []
        self._heap: list[tuple[float, int, Peer]] = []
        self._sequence = 0

    def meet(self, now: float, address: str) -> Peer | None:
        """A new peer; None when the table is full of busy ones."""
        if len(self.by_address) >= self._config.peers_max and not self._evict(now):
            return None
        peer = Peer(address, self._config, self._ledger, self._make_control)
        peer.used_at = now
        self.by_address[address] = peer
        self.backlogs[address] = peer.outbound.backlog
        return peer

    def _evict(self, now: float) -> bool:
        quiet = None
        idle_since = now - self._config.dead_after_s()
        for peer in list(islice(self.by_address.values(), EVICTION_LOOKS)):
            if peer.busy or peer.used_at > idle_since:
                self.by_address[peer.address] = self.by_address.pop(peer.address)
            elif quiet is None or peer.used_at < quiet.used_at:
                quiet = peer
        if quiet is not None:
            self.forget(quiet)
        return quiet is not None

    def forget(self, peer: Peer) -> None:
        del self.by_address[peer.address], self.backlogs[peer.address]
        peer.close()
        self._ledger.counters.peers_forgotten += 1
        if peer.session is not None:
            self._forgotten()

    def mark(self, peer: Peer) -> None:
        if not peer.dirty:
            peer.dirty = True
            self.dirty.append(peer)

    def arm(self, peer: Peer) -> None:
        """Notes the peer's deadline if it is earlier than the one noted."""
        at = peer.deadline()
        if not peer.armed_at or at < peer.armed_at:
            peer.armed_at = at
            self._sequence += 1
            heappush(self._heap, (at, self._sequence, peer))
            if len(self._heap) > HEAP_SLACK * len(self.by_address) + HEAP_MIN:
                self._heap = [each for each in self._heap if not each[2].gone and each[0] == each[2].armed_at]
                heapify(self._heap)

    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap:
            at, _, peer = heap[0]
            if not peer.gone and at == peer.armed_at:
                return at
            heappop(heap)
        return None

    def due(self, now: float) -> list[Peer]:
        """Peers whose deadline has come; each is to be armed again."""
        due = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            at, _, peer = heappop(heap)
            if peer.gone or at != peer.armed_at:
                continue
            peer.armed_at = 0.0
            if peer.deadline() <= now:
                due.append(peer)
            else:
                self.arm(peer)
        return due
