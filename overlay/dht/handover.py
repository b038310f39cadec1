"""Objects follow their arc: when ownership moves, so do they (PIER 3.2.3 leaves this to the publishers alone).

A node that gains an arc claims it: it asks the neighbours that would own its arc if it died, which are those
that owned it before it came, for what they hold of it. They send it in chunks and say when that was all, and of which
parts they had everything. An arc that no goodbye and nobody's word makes whole is in doubt (`doubts`): whoever had it
died with what it stored. An arc that is here only because its owner is silent is not claimed, since it may go back any
moment: gets are answered together with the neighbours, and what is put meanwhile is pushed when the owner is heard.
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
from overlay.dht.arcs import common, difference, without
from overlay.dht.doubts import Doubts
from overlay.dht.messages import WHOLE_MAX, Cause, Claim, Claimed, Code, Item, Put
from overlay.dht.requests import ITEM_BYTES, Entry, Requests
from overlay.objects.name import EVERYTHING
from overlay.objects.scan import Scan
from overlay.objects.stored import Role, StoredObject
from overlay.ring import HALF, MASK, Arc, WireArc, from_wire, to_wire
from overlay.router import Router
from runtime.api import Address, Messenger, Runtime, Timer

#: One on either side owned a new node's arc; the third covers two that came at once.
CLAIM_PEERS = 3
#: Open claims beyond this are dropped, oldest first: gets there are then answered from what has arrived.
GAINS_MAX = 64
#: A claimed neighbour that says nothing for so long is not waited for any more.
CLAIM_WAIT_S = 30.0
#: How long after a claim an empty answer is still doubted: rings learn of a new neighbour in less.
RECENT_S = 5.0
#: How long a node vouches for the parts of its arc that it lost: who has them now has claimed them long before.
VOUCHED_S = 30.0
#: Such parts that are remembered.
LOST_MAX = 64
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


@dataclass(frozen=True, slots=True)
class _Lost:
    """A part that this node had, with everything in it, and to whom it went."""

    arc: Arc
    heir: Address
    at: float


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
        "_doubts",
        "_failed",
        "_gains",
        "_keeper",
        "_lost",
        "_messenger",
        "_next_call",
        "_promoted",
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
        doubts: Doubts,
    ) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._keeper = keeper
        self._requests = requests
        self._doubts = doubts
        self._gains: dict[int, _Gain] = {}
        #: Parts that were this node's with everything in them, the oldest first.
        self._lost: list[_Lost] = []
        self._next_call = 0
        self._serving = 0
        self._push_timer: Timer | None = None
        self._claims_sent = self._claims_served = self._claims_refused = 0
        self._sent = self._pushed = self._promoted = self._failed = 0
        messenger.on(Claim, self._claim)
        messenger.on(Claimed, self._claimed)
        router.on_place(self._place_changed)
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

    def _place_changed(self, old: Arc | None, new: Arc | None, peaceful: bool) -> None:
        """What this node owns for certain has changed."""
        self._forget_settled()
        if old is not None:
            self._remember_lost(old, new)
        if new is None:
            self._gains.clear()
            self._doubts.keep_within(None)
            return
        for piece in difference(new, old):
            if not peaceful:
                self._doubts.add(piece)
            self._gain(piece)
        self._doubts.keep_within(new)

    def _remember_lost(self, old: Arc, new: Arc | None) -> None:
        now = self._runtime.now()
        lost = [old] if new is None else difference(old, new)
        for doubt in (*self._doubts.pieces().values(), *self._doubts.unsettled().values()):
            lost = without(lost, doubt)
        self._lost = [each for each in self._lost if now < each.at + VOUCHED_S]
        place, me = self._router.place(), from_wire(self._router.me.id)
        for piece in lost:
            heir = place.after if (piece.start - me) & MASK <= HALF else place.before
            if heir is not None:
                self._lost.append(_Lost(piece, heir.address, now))
        self._lost = self._lost[-LOST_MAX:]

    def _arc_changed(self, old: Arc | None, new: Arc | None) -> None:
        if new is None:
            return
        place = self._router.place().arc
        for piece in difference(new, old):
            for silent in difference(piece, place):
                self._stand_in(silent)
        if old is not None and difference(old, new):
            self._arm_push(PUSH_DELAY_S)

    def _forget_settled(self) -> None:
        now = self._runtime.now()
        for call, gain in list(self._gains.items()):
            settled = not gain.waiting or now >= gain.since + CLAIM_WAIT_S
            if settled and now >= gain.recent_until:
                del self._gains[call]

    # --- the gaining side --------------------------------------------------------------------------------------

    def _stand_in(self, arc: Arc) -> None:
        """The arc of a silent neighbour: others are asked with this node whenever it has nothing."""
        asked = [node.address for node in self._router.replicas(CLAIM_PEERS)]
        if asked:
            self._note_gain(arc, asked, [])

    def _note_gain(self, arc: Arc, asked: list[Address], waiting: list[Address]) -> int:
        now = self._runtime.now()
        if len(self._gains) >= GAINS_MAX:
            del self._gains[next(iter(self._gains))]
        self._next_call = call = self._next_call + 1
        self._gains[call] = _Gain(arc, asked, dict.fromkeys(waiting), now, now + RECENT_S)
        return call

    def _gain(self, arc: Arc) -> None:
        if self._keeper.store.count:
            self._walk(lambda stored: self._promote(arc, stored))
        asked = [node.address for node in self._router.replicas(CLAIM_PEERS)]
        if not asked:
            return
        call = self._note_gain(arc, asked, asked)
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
        gain = self._gains.get(message.call)
        if gain is not None and sender in gain.waiting:
            arcs = [Arc(from_wire(each.start), from_wire(each.end)) for each in message.whole]
            self._doubts.vouched([piece for arc in arcs for piece in common(arc, gain.arc)])
        self._answered(message.call, sender)

    def _answered(self, call: int, address: Address) -> None:
        gain = self._gains.get(call)
        if gain is not None:
            gain.waiting.pop(address, None)
            gain.recent_until = self._runtime.now() + RECENT_S

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
        failed_before = self._failed

        def wanted(stored: StoredObject) -> bool:
            movable = stored.role is not Role.PINNED and not self._keeper.holds.keeps(stored)
            return movable and arc.contains(stored.id)

        def finished(sent: int) -> None:
            self._serving -= 1
            whole = self._give_word(arc, sender) if self._failed == failed_before else []
            wires = tuple(WireArc(to_wire(each.start), to_wire(each.end)) for each in whole[:WHOLE_MAX])
            self._messenger.send(sender, Claimed(message.call, sent, wires))

        self._give(wanted, Cause.MOVED, sender, False, finished)

    def _give_word(self, arc: Arc, heir: Address) -> list[Arc]:
        """The parts of an arc that went from this node to the one that claims it, with everything in them. The word is
        given once: who comes back for the same part has lost what it was given."""
        now = self._runtime.now()
        given: list[Arc] = []
        for lost in list(self._lost):
            pieces = common(lost.arc, arc) if lost.heir == heir and now < lost.at + VOUCHED_S else []
            if pieces:
                self._lost.remove(lost)
                given += pieces
        return given

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

        def one(_: int) -> None:
            if not passes:
                done()
                return
            turn, heir = passes.pop(0)
            after = seen[turn - 1] if turn else 0
            if heir == heirs[0]:
                seen[turn] = self._keeper.store.serial

            def owned(stored: StoredObject) -> bool:
                return stored.serial > after and stored.role is Role.PRIMARY

            self._give(owned, Cause.COPY, heir, True, one)

        self._runtime.call_later(0.0, one, 0)

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
