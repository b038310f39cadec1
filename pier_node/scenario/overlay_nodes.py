"""Overlay nodes on simulated hosts, and an outside view of who is a member since when.

Workloads put nodes on hosts through this and ask it what no node can know: who lived through an interval, who
owns a key in truth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from overlay.ring import BITS, closer, from_wire
from overlay.stack import OverlayConfig, OverlayNode
from runtime.rng import Rng
from runtime.sim import SimHost, World

#: Members that a new node is told of, drawn among the living.
GATEWAYS = 3


class Life:
    """One node from its start to its end. `number` is unique over all lives of a run."""

    __slots__ = ("host", "incarnation", "joined_at", "node", "number")

    def __init__(self, number: int, host: SimHost, node: OverlayNode) -> None:
        self.number = number
        self.host = host
        self.incarnation = host.incarnation
        self.node = node
        self.joined_at: float | None = None

    @property
    def alive(self) -> bool:
        return self.host.alive and self.host.incarnation == self.incarnation

    @property
    def id(self) -> int:
        return from_wire(self.node.router.me.id)


class OverlayNodes:
    """All lives of a run, the dead included."""

    def __init__(self, world: World, config: OverlayConfig, rng: Rng) -> None:
        self._world = world
        self._config = config
        self._rng = rng
        self.lives: list[Life] = []

    def build(self, host: SimHost) -> Life:
        """Puts a node on a host: it begins the ring, or joins through members drawn at random."""
        members = self.members()
        node = OverlayNode(host.runtime, host.messenger, self._rng.getrandbits(BITS), self._config)
        life = Life(len(self.lives), host, node)
        self.lives.append(life)

        def joined(old: object, new: object) -> None:
            if old is None and new is not None and life.joined_at is None:
                life.joined_at = self._world.now

        node.router.on_arc(joined)
        gateways = [each.host.address for each in self._rng.sample(members, GATEWAYS)]
        if gateways:
            node.join(gateways)
        elif life.number == 0:
            node.start()
        else:
            node.join([self.lives[0].host.address])
        return life

    def living(self) -> Iterator[Life]:
        return (life for life in self.lives if life.alive)

    def members(self) -> list[Life]:
        return [life for life in self.living() if life.node.router.joined]

    def owner(self, key: int, members: list[Life]) -> Life:
        """The closest of the members, given in order of their ids."""
        at = bisect_right([life.id for life in members], key)
        before, after = members[at - 1], members[at % len(members)]
        return before if closer(key, before.id, after.id) else after
