"""The routing table: for each prefix of this node's id and each other next digit, one node (PIER 2.3.1).

Peers come in once they have answered; a cell keeps the nearer one where proximity is on. Only for speed:
routing is right without it. Cells are a flat dict, since most of the 40 x 16 are empty for ever.
"""

from __future__ import annotations

from overlay.bamboo.blocks import Blocks
from overlay.bamboo.peer import Peer
from overlay.ring import BITS
from runtime.api import Address

DIGIT_BITS = 4
DIGITS = BITS // DIGIT_BITS
BASE = 1 << DIGIT_BITS


def shared_digits(a: int, b: int) -> int:
    """How many leading digits two ids have in common."""
    return (BITS - (a ^ b).bit_length()) // DIGIT_BITS


def digit(identifier: int, level: int) -> int:
    return (identifier >> (BITS - DIGIT_BITS * (level + 1))) & (BASE - 1)


class RoutingTable:
    __slots__ = ("_gain", "blocks", "cells", "me")

    def __init__(self, me: int, gain: float | None, block_nodes_max: int = 0) -> None:
        self.me = me
        self.blocks = Blocks(block_nodes_max)
        #: (level * BASE + digit) -> peer.
        self.cells: dict[int, Peer] = {}
        # The share of the old RTT that a replacement must beat; None where only holes are filled.
        self._gain = gain

    def cell_of(self, identifier: int) -> int:
        level = (BITS - (self.me ^ identifier).bit_length()) // DIGIT_BITS
        return (level << DIGIT_BITS) | ((identifier >> (BITS - DIGIT_BITS * (level + 1))) & (BASE - 1))

    def towards(self, key: int) -> Peer | None:
        """The cell for the first digit in which key differs from this node's id."""
        return self.cells.get(self.cell_of(key))

    def wants(self, identifier: int, address: Address) -> bool:
        """Whether a node of this id and address would fill a hole."""
        return self.cell_of(identifier) not in self.cells and self.blocks.has_room(address)

    def offer(self, peer: Peer) -> Peer | None:
        """Takes the peer in if its cell is empty or it is clearly nearer. Returns who lost the place: another
        peer, the offered one itself, or None when nobody did."""
        cell = self.cell_of(peer.id)
        held = self.cells.get(cell)
        if held is peer:
            return None
        if not self.blocks.has_room(peer.ref.address, None if held is None else held.ref.address):
            self.blocks.refused += 1
            return peer
        if held is None or held.id == peer.id:
            self._place(cell, peer, held)
            return None
        if self._gain is None or peer.rtt_s < 0.0:
            return peer
        if held.rtt_s >= 0.0 and peer.rtt_s >= self._gain * held.rtt_s:
            return peer
        self._place(cell, peer, held)
        return held

    def _place(self, cell: int, peer: Peer, held: Peer | None) -> None:
        if held is not None:
            self.blocks.remove(held.ref.address)
        self.cells[cell] = peer
        self.blocks.add(peer.ref.address)

    def holds(self, peer: Peer) -> bool:
        return self.cells.get(self.cell_of(peer.id)) is peer

    def remove(self, peer: Peer) -> None:
        if self.holds(peer):
            del self.cells[self.cell_of(peer.id)]
            self.blocks.remove(peer.ref.address)

    def row(self, level: int) -> list[Peer]:
        """The peers of one row, by digit."""
        first = level * BASE
        cells = self.cells
        return [cells[cell] for cell in range(first, first + BASE) if cell in cells]

    def depth(self) -> int:
        """One more than the deepest row in use."""
        return max(self.cells, default=-1) // BASE + 1
