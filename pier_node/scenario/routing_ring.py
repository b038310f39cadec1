"""A ring of routers in a simulated world, with an oracle beside it that knows every member.

Routers go in by real joins or with perfect tables; lookups and routed messages go in at random members, and what
comes of them is judged: right when the owner was the closest member at some instant meanwhile. A member is a live
node whose join is complete.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass

from overlay.bamboo import MESSAGES, BambooConfig, BambooRouter
from overlay.bamboo.static import fill
from overlay.ring import BITS, closer, from_wire
from overlay.router import Owner, Passage
from pier_node.scenario.sample import Sample
from runtime.message import Message
from runtime.sim import SimHost, World

#: Gateways that a node is given at its birth, drawn among the members.
GATEWAYS = 3
#: How long after its receipt a second delivery of an errand is looked for.
SECOND_DELIVERY_S = 5.0


class Errand(Message, frozen=True, tag=40):
    """A routed message, to see where it is delivered."""

    number: int


ROUTING_MESSAGES: tuple[type[Message], ...] = (*MESSAGES, Errand)


@dataclass(slots=True)
class Trial:
    """One lookup or errand under way, and everybody who was the owner meanwhile."""

    origin: SimHost
    key: int
    started_at: float
    owners: list[int]
    deliveries: int = 0


class Tally:
    """What became of the trials begun since the tally did; those whose origin died are not counted."""

    def __init__(self, world: World) -> None:
        self.right = self.wrong = self.failed = 0
        self.delivered_right = self.delivered_wrong = self.delivered_twice = 0
        #: When the last trial that came out wrong or failed had begun.
        self.last_wrong_at_s = 0.0
        self.latency_s = Sample(world.rng("latency sample"))
        #: A direct round trip to the same owner.
        self.direct_s = Sample(world.rng("direct sample"))
        self.hops = Sample(world.rng("hops sample"))

    @property
    def total(self) -> int:
        return self.right + self.wrong + self.failed

    def right_share(self) -> float:
        return self.right / self.total if self.total else 0.0

    def stretch(self) -> float:
        """All lookups' time over that of direct round trips to the owners."""
        return self.latency_s.total / self.direct_s.total if self.direct_s.total else 0.0


