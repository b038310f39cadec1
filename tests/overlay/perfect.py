"""A router that knows every member: the double against which everything above the router interface is tested.

It implements `overlay.router.Router` over a shared member list, with no protocol of its own: ownership is the
ring's rule over the live members, changes are seen by all at once (`Membership.refresh`), routes go by a
chosen number of hops through members that lie between. Nothing above may need more than this.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any

from overlay.ring import MASK, Arc, NodeRef, clockwise, closer, distance, from_wire, owned_arc, to_wire
from overlay.router import Deliver, Neighbour, Owner, Passage, Place, Upcall, Verdict
from runtime.api import Address, Messenger, Notice, Runtime
from runtime.message import Message


class Hop(Message, frozen=True, tag=10_001):
    """A routed message between two hops; the body is passed by reference, as the simulator does."""

    key: bytes
    origin: NodeRef
    hops: int
    handle: int


class Membership:
    """The members as everybody sees them. Routed bodies wait here while their `Hop` travels."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.routers: dict[int, PerfectRouter] = {}
        self.bodies: dict[int, tuple[Message, Notice | None]] = {}
        self.next_handle = 0

    def add(self, router: PerfectRouter) -> None:
        insort(self.ids, router.id)
        self.routers[router.id] = router
        self.refresh()

    def remove(self, router: PerfectRouter, *, suspect: bool = False) -> None:
        self.ids.remove(router.id)
        del self.routers[router.id]
        router.lost_membership()
        self.refresh()
        if suspect:
            for other in list(self.routers.values()):
                other.suspects(router.me)

    def refresh(self) -> None:
        for router in list(self.routers.values()):
            router.see()

    def owner(self, key: int) -> int:
        at = bisect_left(self.ids, key)
        below, above = self.ids[at - 1], self.ids[at % len(self.ids)]
        return below if closer(key, below, above) else above

    def arc(self, identifier: int) -> Arc:
        at = self.ids.index(identifier)
        return owned_arc(self.ids[at - 1], identifier, self.ids[(at + 1) % len(self.ids)])


