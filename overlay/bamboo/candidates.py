"""Hearsay: names of nodes go in, those with a place here are asked; nobody gets it without an answer.

Near: names from leaf sets, for the leaf set. Far: names from rows and lookups, for cells of the table.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from overlay.bamboo.core import Core, State
from overlay.bamboo.peer import Peer
from overlay.bamboo.probes import EXCHANGE, MEET, PING, Probes
from overlay.ring import MASK, NodeRef, from_wire


class Candidates:
    __slots__ = ("_core", "_probes")

    def __init__(self, core: Core, probes: Probes) -> None:
        self._core = core
        self._probes = probes
        probes.approached = self.approached
        probes.welcome = self.welcome

    def consider_leaves(self, refs: Iterable[NodeRef], per_side: int) -> list[NodeRef]:
        """Hearsay of nodes near us: asks each that belongs among the leaves, unless `per_side` nearer ones on both
        sides are there or being asked. Returns those for whom there was no room. Who joins hears all there is to hear
        from its two neighbours, and exchanges leaf sets only with whoever may be one."""
        core = self._core
        view = core.view
        leaves, me = view.leaves, view.me_id
        under_way = self._probes.under_way
        nearer: list[int] | None = None
        rest = []
        for ref in refs:
            running = under_way.get(ref.address)
            if (running is not None and running.kind) or not self._askable(ref):
                continue
            peer = view.peers.get(ref.address)
            if peer is not None and (peer.suspect or leaves.holds(peer)):
                continue
            identifier = from_wire(ref.id)
            if leaves.full:
                asked = leaves.spans(identifier)
            else:
                # Everybody seems to fit, so only who would be among the nearest of all is asked.
                if nearer is None:
                    nearer = self._near_offsets()
                offset = (identifier - me) & MASK
                at = bisect_left(nearer, offset)
                asked = at < per_side or len(nearer) - at < per_side
                if asked:
                    nearer.insert(at, offset)
            if asked:
                distant = core.state is State.ANNOUNCING and not self._between(identifier)
                self._probes.begin(ref, MEET if distant else EXCHANGE)
            else:
                rest.append(ref)
        return rest

    def consider_cell(self, ref: NodeRef, redundant: bool = False) -> bool:
        """Hearsay of a node somewhere: asks it if it fills a hole of the table, or in any case where `redundant`.
        Whether it did. While the leaf set is not full everybody seems to fit there, so that says nothing."""
        view = self._core.view
        if ref.id == view.me.id:
            return False
        identifier = from_wire(ref.id)
        leaf = view.leaves.full and view.leaves.spans(identifier)
        if not (leaf or redundant or view.table.wants(identifier, ref.address)):
            return False
        if ref.address in view.peers or ref.address in self._probes.under_way or not self._askable(ref):
            return False
        kind = PING
        if leaf:
            kind = EXCHANGE if self._between(identifier) else MEET
        self._probes.begin(ref, kind)
        return True

    def _askable(self, ref: NodeRef) -> bool:
        core = self._core
        if ref.id == core.me.id:
            return False
        return not core.view.quarantine or not core.view.ignored(ref, core.runtime.now())

    def _between(self, identifier: int) -> bool:
        """Whether an id lies nearer to this node than its neighbour on that side."""
        leaves = self._core.view.leaves
        return leaves.between(identifier, leaves.successor, True) or leaves.between(
            identifier, leaves.predecessor, False
        )

    def welcome(self, ref: NodeRef, synced_at: float) -> None:
        """A node not known here speaks itself: as a leaf it is in; for the table it has to be measured."""
        view = self._core.view
        if ref.id == self._core.me.id:
            return
        identifier = from_wire(ref.id)
        if view.leaves.fits(identifier):
            now = self._core.runtime.now()
            told = self._core.state is not State.MEMBER
            peer = Peer(id=identifier, ref=ref, heard_at=now, synced_at=synced_at, met=True, told=told)
            view.admit(peer, near=True)
        else:
            self.approached(ref)

    def approached(self, ref: NodeRef) -> None:
        """An unknown node spoke to us: it lives, so no quarantine."""
        self._core.view.alive(ref)
        self.consider_cell(ref)

    def _near_offsets(self) -> list[int]:
        """How far clockwise of this node its leaves are and those asked whether they are, ascending."""
        view = self._core.view
        me = view.me_id
        offsets = {(peer.id - me) & MASK for peer in view.leaves.members}
        offsets.update([(probe.id - me) & MASK for probe in self._probes.asked.values()])
        return sorted(offsets)
