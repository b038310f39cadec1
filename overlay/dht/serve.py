"""The answering side: puts, gets and renewals from other nodes, for the ids this node owns.

An id that is not owned here is refused with what this node knows of its owner, so the asker corrects its
cache. A get in an arc that has only just become ours is answered together with those who held it before (see
`handover`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from overlay.dht.accept import Keeper, to_found
from overlay.dht.copies import Copies
from overlay.dht.handover import Handover
from overlay.dht.messages import (
    Answer,
    Code,
    Found,
    Get,
    GetReply,
    Item,
    Put,
    PutReply,
    Renew,
    RenewReply,
    Want,
    WireOwner,
)
from overlay.dht.own_arc import OwnArc
from overlay.dht.owners import OwnerCache
from overlay.dht.requests import ITEM_BYTES, Entry, Requests
from overlay.dht.standing import Standings
from overlay.objects.name import Name
from overlay.objects.stored import StoredObject
from overlay.ring import Arc, WireArc, from_wire, point, to_wire
from overlay.router import Owner, Router
from runtime.api import Address, Messenger, Runtime

#: How many other owners one refusal names.
HINTS_MAX = 64
#: How long a get waits until this node is sure of its arc: a round trip to its neighbours, where nobody is silent.
SURE_S = 1.0
_NOT_MINE = Answer(Code.NOT_MINE)
_BUSY = Answer(Code.BUSY)


@dataclass(frozen=True, slots=True)
class ServeStatistics:
    puts: int
    gets: int
    renewals: int
    not_mine: int
    asked_previous: int


class Server:
    """Operations of other nodes on objects here."""

    __slots__ = (
        "_asked_previous",
        "_cache",
        "_copies",
        "_gets",
        "_handover",
        "_keeper",
        "_messenger",
        "_not_mine",
        "_own",
        "_puts",
        "_renewals",
        "_reply_bytes_max",
        "_requests",
        "_router",
        "_runtime",
        "_standings",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        router: Router,
        own: OwnArc,
        standings: Standings,
        keeper: Keeper,
        cache: OwnerCache,
        requests: Requests,
        handover: Handover,
        copies: Copies,
        reply_bytes_max: int,
    ) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._router = router
        self._own = own
        self._standings = standings
        self._keeper = keeper
        self._cache = cache
        self._requests = requests
        self._handover = handover
        self._copies = copies
        self._reply_bytes_max = reply_bytes_max
        self._puts = self._gets = self._renewals = self._not_mine = self._asked_previous = 0
        messenger.on(Put, self._put)
        messenger.on(Get, self._get)
        messenger.on(Renew, self._renew)

    def statistics(self) -> ServeStatistics:
        return ServeStatistics(self._puts, self._gets, self._renewals, self._not_mine, self._asked_previous)

    # --- put ---------------------------------------------------------------------------------------------------

    def _put(self, sender: Address, message: Put) -> None:
        codes = bytearray()
        strangers: list[int] = []
        replicate: list[Item] = []
        held: dict[bytes, Owner] = {}
        for item in message.items:
            self._puts += 1
            if not message.anyhow and self._refuse_put(item, codes, strangers, held):
                continue
            code = self._keeper.accept(item, message.cause, message.anyhow)
            codes.append(code)
            if item.copies and code is Code.OK and not message.anyhow:
                replicate.append(item)
        reply = PutReply(message.call, bytes(codes), (*self._hints(strangers), *_to_wire_owners(held)))
        if replicate:
            self._copies.keep(replicate, lambda: self._messenger.send(sender, reply))
        else:
            self._messenger.send(sender, reply)

    def _refuse_put(
        self, item: Item, codes: bytearray, strangers: list[int], held: dict[bytes, Owner]
    ) -> bool:
        """As `_refuse`, unless this node holds the namespace for a query: then what it holds decides, and a refusal
        names who holds the rest."""
        identifier = from_wire(item.id)
        mine = self._keeper.holds.mine(item.namespace, item.temporary, identifier)
        if mine is None:
            return self._refuse(item.id, codes, strangers)
        if mine:
            return False
        self._not_mine += 1
        codes.append(Code.NOT_MINE)
        holder = self._keeper.holds.holder(item)
        if holder is not None and len(held) < HINTS_MAX:
            held[item.id] = Owner(holder, point(identifier))
        return True

    def _refuse(self, wire_id: bytes, codes: bytearray, strangers: list[int]) -> bool:
        identifier = int.from_bytes(wire_id, "big")
        if self._own.owns(identifier):
            return False
        codes.append(Code.NOT_MINE if self._own.member else Code.BUSY)
        strangers.append(identifier)
        return True

    def _hints(self, strangers: Sequence[int]) -> tuple[WireOwner, ...]:
        """My own arc, and the owners I remember of what is not mine."""
        if not strangers:
            return ()
        self._not_mine += len(strangers)
        if not self._own.member:
            return ()
        owners = {self._router.me.id: Owner(self._router.me, self._router.arc())}
        for identifier in strangers:
            owner = self._cache.find(identifier)
            if owner is not None and len(owners) < HINTS_MAX:
                owners[owner.node.id] = owner
        return _to_wire_owners(owners)

    # --- renew -------------------------------------------------------------------------------------------------

    def _renew(self, sender: Address, message: Renew) -> None:
        codes = bytearray()
        strangers: list[int] = []
        replicated: list[tuple[StoredObject, int]] = []
        now = self._runtime.now()
        for renewal in message.renewals:
            self._renewals += 1
            if not message.anyhow and self._refuse(renewal.id, codes, strangers):
                continue
            name = Name(renewal.namespace, renewal.key, renewal.suffix)
            stored = self._keeper.store.renew(name, renewal.lifetime_ms / 1000, renewal.version, now)
            codes.append(Code.UNKNOWN if stored is None else Code.OK)
            if stored is not None and renewal.lifetime_ms:
                self._keeper.renewed(stored, renewal.load)
            if stored is not None and stored.copies and not message.anyhow:
                replicated.append((stored, renewal.lifetime_ms))
        if replicated:
            self._copies.renew(replicated)
        self._messenger.send(sender, RenewReply(message.call, bytes(codes), self._hints(strangers)))

    # --- get ---------------------------------------------------------------------------------------------------

    def _get(self, sender: Address, message: Get) -> None:
        """A node that its neighbours may have given up asks them first."""
        if message.anyhow or not self._own.member or self._router.certain() is not None:
            self._answer_get(sender, message)
        else:
            self._router.confirm(lambda _: self._answer_get(sender, message), SURE_S)

    def _answer_get(self, sender: Address, message: Get) -> None:
        answers: list[Answer] = []
        strangers: list[int] = []
        elsewhere: list[tuple[int, Want, list[Address]]] = []
        budget = self._reply_bytes_max
        self._gets += len(message.wants)
        for position, want in enumerate(message.wants):
            identifier = int.from_bytes(want.id, "big")
            if not (message.anyhow or self._own.owns(identifier)):
                answers.append(_BUSY if not self._own.member else _NOT_MINE)
                strangers.append(identifier)
                continue
            answer, size = self._read(want, budget)
            budget -= size
            if not message.anyhow and not self._standings.is_settled(identifier):
                sure = self._standings.is_sure_of(identifier)
                answer = msgspec.structs.replace(answer, sure=sure, settled=False)
            answers.append(answer)
            if self._handover.recent and not message.anyhow:
                holders = self._handover.previous_holders(identifier, empty=not answer.found)
                if holders:
                    elsewhere.append((position, want, holders))
        hints = self._hints(strangers)
        if elsewhere:
            self._ask_previous(sender, message.call, answers, hints, elsewhere)
        else:
            self._messenger.send(sender, GetReply(message.call, tuple(answers), hints))

    def _read(self, want: Want, budget: int) -> tuple[Answer, int]:
        now = self._runtime.now()
        store = self._keeper.store
        if want.suffix is not None:
            stored = store.get(Name(want.namespace, want.key, want.suffix), now)
            here = [stored] if stored is not None else []
        else:
            here = store.under(want.namespace, want.key, now)
        here = [stored for stored in here if not stored.load]
        size = sum([len(stored.value) + ITEM_BYTES for stored in here])
        if want.after is None and size <= budget:
            return Answer(Code.OK, tuple([to_found(stored, now) for stored in here])), size
        return self._read_page(want, here, budget, now)

    def _read_page(self, want: Want, here: list[StoredObject], budget: int, now: float) -> tuple[Answer, int]:
        """As many as fit, in order of suffix; the asker goes on after the last. The first of a whole budget
        always fits, or a value as large as a message could never be read."""
        here.sort(key=lambda stored: stored.name.suffix)
        page: list[Found] = []
        size = 0
        whole = budget == self._reply_bytes_max
        for stored in here:
            if want.after is not None and stored.name.suffix <= want.after:
                continue
            cost = len(stored.value) + ITEM_BYTES
            if size + cost > budget and not (whole and not page):
                return Answer(Code.OK, tuple(page), more=True), size
            page.append(to_found(stored, now))
            size += cost
        return Answer(Code.OK, tuple(page)), size

    def _ask_previous(
        self,
        sender: Address,
        call: int,
        answers: list[Answer],
        hints: tuple[WireOwner, ...],
        elsewhere: list[tuple[int, Want, list[Address]]],
    ) -> None:
        left = sum(len(holders) for _, _, holders in elsewhere)

        def ended(position: int, answer: Answer | None) -> None:
            nonlocal left
            left -= 1
            if answer is not None:
                answers[position] = merge_answers(answers[position], answer)
            if left == 0:
                self._messenger.send(sender, GetReply(call, tuple(answers), hints))

        for position, want, holders in elsewhere:
            for holder in holders:
                self._asked_previous += 1
                ending = partial(_pass_answer, ended, position)
                self._requests.submit(build_get, [Entry(want, ITEM_BYTES, ending, to=holder, attempts_max=1)])


def _pass_answer(
    ended: Callable[[int, Answer | None], None], position: int, _: Code, answer: Answer | None
) -> None:
    ended(position, answer)


def merge_answers(ours: Answer, theirs: Answer) -> Answer:
    """What two holders of one key have; on the same suffix ours counts. When one of them has more to come,
    only what lies before its last suffix is complete."""
    found = {each.suffix: each for each in (*theirs.found, *ours.found)}
    sure = ours.sure
    ends = [answer.found[-1].suffix if answer.found else "" for answer in (ours, theirs) if answer.more]
    if not ends:
        return Answer(Code.OK, tuple(found.values()), sure=sure, settled=ours.settled)
    page = tuple(found[suffix] for suffix in sorted(found) if suffix <= min(ends))
    return Answer(Code.OK, page, more=True, sure=sure, settled=ours.settled)


def build_get(call: int, wants: tuple[Any, ...], anyhow: bool) -> Get:
    return Get(call, wants, anyhow)


def _to_wire_arc(arc: Arc) -> WireArc:
    return WireArc(to_wire(arc.start), to_wire(arc.end))


def _to_wire_owners(owners: Mapping[bytes, Owner]) -> tuple[WireOwner, ...]:
    return tuple(WireOwner(owner.node, _to_wire_arc(owner.arc)) for owner in owners.values())
