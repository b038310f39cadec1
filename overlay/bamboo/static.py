"""The oracle start: perfect tables for many routers at once, without a single message.

For experiments on what runs above a ring, where 100,000 real joins would be most of the work. Every result
obtained on such a ring must say so: its tables are right, but not tuned, since nobody measured anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from overlay.bamboo.peer import Peer
from overlay.bamboo.router import BambooRouter
from overlay.bamboo.table import BASE, DIGIT_BITS, DIGITS, shared_digits
from overlay.ring import BITS, from_wire
from runtime.rng import Rng

#: Candidates of a cell compared where latencies are known: proximity neighbour selection by sampling.
SAMPLE = 16


def fill(
    routers: Sequence[BambooRouter],
    rng: Rng,
    rtt_s: Callable[[BambooRouter, BambooRouter], float] | None = None,
) -> None:
    """Fills every router's leaf set and table from the list of all. With `rtt_s` the cells get the nearest of a
    few candidates and peers come measured; without, a random candidate. Routers are to be started afterwards."""
    ring = sorted(routers, key=lambda router: from_wire(router.me.id))
    ids = [from_wire(router.me.id) for router in ring]
    children = _Children(ids)
    for place, router in enumerate(ring):
        _fill_one(router, place, ring, ids, children, rng, rtt_s)


class _Children:
    """For each prefix in use, where in the sorted ids each next digit begins and ends."""

    def __init__(self, ids: Sequence[int]) -> None:
        self._ids = ids
        self._known: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def of(self, identifier: int, level: int, low: int, high: int) -> list[tuple[int, int]]:
        """The ranges of the 16 digits at `level`, within the range [low, high) that shares the digits before."""
        shift = BITS - DIGIT_BITS * (level + 1)
        prefix = identifier >> (shift + DIGIT_BITS)
        known = self._known.get((level, prefix))
        if known is None:
            known = []
            position = low
            for digit in range(BASE):
                first = position
                limit = ((prefix << DIGIT_BITS) | digit) + 1
                while position < high and self._ids[position] >> shift < limit:
                    position += 1
                known.append((first, position))
            self._known[level, prefix] = known
        return known


def _fill_one(
    router: BambooRouter,
    place: int,
    ring: Sequence[BambooRouter],
    ids: Sequence[int],
    children: _Children,
    rng: Rng,
    rtt_s: Callable[[BambooRouter, BambooRouter], float] | None,
) -> None:
    view = router.core.view
    me = ids[place]
    count = len(ring)

    def peer_at(position: int) -> Peer:
        other = ring[position]
        peer = view.peers.get(other.me.address)
        if peer is None:
            peer = view.peers[other.me.address] = Peer(
                id=ids[position], ref=other.me, synced_at=0.0, met=True
            )
            if rtt_s is not None:
                peer.sample(rtt_s(router, other))
        return peer

    side = min(view.config.leaf_per_side, count - 1)
    leaves = {(place + step) % count for step in range(-side, side + 1)} - {place}
    view.leaves.rebuild([peer_at(position) for position in sorted(leaves)], large=False)
    low, high = 0, count
    for level in range(DIGITS):
        if high - low <= 1:
            break
        ranges = children.of(me, level, low, high)
        own = (me >> (BITS - DIGIT_BITS * (level + 1))) & (BASE - 1)
        for digit, (first, last) in enumerate(ranges):
            if digit == own or first == last:
                continue
            view.table.cells[level * BASE + digit] = peer_at(_choose(router, first, last, ring, rng, rtt_s))
        low, high = ranges[own]
    assert all(shared_digits(me, peer.id) == cell // BASE for cell, peer in view.table.cells.items())


def _choose(
    router: BambooRouter,
    first: int,
    last: int,
    ring: Sequence[BambooRouter],
    rng: Rng,
    rtt_s: Callable[[BambooRouter, BambooRouter], float] | None,
) -> int:
    if rtt_s is None or last - first == 1:
        return first + rng.randrange(last - first)
    candidates: Iterable[int] = range(first, last)
    if last - first > SAMPLE:
        candidates = [first + rng.randrange(last - first) for _ in range(SAMPLE)]
    return min(candidates, key=lambda position: (rtt_s(router, ring[position]), position))
