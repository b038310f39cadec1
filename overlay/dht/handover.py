"""Objects follow their arc: when ownership moves, so do they (PIER 3.2.3 leaves this to the publishers alone).

A node that gains an arc claims it: it asks the neighbours that would own its arc if it died, which are those
that owned it before it came, for what they hold of it. They send it in chunks and say when that was all.
While a claim is open, gets in the arc are answered together with the claimed neighbours; for a few seconds
longer they are asked when nothing is found, since a put may have reached them before they heard of the new
owner. So "nothing there" is said only by those who can know.

A node that loses an arc pushes, after a moment, whatever of it was not claimed to the owners that lookups
name. What has moved stays behind as a copy until it ends; copies count as objects again when the arc comes
back. All lifetimes travel as remainders and ages. What dies with a node comes back with its publisher's next
renewal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from overlay.dht.accept import Keeper, to_item
from overlay.dht.arcs import common, difference
from overlay.dht.messages import Bequest, Cause, Claim, Claimed, Code, Item, Put
from overlay.dht.provenance import Provenance
from overlay.dht.requests import ITEM_BYTES, Entry, Requests
from overlay.objects.name import EVERYTHING
from overlay.objects.scan import Scan
from overlay.objects.stored import Role, StoredObject
from overlay.ring import Arc, WireArc, from_wire, to_wire
from overlay.router import Router
from runtime.api import Address, Messenger, Runtime, Timer

#: One on either side owned a new node's arc; the third covers two that came at once.
CLAIM_PEERS = 3
#: A neighbour that was itself waiting for a part of the arc is asked again so often, first after that long, then
#: after twice as long each time: together less than such a neighbour remembers what it owned.
CLAIM_ATTEMPTS_MAX = 4
CLAIM_AGAIN_S = 0.5
#: Open claims beyond this are dropped, oldest first: gets there are then answered from what has arrived.
GAINS_MAX = 64
#: A claimed neighbour that says nothing for so long is not waited for any more.
CLAIM_WAIT_S = 30.0
#: How long after a claim an empty answer is still doubted: rings learn of a new neighbour in less.
RECENT_S = 5.0
#: Claims of others served at once; more are answered with nothing and left to the push.
CLAIMS_SERVED_MAX = 16
#: How long unclaimed objects wait before they are pushed: a claim usually comes first and is cheaper.
PUSH_DELAY_S = 1.0
PUSH_RETRY_S = 10.0
#: Objects looked at between two turns of the loop; sent, they are at most a few messages.
CHUNK_OBJECTS = 256
#: Who gets everything when this node leaves: the two that will own its arc.
LEAVE_PEERS = 2
#: Puts that arrive while a leaving node empties itself are caught up with so many times.
LEAVE_PASSES_MAX = 3


@dataclass(slots=True)
class _Gain:
    """An arc that became ours lately, who was asked for it and who has not finished."""

    arc: Arc
    asked: list[Address]
    waiting: dict[Address, None]
    since: float
    recent_until: float
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class HandoverStatistics:
    claims_sent: int
    claims_served: int
    claims_refused: int
    objects_sent: int
    objects_pushed: int
    objects_promoted: int
    failed: int
    open: int


class Handover:
    """Moves objects when arcs move."""

    __slots__ = (
        "_claims_refused",
        "_claims_sent",
        "_claims_served",
        "_failed",
        "_gains",
        "_keeper",
        "_messenger",
        "_next_call",
        "_promoted",
        "_provenance",
        "_push_timer",
        "_pushed",
        "_requests",
        "_router",
        "_runtime",
        "_sent",
        "_serving",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        keeper: Keeper,
        requests: Requests,
        provenance: Provenance,
    ) -> None:
        self._runtime = runtime
        self._provenance = provenance
        self._messenger = messenger
        self._router = router
        self._keeper = keeper
        self._requests = requests
        self._gains: dict[int, _Gain] = {}
        self._next_call = 0
        self._serving = 0
        self._push_timer: Timer | None = None
        self._claims_sent = self._claims_served = self._claims_refused = 0
        self._sent = self._pushed = self._promoted = self._failed = 0
        messenger.on(Claim, self._claim)
        messenger.on(Claimed, self._claimed)
        messenger.on(Bequest, self._bequeathed)
        router.on_arc(self._arc_changed)

    def statistics(self) -> HandoverStatistics:
        return HandoverStatistics(
            claims_sent=self._claims_sent,
            claims_served=self._claims_served,
            claims_refused=self._claims_refused,
            objects_sent=self._sent,
            objects_pushed=self._pushed,
            objects_promoted=self._promoted,
            failed=self._failed,
            open=sum(1 for gain in self._gains.values() if gain.waiting),
        )

    @property
    def recent(self) -> bool:
        """Whether any arc came here lately."""
        return bool(self._gains)

    @property
    def unsettled(self) -> int:
        """Moves under way: arcs whose objects are coming, and objects that have not gone to their owners yet."""
        now = self._runtime.now()
        own = self._router.arc() if self._router.joined else None
        waiting = [each for each in self._gains.values() if each.waiting and now < each.since + CLAIM_WAIT_S]
        coming = sum(1 for each in waiting if own is not None and common(each.arc, own))
        return coming + (self._push_timer is not None)

    def previous_holders(self, identifier: int, *, empty: bool) -> list[Address]:
        """Whom to ask besides our own store for an id we own; mostly nobody."""
        now = self._runtime.now()
        for gain in reversed(self._gains.values()):
            if not gain.arc.contains(identifier):
                continue
            if gain.waiting and now < gain.since + CLAIM_WAIT_S:
                return gain.asked
            if empty and now < gain.recent_until:
                return gain.asked
        self._forget_settled()
        return []

    def _arc_changed(self, old: Arc | None, new: Arc | None) -> None:
        self._forget_settled()
        self._provenance.changed(old, new, alone=not self._router.replicas(1))
        if new is None:
            self._gains.clear()
            return
        for piece in difference(new, old):
            self._gain(piece)
        if old is not None and difference(old, new):
            self._arm_push(PUSH_DELAY_S)

    def _forget_settled(self) -> None:
        now = self._runtime.now()
        for call, gain in list(self._gains.items()):
            settled = not gain.waiting or now >= gain.since + CLAIM_WAIT_S
            if settled and now >= gain.recent_until:
                del self._gains[call]

    # --- the gaining side --------------------------------------------------------------------------------------

    def _gain(self, arc: Arc) -> None:
        if self._keeper.store.count:
            self._walk(lambda stored: self._promote(arc, stored))
        self._ask_for(arc, 1)

    def _ask_for(self, arc: Arc, attempts: int) -> None:
        asked = [node.address for node in self._router.replicas(CLAIM_PEERS)]
        if not asked:
            return
        now = self._runtime.now()
        if len(self._gains) >= GAINS_MAX:
            del self._gains[next(iter(self._gains))]
        self._next_call = call = self._next_call + 1
        self._gains[call] = _Gain(arc, asked, dict.fromkeys(asked), now, now + RECENT_S, attempts)
        claim = Claim(call, WireArc(to_wire(arc.start), to_wire(arc.end)))
        for address in asked:
            self._claims_sent += 1
            self._messenger.send(address, claim, self._unless_arrived(call, address))

    def _unless_arrived(self, call: int, address: Address) -> Callable[[bool], None]:
        def notice(arrived: bool) -> None:
            if not arrived:
                self._answered(call, address)

        return notice

    def _claimed(self, sender: Address, message: Claimed) -> None:
        if message.call in self._gains:
            self._provenance.given(_from_wire_arcs(message.whole))
        self._answered(message.call, sender)

    def _bequeathed(self, sender: Address, message: Bequest) -> None:
        self._provenance.given(_from_wire_arcs(message.whole))

    def _ask_again(self, gain: _Gain) -> None:
        """Somebody who owned a part of the arc may have waited for it himself when he was asked."""
        for part in common(gain.arc, self._router.arc()) if self._router.joined else ():
            if self._provenance.is_doubtful(part):
                self._ask_for(part, gain.attempts + 1)

    def _answered(self, call: int, address: Address) -> None:
        gain = self._gains.get(call)
        if gain is not None:
            awaited = gain.waiting.pop(address, address) is None
            gain.recent_until = self._runtime.now() + RECENT_S
            last = awaited and not gain.waiting and gain.attempts < CLAIM_ATTEMPTS_MAX
            if last and self._provenance.is_doubtful(gain.arc):
                delay_s = CLAIM_AGAIN_S * 2 ** (gain.attempts - 1)
                self._runtime.call_later(delay_s, self._ask_again, gain)

    def _promote(self, arc: Arc, stored: StoredObject) -> None:
        if stored.role is Role.COPY and arc.contains(stored.id) and self._keeper.owns(stored.id):
            self._promoted += 1
            self._keeper.promote(stored)

    def _walk(self, visit: Callable[[StoredObject], None]) -> None:
        """Every object here, a chunk a turn."""
        scan = self._keeper.store.scan(EVERYTHING)

        def step(_: None) -> None:
            for stored in scan.next(CHUNK_OBJECTS, self._runtime.now()):
                visit(stored)
            if not scan.finished:
                self._runtime.call_later(0.0, step, None)

        step(None)

    # --- the giving side ---------------------------------------------------------------------------------------

    def _claim(self, sender: Address, message: Claim) -> None:
        if self._serving >= CLAIMS_SERVED_MAX:
            self._claims_refused += 1
            self._messenger.send(sender, Claimed(message.call, 0))
            return
        self._serving += 1
        self._claims_served += 1
        arc = Arc(from_wire(message.arc.start), from_wire(message.arc.end))

        def wanted(stored: StoredObject) -> bool:
            movable = stored.role is not Role.PINNED and not self._keeper.holds.keeps(stored)
            return movable and arc.contains(stored.id)

        def finished(sent: int) -> None:
            self._serving -= 1
            whole = _to_wire_arcs(self._provenance.whole_in(arc))
            self._messenger.send(sender, Claimed(message.call, sent, whole))

        self._give(wanted, Cause.MOVED, sender, False, finished)

    def _arm_push(self, delay_s: float) -> None:
        if self._push_timer is None and self._keeper.store.count:
            self._push_timer = self._runtime.call_later(delay_s, self._push, None)

    def _push(self, _: None) -> None:
        failed_before = self._failed

        def stranded(stored: StoredObject) -> bool:
            return (
                stored.role is Role.PRIMARY
                and not self._keeper.owns(stored.id)
                and not self._keeper.holds.keeps(stored)
            )

        def finished(sent: int) -> None:
            self._push_timer = None
            self._pushed += sent
            if self._failed > failed_before and self._router.joined:
                self._arm_push(PUSH_RETRY_S)

        self._give(stranded, Cause.MOVED, None, False, finished)

    def leave(self, done: Callable[[], None]) -> None:
        """Copies everything this node owns to those that will own it, then calls done."""
        heirs = [node.address for node in self._router.replicas(LEAVE_PEERS)]
        passes = [(since, heir) for since in range(LEAVE_PASSES_MAX) for heir in heirs]
        seen = [0] * LEAVE_PASSES_MAX
        failed_before = self._failed

        def one(_: int) -> None:
            if not passes:
                self._bequeath(heirs if self._failed == failed_before else [], done)
                return
            turn, heir = passes.pop(0)
            after = seen[turn - 1] if turn else 0
            if heir == heirs[0]:
                seen[turn] = self._keeper.store.serial

            def owned(stored: StoredObject) -> bool:
                return stored.serial > after and stored.role is Role.PRIMARY

            self._give(owned, Cause.COPY, heir, True, one)

        self._runtime.call_later(0.0, one, 0)

    def _bequeath(self, heirs: list[Address], done: Callable[[], None]) -> None:
        """Tells the heirs that they have everything; they hear it before the ring takes notice."""
        left = len(heirs)
        if not self._router.joined or not heirs:
            done()
            return

        def told(_: bool) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done()

        bequest = Bequest(_to_wire_arcs(self._provenance.whole_in(self._router.arc())))
        for heir in heirs:
            self._messenger.send(heir, bequest, told)

    def _give(
        self,
        wanted: Callable[[StoredObject], bool],
        cause: Cause,
        to: Address | None,
        anyhow: bool,
        finished: Callable[[int], None],
    ) -> None:
        """Sends what is wanted, chunk after chunk, the next one when the last has been answered."""
        scan = self._keeper.store.scan(EVERYTHING)
        build = _build_copy if cause is Cause.COPY else _build_moved
        total = 0

        def step(_: None) -> None:
            nonlocal total
            chunk = self._next_wanted(scan, wanted)
            if not chunk:
                if scan.finished:
                    finished(total)
                else:
                    self._runtime.call_later(0.0, step, None)
                return
            total += len(chunk)
            self._sent += len(chunk)
            left = len(chunk)

            def ended(stored: StoredObject, serial: int, code: Code) -> None:
                nonlocal left
                left -= 1
                self._given(stored, serial, code)
                if left == 0:
                    self._runtime.call_later(0.0, step, None)

            now = self._runtime.now()
            entries = []
            for stored in chunk:
                item = to_item(stored, now)
                size = ITEM_BYTES + len(item.value)
                ending = partial(_ended, ended, stored, stored.serial)
                entries.append(Entry(item, size, ending, to=to, anyhow=anyhow))
            self._requests.submit(build, entries)

        step(None)

    def _next_wanted(self, scan: Scan, wanted: Callable[[StoredObject], bool]) -> list[StoredObject]:
        return [stored for stored in scan.next(CHUNK_OBJECTS, self._runtime.now()) if wanted(stored)]

    def _given(self, stored: StoredObject, serial: int, code: Code) -> None:
        if code is not Code.OK:
            self._failed += 1
            return
        # What was replaced or removed meanwhile is not what was given.
        same = self._keeper.store.get(stored.name, self._runtime.now()) is stored and stored.serial == serial
        if same and stored.role is Role.PRIMARY and self._router.joined and not self._keeper.owns(stored.id):
            self._keeper.store.set_role(stored, Role.COPY)


def _ended(
    ended: Callable[[StoredObject, int, Code], None], stored: StoredObject, serial: int, code: Code, _: object
) -> None:
    ended(stored, serial, code)


def _build_moved(call: int, items: tuple[Item, ...], anyhow: bool) -> Put:
    return Put(call, items, Cause.MOVED, anyhow)


def _build_copy(call: int, items: tuple[Item, ...], anyhow: bool) -> Put:
    return Put(call, items, Cause.COPY, anyhow)


def _to_wire_arcs(arcs: list[Arc]) -> tuple[WireArc, ...]:
    return tuple(WireArc(to_wire(arc.start), to_wire(arc.end)) for arc in arcs)


def _from_wire_arcs(arcs: tuple[WireArc, ...]) -> list[Arc]:
    return [Arc(from_wire(arc.start), from_wire(arc.end)) for arc in arcs]
