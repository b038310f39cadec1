"""Leaf-set push-pull: what two neighbours know of their stretch of the circle, each way in one round.

Periodic with a random leaf, at once with a new immediate neighbour, and the announcement of a node that joins.
Sets travel in short, and in full only what the other turns out to lack: mostly nothing.
Names in a leaf set are hearsay: `probes` asks them before they get a place. The sender itself is not: it is
here, so it takes its place before the reply goes out; on that the rule of `ownership` stands.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.bamboo.candidates import Candidates
from overlay.bamboo.core import Core, State
from overlay.bamboo.messages import MARK_BYTES, REFS_MAX, LeafAsk, LeafReply, LeafTell, Leaves, Refs
from overlay.bamboo.ownership import Ownership
from overlay.bamboo.probes import EXCHANGE, Probes
from overlay.ring import BITS, MASK, SPACE, NodeRef, from_wire
from runtime.api import Address

#: Distances travel as their upper 64 bits.
REACH_SHIFT = BITS - 64


class Exchange:
    __slots__ = ("_candidates", "_core", "_ownership", "_probes", "misplaced")

    def __init__(self, core: Core, probes: Probes, candidates: Candidates, ownership: Ownership) -> None:
        self._core = core
        self._probes = probes
        self._candidates = candidates
        self._ownership = ownership
        #: Called with a node that says others stand between it and us; set by `join`.
        self.misplaced: Callable[[Address], None]
        probes.leaf_ask = self._ask
        core.messenger.on(LeafAsk, self._on_ask)
        core.messenger.on(LeafReply, self._on_reply)
        core.messenger.on(LeafTell, self._on_tell)

    def with_random_leaf(self) -> None:
        leaves = self._core.view.leaves.members
        if leaves:
            self._probes.begin(self._core.rng.choice(leaves).ref, EXCHANGE)

    def merge(self, refs: Refs) -> None:
        """Names of nodes near us; a scout is content with its two immediate neighbours."""
        scouting = self._core.state is State.SCOUTING
        per_side = 1 if scouting else self._core.config.leaf_per_side
        rest = self._candidates.consider_leaves(refs, per_side)
        if not self._core.joining:
            for ref in rest:
                self._candidates.consider_cell(ref)

    def _ask(self, token: int) -> LeafAsk:
        core = self._core
        announce = core.state is not State.SCOUTING
        return LeafAsk(core.me.id, token, announce, self._summary())

    def _summary(self) -> Leaves:
        """Marks stand for whoever we need not be told of: leaves, nodes being asked, nodes found silent."""
        view = self._core.view
        leaves = view.leaves
        marks = leaves.marks
        if self._probes.asked:
            marks += b"".join([probe.ref.id[-MARK_BYTES:] for probe in self._probes.asked.values()])
        if view.quarantine:
            now = self._core.runtime.now()
            for ref, until in view.quarantine.items():
                if now < until and leaves.fits(from_wire(ref.id)):
                    marks += ref.id[-MARK_BYTES:]
        after, before = leaves.reach()
        return Leaves(
            marks[: MARK_BYTES * REFS_MAX], after >> REACH_SHIFT, before >> REACH_SHIFT, len(view.peers)
        )

    def _weigh(self, theirs: Leaves) -> None:
        if theirs.known >= 2 * self._core.config.leaf_per_side:
            self._core.view.heard_of_more()

    def _missing(self, other: bytes, theirs: Leaves) -> Refs:
        """Which of our leaves another node lacks although they belong into its set."""
        centre = from_wire(other)
        missing = []
        for peer in self._core.view.leaves.lacking(centre, theirs.marks):
            after = (peer.id - centre) & MASK
            if after >> REACH_SHIFT <= theirs.after or (SPACE - after) >> REACH_SHIFT <= theirs.before:
                missing.append(peer.ref)
        return tuple(missing)

    def _on_ask(self, sender: Address, ask: LeafAsk) -> None:
        core = self._core
        if not core.present:
            return
        core.named(ask.id, sender)
        self._weigh(ask.leaves)
        # To a joining node a question proves nothing: only a reply says that the neighbour holds it.
        peer = self._probes.answered(sender, ask.id, -1, synced=not core.joining)
        if ask.announce:
            if peer is None:
                synced_at = -1.0 if core.joining else core.runtime.now()
                self._candidates.welcome(NodeRef(ask.id, sender), synced_at)
            else:
                core.view.place_near(peer)
        joined = core.state is State.MEMBER
        held = core.view.known(NodeRef(ask.id, sender))
        leaves = core.view.leaves
        placed = held is not None and leaves.holds(held) if ask.announce else leaves.fits(from_wire(ask.id))
        missing = self._missing(ask.id, ask.leaves)
        stranger = held is not None and not held.told
        if held is not None:
            held.told = True
        core.messenger.send(
            sender, LeafReply(core.me.id, ask.token, joined, placed, missing, self._summary(), stranger)
        )
        self._ownership.review()

    def _on_reply(self, sender: Address, reply: LeafReply) -> None:
        core = self._core
        if not core.present:
            return
        self._ownership.member_seen = self._ownership.member_seen or reply.joined
        self._weigh(reply.leaves)
        self.merge(reply.missing)
        peer = self._probes.answered(sender, reply.id, reply.token, synced=reply.placed)
        if peer is not None and reply.stranger and reply.joined:
            self._ownership.returned(peer)
        if not reply.placed:
            self.misplaced(sender)
        missing = self._missing(reply.id, reply.leaves) if core.state is State.MEMBER else ()
        if missing:
            core.messenger.send(sender, LeafTell(missing))
        self._ownership.review()

    def _on_tell(self, sender: Address, tell: LeafTell) -> None:
        if self._core.present:
            self.merge(tell.missing)