class RoutingRing:
    """`routers` holds the nodes by host index, `members` the ids of those that have joined, sorted. The dead are
    taken out when they are come across."""

    def __init__(self, world: World, config: BambooConfig) -> None:
        self.world = world
        self.config = config
        self.routers: dict[int, BambooRouter] = {}
        self.members: list[int] = []
        self.tally = Tally(world)
        self._place: dict[int, SimHost] = {}
        self._rng = world.rng("routing ring")
        self._open: dict[int, Trial] = {}
        self._numbers = 0

    def build(self, host: SimHost) -> BambooRouter:
        """Puts a router on a host and lets it join, or begin the ring."""
        gateways = [self.random_member().me.address for _ in range(GATEWAYS)] if self.members else []
        router = self._make(host)
        if gateways:
            router.join(gateways)
        else:
            router.start()
        return router

    def fill(self, hosts: list[SimHost]) -> None:
        """Puts routers with perfect tables on hosts, all members at once: a ring that never had to join."""
        routers = [self._make(host) for host in hosts]
        index = {router.me.address: host.index for router, host in zip(routers, hosts, strict=True)}
        latency_s = self.world.topology.latency_s
        fill(
            routers,
            self._rng,
            (lambda one, other: 2.0 * latency_s(index[one.me.address], index[other.me.address]))
            if self.config.proximity
            else None,
        )
        for router in routers:
            router.start()

    def _make(self, host: SimHost) -> BambooRouter:
        identifier = self._rng.getrandbits(BITS)
        if host.index in self.routers:
            self._bury(from_wire(self.routers[host.index].me.id))
        router = BambooRouter(host.runtime, host.messenger, identifier, self.config)
        self._place[identifier] = host
        self.routers[host.index] = router
        router.on_deliver(Errand, lambda errand, passage: self._delivered(identifier, errand, passage))
        router.on_arc(lambda old, _: self._joined(identifier) if old is None else None)
        return router

    def _joined(self, identifier: int) -> None:
        insort(self.members, identifier)
        self._changed()

    def _bury(self, identifier: int) -> None:
        host = self._place.pop(identifier)
        del self.routers[host.index]
        at = bisect_left(self.members, identifier)
        if at < len(self.members) and self.members[at] == identifier:
            del self.members[at]
            self._changed()

    def bury_dead(self) -> None:
        for index in list(self.routers):
            # One burial may bring others about.
            if index in self.routers and not self.world.hosts[index].alive:
                self._bury(from_wire(self.routers[index].me.id))

    def _changed(self) -> None:
        for trial in self._open.values():
            self._note_owner(trial)

    def _note_owner(self, trial: Trial) -> None:
        owner = self.owner(trial.key)
        if trial.owners[-1] != owner:
            trial.owners.append(owner)

    def owner(self, key: int) -> int:
        """The live member closest to key."""
        while True:
            at = bisect_right(self.members, key)
            before, after = self.members[at - 1], self.members[at % len(self.members)]
            found = before if closer(key, before, after) else after
            if self._place[found].alive:
                return found
            self._bury(found)

    def random_member(self) -> BambooRouter:
        while True:
            identifier = self._rng.choice(self.members)
            host = self._place[identifier]
            if host.alive:
                return self.routers[host.index]
            self._bury(identifier)

    def near(self, key: int, per_side: int) -> list[BambooRouter]:
        """The live members next to key, so many on each side of it, or everybody if there are fewer."""
        members = self.members
        at = bisect_right(members, key)
        found: dict[int, BambooRouter] = {}
        for places in (range(at, at + len(members)), range(at - 1, at - 1 - len(members), -1)):
            enough = len(found) + per_side
            for place in places:
                identifier = members[place % len(members)]
                if self._place[identifier].alive:
                    found[identifier] = self.router_of(identifier)
                if len(found) == enough:
                    break
        return list(found.values())

    def router_of(self, identifier: int) -> BambooRouter:
        return self.routers[self._place[identifier].index]

    def look(self) -> None:
        """Looks a random key up from a random member."""
        router, number, key = self._begin()
        router.lookup(key, lambda owner: self._looked(number, owner))

    def send(self) -> None:
        """Routes a message to a random key from a random member."""
        router, number, key = self._begin()
        router.route(key, Errand(number), lambda ok: self._receipted(number, ok))

    def _begin(self) -> tuple[BambooRouter, int, int]:
        router = self.random_member()
        key = self._rng.getrandbits(BITS)
        self._numbers += 1
        origin = self._place[from_wire(router.me.id)]
        self._open[self._numbers] = Trial(origin, key, self.world.now, [self.owner(key)])
        return router, self._numbers, key

    def unfinished(self) -> int:
        """Trials under way; forgets those whose origin died."""
        for number in [number for number, trial in self._open.items() if not trial.origin.alive]:
            del self._open[number]
        return len(self._open)

    def _looked(self, number: int, owner: Owner | None) -> None:
        trial = self._open.pop(number)
        tally = self.tally
        self._note_owner(trial)
        if owner is None:
            tally.failed += 1
        elif from_wire(owner.node.id) in trial.owners:
            tally.right += 1
        else:
            tally.wrong += 1
        if owner is None or from_wire(owner.node.id) not in trial.owners:
            tally.last_wrong_at_s = max(tally.last_wrong_at_s, trial.started_at)
            return
        tally.latency_s.add(self.world.now - trial.started_at)
        there = self.world.by_address[owner.node.address].index
        latency_s = self.world.topology.latency_s
        tally.direct_s.add(latency_s(trial.origin.index, there) + latency_s(there, trial.origin.index))

    def _delivered(self, identifier: int, errand: Errand, passage: Passage) -> None:
        trial = self._open.get(errand.number)
        if trial is None:
            return
        self._note_owner(trial)
        trial.deliveries += 1
        if trial.deliveries > 1:
            self.tally.delivered_twice += 1
        elif identifier in trial.owners:
            self.tally.delivered_right += 1
            self.tally.hops.add(passage.hops)
        else:
            self.tally.delivered_wrong += 1
            self.tally.last_wrong_at_s = max(self.tally.last_wrong_at_s, trial.started_at)

    def _receipted(self, number: int, ok: bool) -> None:
        trial = self._open.get(number)
        if trial is None:
            return
        if not ok:
            self.tally.failed += 1
            self.tally.last_wrong_at_s = max(self.tally.last_wrong_at_s, trial.started_at)
        # A second delivery would follow the receipt within the time that hops are repeated.
        self.world.call_at(self.world.now + SECOND_DELIVERY_S, self._close, number)

    def _close(self, number: int) -> None:
        self._open.pop(number, None)

    def wrong_leaf_sets(self) -> int:
        """Members whose leaf set is not exactly the nearest members on each side."""
        self.bury_dead()
        members = self.members
        wrong = 0
        side = min(self.config.leaf_per_side, len(members) - 1)
        for position, identifier in enumerate(members):
            leaves = self.router_of(identifier).core.view.leaves
            after = [members[(position + step) % len(members)] for step in range(1, side + 1)]
            before = [members[position - step] for step in range(1, side + 1)]
            if [peer.id for peer in leaves.after] != after or [peer.id for peer in leaves.before] != before:
                wrong += 1
        return wrong

    def rings(self) -> int:
        """How many separate rings the members form, following each one's successor."""
        self.bury_dead()
        ring_of: dict[int, int] = {}
        for ring, start in enumerate(self.members):
            identifier = start
            while identifier not in ring_of:
                ring_of[identifier] = ring
                successor = self.router_of(identifier).core.view.leaves.successor
                identifier = successor.id if successor is not None and successor.id in self._place else start
            if ring_of[identifier] != ring:
                self._relabel(ring_of, ring, ring_of[identifier])
        return len(set(ring_of.values()))

    def _relabel(self, ring_of: dict[int, int], old: int, new: int) -> None:
        for identifier, ring in ring_of.items():
            if ring == old:
                ring_of[identifier] = new

    def statistics(self) -> dict[str, int]:
        """The living routers' counts, added up."""
        total: dict[str, int] = {}
        for router in self.routers.values():
            for name, count in router.statistics().items():
                total[name] = total.get(name, 0) + count
        return dict(sorted(total.items()))
