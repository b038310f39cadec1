"""Hearsay: names of nodes go in, those with a place here are asked; nobody gets it without an answer.

Near: names from leaf sets, for the leaf set. Far: names from rows and lookups, for cells of the table.
"""

from __future__ import annotations

from overlay.bamboo.core import Core
from overlay.bamboo.probes import Probes
from overlay.ring import MASK, NodeRef, from_wire


class Candidates:
    __slots__ = ("_core", "_probes")

    def __init__(self, core: Core, probes: Probes) -> None:
        self._core = core
        self._probes = probes
        probes.approached = self.approached

    def consider_leaf(self, ref: NodeRef, per_side: int) -> bool:
        """Hearsay of a node near us: asks it if it belongs among the leaves, unless `per_side` nearer ones on both
        sides are there or being asked. Whether it did."""
        view = self._core.view
        running = self._probes.under_way.get(ref.address)
        if (running is not None and running.leaf) or not self._askable(ref):
            return False
        identifier = from_wire(ref.id)
        peer = view.peers.get(ref.address)
        if peer is not None and (peer.suspect or view.leaves.holds(peer)):
            return False
        if view.leaves.fits(identifier) and not self._crowded(identifier, per_side):
            self._probes.begin(ref, leaf=True)
            return True
        return False

    def consider_cell(self, ref: NodeRef, redundant: bool = False) -> bool:
        """Hearsay of a node somewhere: asks it if it fills a hole of the table, or in any case where `redundant`.
        Whether it did. While the leaf set is not full everybody seems to fit there, so that says nothing."""
        view = self._core.view
        if ref.address in view.peers or ref.address in self._probes.under_way or not self._askable(ref):
            return False
        identifier = from_wire(ref.id)
        leaf = view.leaves.full and view.leaves.fits(identifier)
        if leaf or redundant or view.table.wants(identifier, ref.address):
            self._probes.begin(ref, leaf)
            return True
        return False

    def _askable(self, ref: NodeRef) -> bool:
        core = self._core
        if ref.id == core.me.id:
            return False
        return not core.view.quarantine or not core.view.ignored(ref, core.runtime.now())

    def approached(self, ref: NodeRef) -> None:
        """An unknown node spoke to us: it lives, so no quarantine."""
        self._core.view.alive(ref)
        self.consider_cell(ref)

    def _crowded(self, identifier: int, per_side: int) -> bool:
        """Whether enough nearer nodes on both sides are leaves or being asked. Matters while the leaf set is not
        full and everybody seems to fit."""
        view = self._core.view
        if view.leaves.full:
            return False
        me = view.me_id
        others = {from_wire(probe.ref.id) for probe in self._probes.under_way.values() if probe.leaf}
        others.update(peer.id for peer in view.leaves.members)
        after = sum((other - me) & MASK < (identifier - me) & MASK for other in others)
        return after >= per_side and len(others) - after >= per_side
