"""How many members would deliver one key: instants come in, counts of keys with none, one or several come out.

An outside view of the router's promise that a key has one owner. A random key is judged by the members next to
it: whoever would deliver it without knowing the closer ones must be among those, unless all of them are wrong.
"""

from __future__ import annotations

from overlay.ring import BITS
from pier_node.scenario.routing_ring import RoutingRing
from runtime.sim import World

#: Live members asked on each side of the key.
ASKED_PER_SIDE = 6


class Deliverers:
    def __init__(self, world: World, ring: RoutingRing) -> None:
        self._ring = ring
        self._rng = world.rng("deliverers")
        self.sampled = 0
        #: Keys that two members would both have delivered, and keys that nobody would: messages for them wait.
        self.contested = 0
        self.waiting = 0

    def sample(self) -> None:
        """Looks at one random key at this instant."""
        key = self._rng.getrandbits(BITS)
        count = sum(router.delivers(key) for router in self._ring.near(key, ASKED_PER_SIDE))
        self.sampled += 1
        self.contested += count > 1
        self.waiting += count == 0

    def figures(self) -> dict[str, float]:
        sampled = max(self.sampled, 1)
        return {
            "sampled": self.sampled,
            "contested_share": round(self.contested / sampled, 6),
            "waiting_share": round(self.waiting / sampled, 6),
        }
