"""Objects carried by the router: `send` with upcalls on the way, and multi-send to many ids (PIER 3.2.4; CQ 2).

A sent object is seen by upcall subscribers at every hop, who may stop it or change it, and becomes new data
at the owner of its id; it is stored there when it has a lifetime. A multi-send carries objects for many ids
together: each node keeps its own and divides the rest among the neighbours it knows, so that what goes the
same way shares messages. Ids whose owner lies outside the part in which they were looked for are routed
singly at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlay.dht.accept import Keeper
from overlay.dht.messages import (
    Cause,
    Item,
    MultiSend,
    MultiSendOne,
    MultiSendReceipt,
    Send,
    SendTo,
)
from overlay.dht.owners import OwnerCache
from overlay.dht.recent import Recent
from overlay.dht.requests import ITEM_BYTES
from overlay.dht.watch import OnPassing, Passing, Watchers
from overlay.objects.name import Name
from overlay.ring import WHOLE, Arc, NodeRef, WireArc, from_wire, point, to_wire
from overlay.router import Passage, Router, Verdict
from runtime.api import Address, Messenger, Runtime, Timer
from runtime.message import Message

#: Deliveries remembered to tell repeats: routed messages may arrive twice when an acknowledgement was lost.
RECENT_MAX = 8192
#: Multi-sends whose receipts are counted at once.
COUNTED_MAX = 1024
#: Receipts of a multi-send are waited for this long: a message given up by the router is not reported by anyone.
RECEIPTS_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class MultiSent:
    """How a multi-send ended: each object is delivered, failed, or nobody said anything of it."""

    delivered: int
    failed: int
    unknown: int


@dataclass(slots=True)
class _Counted:
    left: int
    delivered: int
    failed: int
    done: Callable[[MultiSent], None]
    timer: Timer | None


@dataclass(frozen=True, slots=True)
class SendStatistics:
    sent: int
    delivered: int
    stopped: int
    repeats: int
    multi_messages: int
    multi_routed_singly: int
    #: Brought here by the ring, and given to the node that holds them for their query; and those it did not get.
    passed_on: int
    strayed: int


class Sends:
    """This node's sending, passing on and receiving of routed objects."""

    __slots__ = (
        "_cache",
        "_counted",
        "_delivered",
        "_keeper",
        "_message_bytes_max",
        "_messenger",
        "_multi_messages",
        "_multi_singly",
        "_passed_on",
        "_recent",
        "_repeats",
        "_router",
        "_runtime",
        "_sent",
        "_serial",
        "_stopped",
        "_strayed",
        "passing",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        keeper: Keeper,
        cache: OwnerCache,
        message_bytes_max: int,
    ) -> None:
        self.passing: Watchers[OnPassing] = Watchers()
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._keeper = keeper
        self._cache = cache
        self._message_bytes_max = message_bytes_max
        self._serial = runtime.rng("dht/sends").getrandbits(31)
        self._recent: Recent[tuple[bytes, int, Name]] = Recent(RECENT_MAX)
        self._counted: dict[int, _Counted] = {}
        self._sent = self._delivered = self._stopped = self._repeats = 0
        self._passed_on = self._strayed = 0
        self._multi_messages = self._multi_singly = 0
        router.on_upcall(Send, self._upcall)
        router.on_deliver(Send, self._deliver)
        router.on_deliver(MultiSendOne, self._deliver_one)
        messenger.on(SendTo, self._send_to)
        messenger.on(MultiSend, self._multi)
        messenger.on(MultiSendReceipt, self._receipt)

    def statistics(self) -> SendStatistics:
        return SendStatistics(
            sent=self._sent,
            delivered=self._delivered,
            stopped=self._stopped,
            repeats=self._repeats,
            multi_messages=self._multi_messages,
            multi_routed_singly=self._multi_singly,
            passed_on=self._passed_on,
            strayed=self._strayed,
        )

    # --- send --------------------------------------------------------------------------------------------------

    def send(self, identifier: int, items: Sequence[Item], done: Callable[[bool], None] | None) -> None:
        """Routes objects of one id. `done` tells whether they arrived or were stopped on the way."""
        self._sent += len(items)
        self._serial += 1
        self._router.route(identifier, Send(self._serial, tuple(items)), done)

    def send_to(self, to: Address, items: Sequence[Item], done: Callable[[bool], None] | None) -> None:
        self._sent += len(items)
        self._messenger.send(to, SendTo(tuple(items)), done)

    def _upcall(self, message: Send, passage: Passage) -> Verdict | Message:
        if not self.passing:
            return Verdict.FORWARD
        kept: list[Item] = []
        for item in message.items:
            went_on = self._show(item, passage)
            if went_on is not None:
                kept.append(went_on)
            else:
                self._stopped += 1
        if not kept:
            return Verdict.STOP
        if len(kept) == len(message.items) and all(a is b for a, b in zip(kept, message.items, strict=True)):
            return Verdict.FORWARD
        return Send(message.serial, tuple(kept))

    def _show(self, item: Item, passage: Passage) -> Item | None:
        """The object after every subscriber has seen it; None when one stopped it."""
        name = Name(item.namespace, item.key, item.suffix)
        value = item.value
        for handler in self.passing.matching(name):
            verdict = handler(Passing(name, value, item.lifetime_ms / 1000, passage))
            if verdict is Verdict.STOP:
                return None
            if isinstance(verdict, bytes):
                value = verdict
        if value is item.value:
            return item
        return Item(
            item.id, *name, value, item.lifetime_ms, item.age_ms, item.version, item.copies, item.temporary
        )

    def _deliver(self, message: Send, passage: Passage) -> None:
        for item in message.items:
            self._take(item, passage.origin, message.serial, False)

    def _send_to(self, sender: Address, message: SendTo) -> None:
        for item in message.items:
            self._delivered += 1
            self._keeper.accept(item, Cause.SENT, True)

    def _take(self, item: Item, origin: NodeRef, serial: int, anyhow: bool) -> None:
        if not self._recent.add((origin.id, serial, Name(item.namespace, item.key, item.suffix))):
            self._repeats += 1
            return
        holds = self._keeper.holds
        if holds.mine(item.namespace, item.temporary, from_wire(item.id)) is False:
            holder = holds.holder(item)
            if holder is not None:
                self._passed_on += 1
                self._messenger.send(holder.address, SendTo((item,)), self._unless_passed_on)
                return
        self._delivered += 1
        self._keeper.accept(item, Cause.SENT, anyhow)

    def _unless_passed_on(self, arrived: bool) -> None:
        self._strayed += not arrived

    # --- multi-send --------------------------------------------------------------------------------------------

    def multi_send(self, items: Sequence[Item], done: Callable[[MultiSent], None] | None) -> None:
        """Carries each object to the owner of its id; with `done`, deliveries are confirmed and counted."""
        self._sent += len(items)
        self._serial += 1
        if done is not None:
            self._count(self._serial, len(items), done)
        known: dict[bytes, tuple[NodeRef, list[Item]]] = {}
        others: list[Item] = []
        for item in items:
            identifier = from_wire(item.id)
            owner = None if self._keeper.owns(identifier) else self._cache.find(identifier)
            if owner is None:
                others.append(item)
            else:
                known.setdefault(owner.node.id, (owner.node, []))[1].append(item)
        me = self._router.me
        for node, theirs in known.values():
            self._pass(node, point(from_wire(node.id)), theirs, self._serial, me, done is not None)
        self._runtime.call_later(
            0.0, lambda serial: self._divide(WHOLE, others, serial, me, done is not None), self._serial
        )

    def _multi(self, sender: Address, message: MultiSend) -> None:
        arc = Arc(from_wire(message.arc.start), from_wire(message.arc.end))
        self._divide(arc, message.items, message.serial, message.origin, message.receipts)

    def _divide(self, arc: Arc, items: Sequence[Item], serial: int, origin: NodeRef, receipts: bool) -> None:
        """Keeps what is owned here, gives the rest to the neighbours in whose part of the arc it lies."""
        mine = [item for item in items if self._keeper.owns(from_wire(item.id))]
        for item in mine:
            self._take(item, origin, serial, False)
        if mine and receipts:
            self._messenger.send(origin.address, MultiSendReceipt(serial, len(mine)))
        rest = [item for item in items if not self._keeper.owns(from_wire(item.id))]
        parts = self._router.split(arc) if rest else []
        for node, part in parts:
            theirs = [item for item in rest if part.contains(from_wire(item.id))]
            if theirs:
                rest = [item for item in rest if not part.contains(from_wire(item.id))]
                self._pass(node, part, theirs, serial, origin, receipts)
        self._route_singly(rest, serial, origin, receipts)

    def _pass(
        self, node: NodeRef, part: Arc, items: Sequence[Item], serial: int, origin: NodeRef, receipts: bool
    ) -> None:
        wire_part = WireArc(to_wire(part.start), to_wire(part.end))
        for chunk in self._chunks(items):
            self._multi_messages += 1
            message = MultiSend(serial, origin, wire_part, tuple(chunk), receipts)

            def notice(arrived: bool, chunk: list[Item] = chunk) -> None:
                if not arrived:
                    self._cache.forget(node)
                    self._route_singly(chunk, serial, origin, receipts)

            self._messenger.send(node.address, message, notice)

    def _chunks(self, items: Sequence[Item]) -> list[list[Item]]:
        chunks: list[list[Item]] = []
        size = self._message_bytes_max + 1
        for item in items:
            cost = ITEM_BYTES + len(item.value)
            if size + cost > self._message_bytes_max:
                chunks.append([])
                size = 0
            chunks[-1].append(item)
            size += cost
        return chunks

    def _route_singly(self, items: Sequence[Item], serial: int, origin: NodeRef, receipts: bool) -> None:
        for item in items:
            self._multi_singly += 1

            def notice(arrived: bool) -> None:
                if not arrived and receipts:
                    self._messenger.send(origin.address, MultiSendReceipt(serial, 0, 1))

            self._router.route(from_wire(item.id), MultiSendOne(serial, origin, item, receipts), notice)

    def _deliver_one(self, message: MultiSendOne, passage: Passage) -> None:
        self._take(message.item, message.origin, message.serial, False)
        if message.receipts:
            self._messenger.send(message.origin.address, MultiSendReceipt(message.serial, 1))

    def _count(self, serial: int, total: int, done: Callable[[MultiSent], None]) -> None:
        if len(self._counted) >= COUNTED_MAX:
            self._finish(next(iter(self._counted)))
        timer = self._runtime.call_later(RECEIPTS_WAIT_S if total else 0.0, self._finish, serial)
        self._counted[serial] = _Counted(total, 0, 0, done, timer)

    def _receipt(self, sender: Address, message: MultiSendReceipt) -> None:
        counted = self._counted.get(message.serial)
        if counted is None:
            return
        # Nobody can have delivered more than there was.
        delivered = min(message.delivered, counted.left)
        failed = min(message.failed, counted.left - delivered)
        counted.delivered += delivered
        counted.failed += failed
        counted.left -= delivered + failed
        if counted.left <= 0:
            self._finish(message.serial)

    def _finish(self, serial: int) -> None:
        counted = self._counted.pop(serial, None)
        if counted is None:
            return
        if counted.timer is not None:
            counted.timer.cancel()
        counted.done(MultiSent(counted.delivered, counted.failed, max(0, counted.left)))
