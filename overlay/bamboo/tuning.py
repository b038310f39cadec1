"""The routing table's upkeep: holes are filled, and nearer nodes found for what is full.

Near: a neighbour's row comes in, who is missing here or perhaps nearer is probed. Far: the owner of a random id
below a prefix of our own is probed; it may be known to no neighbour. Both rest more and more as the node
grows older and its table good; under churn nodes are young, and both are quick.
"""

from __future__ import annotations

from overlay.bamboo.candidates import Candidates
from overlay.bamboo.core import Core, State
from overlay.bamboo.messages import REFS_MAX, RowAsk, RowReply
from overlay.bamboo.peer import Peer
from overlay.bamboo.requests import Requests
from overlay.bamboo.table import BASE, DIGIT_BITS
from overlay.ring import BITS, NodeRef
from overlay.router import Owner
from runtime.api import Address

#: Neighbours of a row among whom the one to ask is drawn: the nearest know the nearest.
NEAR_CHOICE = 3
#: Candidates remembered as probed, so that others get their turn.
PROBED_MAX = 64


class Tuning:
    __slots__ = ("_born_at", "_candidates", "_core", "_probed", "_requests")

    def __init__(self, core: Core, candidates: Candidates, requests: Requests) -> None:
        self._core = core
        self._candidates = candidates
        self._requests = requests
        self._born_at = core.runtime.now()
        #: Oldest first.
        self._probed: dict[Address, None] = {}
        core.messenger.on(RowAsk, self._on_ask)
        core.messenger.on(RowReply, self._on_reply)

    def near(self) -> float:
        """Asks a neighbour of some row for its own; low rows, where most traffic passes, more often."""
        core = self._core
        depth = core.view.table.depth()
        level = 0
        while level + 1 < depth and core.rng.random() < 0.5:
            level += 1
        row = [peer for peer in core.view.table.row(level) if not peer.suspect]
        if row:
            nearest = sorted(row, key=_rtt)[:NEAR_CHOICE]
            core.messenger.send(core.rng.choice(nearest).ref.address, RowAsk(level, level))
        return self._period_s()

    def far(self) -> float:
        """Looks up a random id below a random prefix of our own; its owner fits the cell."""
        core = self._core
        level = core.rng.randrange(core.view.table.depth() + 1)
        tail_bits = BITS - DIGIT_BITS * (level + 1)
        if core.state is State.MEMBER and core.view.peers and tail_bits > 0:
            prefix = core.view.me_id >> (tail_bits + DIGIT_BITS)
            digit = core.rng.randrange(BASE)
            key = (((prefix << DIGIT_BITS) | digit) << tail_bits) | core.rng.getrandbits(tail_bits)
            self._requests.lookup(key, self._far_found)
        return 2 * self._period_s()

    def _period_s(self) -> float:
        core = self._core
        config = core.config
        rested_s = (core.runtime.now() - self._born_at) * config.near_period_age_share
        return min(max(rested_s, config.near_period_floor_s), config.near_period_ceiling_s)

    def _far_found(self, owner: Owner | None) -> None:
        if owner is not None and not self._candidates.consider_cell(owner.node):
            self._compare([owner.node], 1)

    def _compare(self, refs: list[NodeRef], count: int) -> None:
        """Probes some nodes whose cells are taken: they may be nearer."""
        core = self._core
        if not core.config.proximity or core.state is not State.MEMBER:
            return
        fresh = [
            ref for ref in refs if ref.address not in self._probed and ref.address not in core.view.peers
        ]
        for ref in core.rng.sample(fresh, count):
            if len(self._probed) >= PROBED_MAX:
                del self._probed[next(iter(self._probed))]
            self._probed[ref.address] = None
            self._candidates.consider_cell(ref, redundant=True)

    def _on_ask(self, sender: Address, ask: RowAsk) -> None:
        core = self._core
        if not core.present:
            return
        peers = [peer for level in range(ask.low, ask.high + 1) for peer in core.view.table.row(level)]
        refs = tuple(peer.ref for peer in peers if not peer.suspect)[:REFS_MAX]
        core.messenger.send(sender, RowReply(refs))

    def _on_reply(self, sender: Address, reply: RowReply) -> None:
        core = self._core
        if not core.present:
            return
        peers = core.view.peers
        strangers = [ref for ref in reply.nodes if ref.address not in peers]
        redundant = [ref for ref in strangers if not self._candidates.consider_cell(ref)]
        self._compare(redundant, core.config.near_probes)


def _rtt(peer: Peer) -> float:
    return peer.rtt_s