class PerfectRouter:
    """`fanout` members besides the ring neighbours are known for splitting and routing, evenly spaced."""

    def __init__(
        self, runtime: Runtime, messenger: Messenger, identifier: int, members: Membership, fanout: int = 6
    ) -> None:
        self.id = identifier
        self.me = NodeRef(to_wire(identifier), runtime.address)
        self._runtime = runtime
        self._messenger = messenger
        self._members = members
        self._fanout = fanout
        self._arc: Arc | None = None
        self._upcalls: dict[type[Message], Upcall[Any]] = {}
        self._delivers: dict[type[Message], Deliver[Any]] = {}
        self._on_arc: list[Callable[[Arc | None, Arc | None], None]] = []
        self._on_place: list[Callable[[Arc | None, Arc | None, bool], None]] = []
        self._place_arc: Arc | None = None
        #: Whether neighbours agree on its arc, and whether arcs are handed over.
        self.agreed = True
        self.peaceful = True
        self._on_suspect: list[Callable[[NodeRef], None]] = []
        self._on_death: list[Callable[[NodeRef], None]] = []
        #: Nodes that this one takes for silent, dead or not.
        self.silent: list[NodeRef] = []
        self.split_log: list[Arc] = []
        messenger.on(Hop, self._hop)

    @property
    def joined(self) -> bool:
        return self._arc is not None

    def start(self) -> None:
        self._members.add(self)

    def join(self, gateways: Sequence[Address]) -> None:
        self._members.add(self)

    def leave(self, whole: bool = True) -> None:
        self._members.remove(self)

    def see(self) -> None:
        old, self._arc = self._arc, self._members.arc(self.id)
        self._see_place()
        if old != self._arc:
            for handler in self._on_arc:
                handler(old, self._arc)

    def _see_place(self) -> None:
        old, self._place_arc = self._place_arc, None if self._arc is None else self.place().arc
        if old != self._place_arc:
            for handler in self._on_place:
                handler(old, self._place_arc, self.peaceful)

    def lost_membership(self) -> None:
        old, self._arc = self._arc, None
        self._see_place()
        for handler in self._on_arc:
            handler(old, None)

    def suspects(self, node: NodeRef) -> None:
        self.silent.append(node)
        for handler in self._on_suspect:
            handler(node)

    def owns(self, key: int) -> bool:
        return self._arc is not None and self._arc.contains(key)

    def arc(self) -> Arc:
        assert self._arc is not None
        return self._arc

    def place(self) -> Place:
        there = {*self._members.ids, *(from_wire(node.id) for node in self.silent)} - {self.id}
        if not there:
            return Place(self.arc())
        before = min(there, key=lambda each: clockwise(each, self.id))
        after = min(there, key=lambda each: clockwise(self.id, each))
        refs = {from_wire(node.id): node for node in self.silent}
        refs |= {each: router.me for each, router in self._members.routers.items()}
        return Place(owned_arc(before, self.id, after), refs[before], refs[after])

    def certain(self) -> Arc | None:
        return self._place_arc if self.agreed else None

    def confirm(self, done: Callable[[Arc | None], None], wait_s: float) -> None:
        arc = self.certain()
        if arc is not None:
            self._runtime.call_later(0.0, done, arc)
        else:
            self._runtime.call_later(wait_s, lambda _: done(self.certain()), None)

    def gives_up(self, node: NodeRef) -> None:
        self.silent.remove(node)
        self._see_place()
        for handler in self._on_death:
            handler(node)

    def lookup(self, key: int, done: Callable[[Owner | None], None]) -> None:
        def answer(_: None) -> None:
            owner = self._members.owner(key)
            done(Owner(self._members.routers[owner].me, self._members.arc(owner)))

        self._runtime.call_later(0.05, answer, None)

    def known(self) -> list[int]:
        ids = self._members.ids
        at = ids.index(self.id)
        step = max(1, len(ids) // self._fanout)
        places = {
            (at + 1) % len(ids),
            (at - 1) % len(ids),
            *((at + n) % len(ids) for n in range(0, len(ids), step)),
        }
        return [ids[place] for place in sorted(places) if place != at]

    def split(self, arc: Arc) -> list[tuple[NodeRef, Arc]]:
        """Each known member inside takes what follows it, up to the next; the first also what is before it.
        This node's own place divides the arc: nobody's part reaches over it."""
        self.split_log.append(arc)
        parts: list[tuple[NodeRef, Arc]] = []
        pieces = [arc]
        if arc.contains(self.id):
            after = (self.id + 1) & MASK
            whole = arc.start == arc.end
            pieces = [Arc(after, self.id)] if whole else [Arc(arc.start, self.id), Arc(after, arc.end)]
        for piece in pieces:
            if piece.start == piece.end:
                continue
            inside = sorted(
                (n for n in self.known() if piece.contains(n)), key=lambda n: clockwise(piece.start, n)
            )
            starts = [piece.start, *inside[1:]]
            ends = [*inside[1:], piece.end]
            for node, start, end in zip(inside, starts, ends, strict=False):
                parts.append((self._members.routers[node].me, Arc(start, end)))
        return parts

    def silent_in(self, arc: Arc) -> list[NodeRef]:
        return [node for node in self.silent if arc.contains(from_wire(node.id))]

    def replicas(self, count: int) -> list[NodeRef]:
        ids = self._members.ids
        if self.id not in ids:
            return []
        at = ids.index(self.id)
        order: dict[int, None] = {}
        for away in range(1, count + 1):
            for place in (at + away, at - away):
                order[ids[place % len(ids)]] = None
        order.pop(self.id, None)
        return [self._members.routers[n].me for n in list(order)[:count]]

    def neighbours(self) -> list[Neighbour]:
        return [Neighbour(self._members.routers[n].me, "known", None) for n in self.known()]

    def on_deliver(self, kind: type[Any], handler: Deliver[Any]) -> None:
        self._delivers[kind] = handler

    def on_upcall(self, kind: type[Any], handler: Upcall[Any]) -> None:
        self._upcalls[kind] = handler

    def on_arc(self, handler: Callable[[Arc | None, Arc | None], None]) -> None:
        self._on_arc.append(handler)

    def on_place(self, handler: Callable[[Arc | None, Arc | None, bool], None]) -> None:
        self._on_place.append(handler)

    def on_suspect(self, handler: Callable[[NodeRef], None]) -> None:
        self._on_suspect.append(handler)

    def on_death(self, handler: Callable[[NodeRef], None]) -> None:
        self._on_death.append(handler)

    def on_namesake(self, handler: Callable[[Address], None]) -> None:
        """No two members of the list have one id."""

    # --- routing -----------------------------------------------------------------------------------------------

    def route(self, key: int, message: Message, notice: Notice | None = None) -> None:
        self._runtime.call_later(0.0, lambda _: self._step(key, message, notice, self.me, self.me, 0), None)

    def _step(
        self, key: int, message: Message, notice: Notice | None, origin: NodeRef, previous: NodeRef, hops: int
    ) -> None:
        if self._arc is None:
            return
        passage = Passage(key, origin, previous, hops, self.owns(key), hops == 0)
        upcall = self._upcalls.get(type(message))
        if upcall is not None:
            verdict = upcall(message, passage)
            if verdict is Verdict.STOP:
                if notice is not None:
                    notice(True)
                return
            if isinstance(verdict, Message):
                message = verdict
        if passage.at_owner:
            self._delivers[type(message)](message, passage)
            if notice is not None:
                notice(True)
            return
        nearer = [n for n in self.known() if closer(key, n, self.id)]
        self._members.next_handle += 1
        self._members.bodies[self._members.next_handle] = (message, notice)
        hop = Hop(to_wire(key), origin, hops + 1, self._members.next_handle)
        best = min(nearer, key=lambda n: distance(n, key))
        self._messenger.send(self._members.routers[best].me.address, hop)

    def _hop(self, sender: Address, hop: Hop) -> None:
        message, notice = self._members.bodies.pop(hop.handle)
        previous = next(r.me for r in self._members.routers.values() if r.me.address == sender)
        self._step(from_wire(hop.key), message, notice, hop.origin, previous, hop.hops)
