"""Whom this node knows: peers that answered go in, the next hop for a key comes out.

One `Peer` stands in the leaf set, in the routing table, or in both; who stands in neither is forgotten. Nobody
gets in on hearsay: `probes` and `exchange` bring only nodes that spoke to this one themselves. Nodes believed
down are remembered, some to be ignored for a while when others still speak of them, and all, up to a bound, to
be tried again when the ring may have been partitioned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.bamboo.config import BambooConfig
from overlay.bamboo.leafset import LeafSet
from overlay.bamboo.peer import Distance, Peer
from overlay.bamboo.table import RoutingTable, shared_digits
from overlay.ring import MASK, WHOLE, Arc, NodeRef, closer, from_wire, owned_arc
from runtime.api import Address
from runtime.rng import Rng

#: Nodes believed down that are remembered: enough that, after a partition, some are on the other side.
DOWN_MAX = 20
#: Silent nodes whose names are ignored: as many as the leaf sets and rows of a few neighbours may still list.
QUARANTINE_MAX = 64
#: How long a neighbour's word that the ring is large counts: a newcomer has met enough nodes itself by then.
LARGE_S = 30.0
#: Bounds and window of the jitter estimate. TCP would start from a half; what other peers have shown is a better
#: guess, and with few samples of each of many peers the first guess is most of every timeout.
JITTER_FLOOR = 0.05
JITTER_CEILING = 0.25
JITTER_WINDOW = 16
#: Below this a round trip is all scheduling, and its jitter says nothing of the network.
RTT_FLOOR_S = 0.001


class View:
    __slots__ = (
        "_large_until",
        "_now",
        "_silent",
        "changed",
        "config",
        "distance",
        "down",
        "jitter",
        "leaves",
        "me",
        "me_id",
        "peers",
        "quarantine",
        "queue",
        "rng",
        "table",
    )

    def __init__(self, me: NodeRef, config: BambooConfig, rng: Rng, now: Callable[[], float]) -> None:
        self.me = me
        self.me_id = from_wire(me.id)
        self.config = config
        self.rng = rng
        self._now = now
        self._large_until = 0.0
        self.peers: dict[Address, Peer] = {}
        #: Those of them that are suspects.
        self._silent: dict[Address, Peer] = {}
        self.leaves = LeafSet(self.me_id, config.leaf_per_side)
        gain = config.proximity_gain if config.proximity else None
        self.table = RoutingTable(self.me_id, gain, config.block_nodes_max)
        #: Node believed down -> when it was buried.
        self.down: dict[NodeRef, float] = {}
        #: Node that did not answer -> until when others' word of it is ignored. Oldest first.
        self.quarantine: dict[NodeRef, float] = {}
        #: How far anybody is, for waits on nodes never measured.
        self.distance = Distance()
        #: How much a peer's round trips differ from each other, as a share: the first guess for a new peer.
        self.jitter = JITTER_CEILING
        #: By how much round trips of late exceed what their peers usually take: queues on this node's own link, which
        #: delay everybody, show with the first peer that answers late.
        self.queue = Distance(rtt_s=0.0)
        #: Called after the leaf set may have changed.
        self.changed: Callable[[], None] = _nothing

    def known(self, ref: NodeRef) -> Peer | None:
        peer = self.peers.get(ref.address)
        return peer if peer is not None and peer.ref.id == ref.id else None

    def wants(self, ref: NodeRef) -> bool:
        """Whether a node not known yet has a place here: among the leaves or in a hole of the table."""
        identifier = from_wire(ref.id)
        return self.leaves.fits(identifier) or self.table.wants(identifier, ref.address)

    def admit(self, peer: Peer, near: bool) -> bool:
        """A node has answered: gives it its cell, and where it exchanged leaf sets with us (`near`) its place
        among the leaves. Whether it got one."""
        held = self.peers.get(peer.ref.address)
        if held is not None and held is not peer:
            if held.id == peer.id:
                return True
            self._forget(held)
        self.alive(peer.ref)
        loser = self.table.offer(peer)
        placed = loser is not peer
        if placed:
            self.peers[peer.ref.address] = peer
        if placed and loser is not None:
            self._release(loser)
        if near and self._offer_leaf(peer):
            placed = True
        return placed

    def heard_of_more(self) -> None:
        """A neighbour knows more nodes than a leaf set holds, and so there are more than this node has met yet."""
        self._large_until = self._now() + LARGE_S
        if not self.leaves.full and self.leaves.covers_all:
            self.leaves.rebuild(self.leaves.members, large=True)

    def _large(self) -> bool:
        """Whether the ring has more nodes than a leaf set holds, by own knowledge or fresh hearsay. Not kept for
        ever: a ring may shrink."""
        return len(self.peers) >= 2 * self.config.leaf_per_side or self._now() < self._large_until

    def place_near(self, peer: Peer) -> None:
        """A peer of the table has exchanged leaf sets with us."""
        if not peer.suspect and not self.leaves.holds(peer):
            self._offer_leaf(peer)

    def _offer_leaf(self, peer: Peer) -> bool:
        before = self.leaves.members
        if not self.leaves.offer(peer, self._large()):
            return False
        self.peers[peer.ref.address] = peer
        kept = set(self.leaves.members)
        for leaf in before:
            if leaf not in kept and not self.table.holds(leaf):
                self._release(leaf)
        self.changed()
        return True

    def alive(self, ref: NodeRef) -> None:
        """A node was heard itself."""
        if self.down:
            self.down.pop(ref, None)
        if self.quarantine:
            self.quarantine.pop(ref, None)

    def measured(self, peer: Peer, rtt_s: float) -> None:
        """A round trip was timed; a nearer node may now win its cell."""
        first = peer.rtt_s < 0.0
        if not first:
            share = min(abs(rtt_s - peer.rtt_s) / max(peer.rtt_s, RTT_FLOOR_S), JITTER_CEILING)
            self.jitter += (share - self.jitter) / JITTER_WINDOW
        peer.sample(rtt_s, max(self.jitter, JITTER_FLOOR))
        self.distance.sample(rtt_s)
        if first and not self.table.holds(peer):
            loser = self.table.offer(peer)
            if loser is not None and loser is not peer:
                self._release(loser)

    def acknowledged(self, peer: Peer, rtt_s: float) -> None:
        """A peer's transport has acknowledged a message."""
        if peer.rtt_s >= 0.0:
            self.queue.sample(max(0.0, rtt_s - peer.rtt_s))
        peer.sample(rtt_s)

    def suspect(self, peer: Peer) -> None:
        if not peer.suspect:
            peer.suspect = True
            self._silent[peer.ref.address] = peer
            self._reconsider(peer)

    def restore(self, peer: Peer) -> None:
        """A suspect was heard after all."""
        if peer.suspect:
            peer.suspect = False
            self._silent.pop(peer.ref.address, None)
            self.leaves.rebuild(self.peers.values(), self._large())
            self.changed()

    def bury(self, peer: Peer, now: float, remember: bool = True) -> None:
        """Takes a silent or departed node out, and remembers it if it may come back."""
        if remember:
            if len(self.down) >= DOWN_MAX:
                del self.down[self.rng.choice(list(self.down))]
            self.down[peer.ref] = now
            self.ignore(peer.ref, now)
        self._forget(peer)

    def stands_near(self, peer: Peer) -> bool:
        """Whether the peer is a leaf, or would be if it were in use."""
        return self.leaves.fits(peer.id)

    def ignore(self, ref: NodeRef, now: float) -> None:
        """A node did not answer: for a while others' word of it counts for nothing."""
        self.quarantine.pop(ref, None)
        if len(self.quarantine) >= QUARANTINE_MAX:
            del self.quarantine[next(iter(self.quarantine))]
        self.quarantine[ref] = now + self.config.quarantine_s

    def ignored(self, ref: NodeRef, now: float) -> bool:
        until = self.quarantine.get(ref)
        return until is not None and now < until

    def next_hop(self, key: int, avoid: Sequence[Address] = ()) -> Peer | None:
        """Who is to carry a message for key on; None when this node is the closest it knows."""
        leaves = self.leaves
        if avoid:
            return self._detour(key, avoid)
        if leaves.spans(key):
            return leaves.closest(key)
        peer = self.table.towards(key)
        if peer is not None and not peer.suspect:
            return peer
        return self._detour(key, ())

    def _detour(self, key: int, avoid: Sequence[Address]) -> Peer | None:
        """The best of all peers that make progress. Where the leaves cannot decide: the nearest that shares more
        digits with the key, else the closest that shares no fewer; a leaf towards the key is always such a one."""
        usable = [peer for peer in self.peers.values() if not peer.suspect and peer.ref.address not in avoid]
        if not self.leaves.spans(key):
            shared = shared_digits(self.me_id, key)
            nearest = [peer for peer in usable if shared_digits(peer.id, key) > shared]
            if nearest:
                return min(nearest, key=lambda peer: (peer.rtt_s, peer.id))
            usable = [peer for peer in usable if shared_digits(peer.id, key) == shared]
        best: Peer | None = None
        for peer in usable:
            if closer(key, peer.id, best.id if best is not None else self.me_id):
                best = peer
        return best

    def heir(self, key: int) -> Peer | None:
        """Who is closest to key apart from this node."""
        best: Peer | None = None
        for peer in self.peers.values():
            if not peer.suspect and (best is None or closer(key, peer.id, best.id)):
                best = peer
        return best

    def arc(self) -> Arc:
        before, after = self.leaves.predecessor, self.leaves.successor
        if before is None or after is None:
            return Arc(0, 0)
        return owned_arc(before.id, self.me_id, after.id)

    def place(self) -> tuple[Peer | None, Peer | None]:
        """The nearest neighbours, before and after, those counted in that are silent and not given up."""
        before, after, me = self.leaves.predecessor, self.leaves.successor, self.me_id
        for peer in self._silent.values():
            if before is None or (me - peer.id) & MASK < (me - before.id) & MASK:
                before = peer
            if after is None or (peer.id - me) & MASK < (after.id - me) & MASK:
                after = peer
        return before, after

    def place_arc(self) -> Arc:
        """The arc that this node owns if everybody lives whom it has not given up."""
        before, after = self.place()
        return WHOLE if before is None or after is None else owned_arc(before.id, self.me_id, after.id)

    def leaf_refs(self) -> tuple[NodeRef, ...]:
        return tuple(peer.ref for peer in self.leaves.members)

    def timeout_s(self, peer: Distance | None, floor_s: float) -> float:
        """How long to wait for an answer: RTT + 4 deviations, as UdpCC does, and the queue here likewise."""
        config = self.config
        distance = peer if peer is not None and peer.rtt_s >= 0.0 else self.distance
        if distance.rtt_s < 0.0:
            return config.timeout_unknown_s
        wait_s = distance.rtt_s + 4.0 * distance.deviation_s + config.timeout_slack_s
        queue = self.queue
        wait_s += queue.rtt_s + 4.0 * queue.deviation_s
        if wait_s < floor_s:
            return floor_s
        return wait_s if wait_s < config.timeout_ceiling_s else config.timeout_ceiling_s

    def _forget(self, peer: Peer) -> None:
        if self.peers.get(peer.ref.address) is peer:
            del self.peers[peer.ref.address]
        self.table.remove(peer)
        if self._silent.pop(peer.ref.address, None) is not None:
            # It was out of use already, but its place was not ours while it might have lived.
            self.changed()
        else:
            self._reconsider(peer)

    def _reconsider(self, peer: Peer) -> None:
        if self.leaves.holds(peer):
            self.leaves.rebuild(self.peers.values(), self._large())
            self.changed()

    def _release(self, peer: Peer) -> None:
        """Forgets a peer that stands in no cell, unless it is a leaf."""
        if not self.leaves.holds(peer) and self.peers.get(peer.ref.address) is peer:
            del self.peers[peer.ref.address]
            self._silent.pop(peer.ref.address, None)


def _nothing() -> None:
    """Nobody to tell yet."""
