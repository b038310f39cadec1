"""The asking side of put, get and renew: entries in, one message per owner out, an end for each entry.

An entry is one object's operation on an id or an address. Entries for one owner share messages bounded in
bytes. An entry that its owner disowns, or whose owner is silent past the time replies usually take, is tried
again on a fresh lookup; a silent owner's late reply still counts. Attempts are bounded, and every entry ends
exactly once: all operations are idempotent by name, so asking twice changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from overlay.dht.deadlines import Deadlines
from overlay.dht.messages import Code, Item, Owners, name_bytes, refusal
from overlay.dht.own_arc import OwnArc
from overlay.dht.owners import OwnerCache
from overlay.dht.resolve import Resolver
from overlay.dht.timing import ReplyTimes
from overlay.ring import Arc, NodeRef, from_wire
from overlay.router import Owner
from runtime.api import Address, Messenger, Runtime
from runtime.message import MILLIS_MAX, Message, to_millis

#: Operations under way on one node; at some 500 bytes each besides their values.
ENTRIES_MAX = 131_072
#: Tries of one entry; with the pauses between them about ten seconds of ring trouble are ridden out.
ATTEMPTS_MAX = 9
PAUSE_FIRST_S = 0.05
PAUSE_MAX_S = 2.0
#: How long the late reply of a silent owner is still recognised.
LATE_S = 10.0
#: A patient operation, meant for one address and perhaps one of many large ones, can be done by nobody else. While the
#: transport is at work on it, asking again would only add to what holds it up; so the reply is waited for once it
#: has arrived, and this long. The transport's word that it did not arrive counts, after so many tries.
PATIENT_REPLY_S = 30.0
PATIENT_ATTEMPTS_MAX = 3
#: What one item costs on the wire beside its value and names.
ITEM_BYTES = 48


class Entry:
    """One object's operation under way."""

    __slots__ = (
        "aged_at",
        "anyhow",
        "attempts",
        "attempts_max",
        "done",
        "hint",
        "id",
        "item",
        "patient",
        "size",
        "to",
    )

    def __init__(
        self,
        item: Any,
        size: int,
        done: Callable[[Code, Any], None],
        *,
        to: Address | None = None,
        anyhow: bool = True,
        attempts_max: int = ATTEMPTS_MAX,
        patient: bool = False,
    ) -> None:
        self.id = int.from_bytes(item.id, "big")
        self.item = item
        self.size = size + name_bytes(item)
        #: An address takes the place of a lookup; `anyhow` tells that node to act whether or not it owns the id.
        self.to = to
        self.anyhow = to is not None and anyhow
        self.attempts = 0
        #: When the item's age was right.
        self.aged_at = 0.0
        self.patient = patient
        self.attempts_max = PATIENT_ATTEMPTS_MAX if patient and to is not None else attempts_max
        #: Whom a node that refused it named for this very id; asked once.
        self.hint: NodeRef | None = None
        #: Called once with the end and, for a get, the answer; None afterwards.
        self.done: Callable[[Code, Any], None] | None = done


#: Makes the message of one verb: call number, items, whether the receiver is meant by address.
Build = Callable[[int, tuple[Any, ...], bool], Message]


class _Call:
    """One message that waits for its reply."""

    __slots__ = ("address", "build", "entries", "expired", "node", "sent_at")

    def __init__(
        self, address: Address, node: NodeRef | None, build: Build, entries: list[Entry], now: float
    ):
        self.address = address
        self.node = node
        self.build = build
        self.entries = entries
        self.sent_at = now
        #: Its entries are being tried elsewhere; the record stays for a late reply.
        self.expired = False


@dataclass(frozen=True, slots=True)
class RequestStatistics:
    submitted: int
    ended: dict[str, int]
    messages: int
    retries: int
    timeouts: int
    failure_notices: int
    not_mine: int
    late_replies: int
    unknown_replies: int
    under_way: int


class Requests:
    """Operations of this node on objects anywhere."""

    __slots__ = (
        "_cache",
        "_calls",
        "_deadlines",
        "_ended",
        "_failure_notices",
        "_gathering",
        "_late",
        "_me",
        "_message_bytes_max",
        "_messages",
        "_messenger",
        "_next_call",
        "_not_mine",
        "_now",
        "_own",
        "_resolver",
        "_retries",
        "_rng",
        "_runtime",
        "_submitted",
        "_timeouts",
        "_times",
        "_under_way",
        "_unknown",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        me: NodeRef,
        own: OwnArc,
        cache: OwnerCache,
        resolver: Resolver,
        message_bytes_max: int,
    ) -> None:
        self._runtime = runtime
        self._now = runtime.now
        self._messenger = messenger
        self._me = me
        self._own = own
        self._cache = cache
        self._resolver = resolver
        self._message_bytes_max = message_bytes_max
        self._rng = runtime.rng("dht/requests")
        self._times = ReplyTimes()
        self._calls: dict[int, _Call] = {}
        self._deadlines = Deadlines(runtime, self._expired)
        self._gathering: dict[tuple[Address, Build], tuple[NodeRef, list[Entry]]] = {}
        self._next_call = self._rng.getrandbits(31)
        self._under_way = 0
        self._submitted = self._messages = self._retries = self._timeouts = 0
        self._failure_notices = self._not_mine = self._late = self._unknown = 0
        self._ended: dict[Code, int] = {}

    # --- in ----------------------------------------------------------------------------------------------------

    def submit(self, build: Build, entries: Sequence[Entry]) -> None:
        """Starts operations. Those that nobody could read, and those beyond the bound (LIMIT), end at once, each alone,
        later in this turn of the loop."""
        self._submitted += len(entries)
        room = max(0, ENTRIES_MAX - self._under_way)
        self._under_way += len(entries)
        refused = [(entry, code) for entry in entries if (code := refusal(entry.item)) is not None]
        if refused:
            bad = {id(entry) for entry, _ in refused}
            entries = [entry for entry in entries if id(entry) not in bad]
        refused += [(entry, Code.LIMIT) for entry in entries[room:]]
        entries = entries[:room]
        if refused:
            self._runtime.call_later(0.0, self._refuse, refused)
        now = self._now()
        for entry in entries:
            entry.aged_at = now
        self._dispatch(build, entries)

    def replied(
        self, sender: Address, call_id: int, ends: Sequence[tuple[Code, Any]], owners: Owners
    ) -> None:
        """A reply arrived: `ends` has one pair for each item of the request."""
        call = self._calls.get(call_id)
        if call is None or call.address != sender or len(ends) != len(call.entries):
            self._unknown += 1
            return
        del self._calls[call_id]
        self._times.replied(sender, self._now() - call.sent_at)
        again: list[Entry] = []
        for entry, (code, payload) in zip(call.entries, ends, strict=True):
            if entry.done is None:
                self._late += 1
            elif (code is Code.NOT_MINE or code is Code.BUSY) and entry.to is None:
                self._not_mine += 1
                again.append(entry)
            else:
                self._end(entry, code, payload)
        if again:
            self._learn(call, owners, again)
            self._retry(call.build, again)

    # --- out ---------------------------------------------------------------------------------------------------

    def _dispatch(self, build: Build, entries: Sequence[Entry]) -> None:
        """Sends what has a known owner or address; the rest waits for lookups."""
        groups: dict[Address, tuple[NodeRef | None, list[Entry]]] = {}
        for entry in entries:
            node: NodeRef | None = None
            address = entry.to
            if address is None:
                node = self._known_owner(entry)
                if node is None:
                    self._look_up(build, entry)
                    continue
                address = node.address
            group = groups.get(address)
            if group is None:
                groups[address] = (node, [entry])
            else:
                group[1].append(entry)
        for address, (node, members) in groups.items():
            self._send_group(build, address, node, members)

    def _known_owner(self, entry: Entry) -> NodeRef | None:
        if entry.hint is not None:
            node, entry.hint = entry.hint, None
            return node
        if self._own.owns(entry.id):
            return self._me
        # From the second retry on only a fresh lookup counts: two nodes may each believe the other.
        owner = self._resolver.find(entry.id) if entry.attempts < 2 else None
        return None if owner is None else owner.node

    def _look_up(self, build: Build, entry: Entry) -> None:
        def resolved(owner: Owner | None) -> None:
            if entry.done is None:
                return
            if owner is None:
                self._retry(build, [entry])
            else:
                self._gather(build, entry, owner)

        self._resolver.resolve(entry.id, resolved)

    def _gather(self, build: Build, entry: Entry, owner: Owner) -> None:
        """Entries settled by one lookup answer come one after another: they leave together, after this turn."""
        key = (owner.node.address, build)
        waiting = self._gathering.get(key)
        if waiting is not None:
            waiting[1].append(entry)
            return
        self._gathering[key] = (owner.node, [entry])
        self._runtime.call_later(0.0, self._send_gathered, key)

    def _send_gathered(self, key: tuple[Address, Build]) -> None:
        node, entries = self._gathering.pop(key)
        self._send_group(key[1], key[0], node, entries)

    def _send_group(self, build: Build, to: Address, node: NodeRef | None, entries: list[Entry]) -> None:
        if len(entries) == 1:
            self._send(build, to, node, entries, entries[0].size)
            return
        first, size = 0, 0
        for position, entry in enumerate(entries):
            if size and size + entry.size > self._message_bytes_max:
                self._send(build, to, node, entries[first:position], size)
                first, size = position, 0
            size += entry.size
        self._send(build, to, node, entries[first:], size)

    def _send(self, build: Build, to: Address, node: NodeRef | None, entries: list[Entry], size: int) -> None:
        self._next_call = call_id = (self._next_call + 1) & 0xFFFFFFFF
        now = self._now()
        if entries[0].attempts:
            self._age(entries, now)
        self._calls[call_id] = _Call(to, node, build, entries, now)
        message = build(call_id, tuple([entry.item for entry in entries]), entries[0].anyhow)
        self._messages += 1
        patient = entries[0].patient
        if not patient:
            self._deadlines.add(now + self._times.timeout_s(to, size), call_id)

        def told(arrived: bool) -> None:
            if not arrived:
                self._undelivered(call_id)
            elif patient and call_id in self._calls:
                self._deadlines.add(self._now() + PATIENT_REPLY_S, call_id)

        self._messenger.send(to, message, told)

    def _learn(self, call: _Call, owners: Owners, refused: list[Entry]) -> None:
        """Corrects the cache by what a node says that was asked by mistake. An owner named for one id alone is whom
        that object belongs to, not an arc to remember."""
        if call.node is not None:
            self._cache.forget(call.node)
        named: dict[int, NodeRef] = {}
        for hint in owners:
            arc = Arc(from_wire(hint.arc.start), from_wire(hint.arc.end))
            if arc.width() == 1:
                named[arc.start] = hint.node
            else:
                self._cache.learn(Owner(hint.node, arc))
        for entry in refused if named else ():
            entry.hint = named.get(entry.id)

    # --- trouble -----------------------------------------------------------------------------------------------

    def _expired(self, call_id: int) -> None:
        call = self._calls.get(call_id)
        if call is None:
            return
        if call.expired:
            del self._calls[call_id]
            return
        self._timeouts += 1
        call.expired = True
        self._times.expired(call.address)
        self._deadlines.add(self._now() + LATE_S, call_id)
        self._elsewhere(call)

    def _undelivered(self, call_id: int) -> None:
        call = self._calls.pop(call_id, None)
        if call is None:
            return
        self._failure_notices += 1
        if not call.expired:
            self._elsewhere(call)

    def _elsewhere(self, call: _Call) -> None:
        if call.node is not None:
            self._cache.forget(call.node)
        self._retry(call.build, [entry for entry in call.entries if entry.done is not None])

    def _retry(self, build: Build, entries: list[Entry]) -> None:
        again: dict[int, list[Entry]] = {}
        for entry in entries:
            entry.attempts += 1
            if entry.attempts >= entry.attempts_max:
                self._end(entry, Code.UNREACHED, None)
            else:
                self._retries += 1
                again.setdefault(entry.attempts, []).append(entry)
        for attempts, members in again.items():
            if attempts == 1:
                self._dispatch(build, members)
            else:
                pause_s = min(PAUSE_FIRST_S * 2 ** (attempts - 2), PAUSE_MAX_S) * self._rng.uniform(
                    0.75, 1.25
                )
                self._runtime.call_later(pause_s, lambda them: self._dispatch(build, them), members)

    def _age(self, entries: list[Entry], now: float) -> None:
        """A put that is late must not replace what was put after it."""
        for entry in entries:
            if isinstance(entry.item, Item):
                age_ms = min(entry.item.age_ms + to_millis(now - entry.aged_at), MILLIS_MAX)
                entry.item = msgspec.structs.replace(entry.item, age_ms=age_ms)
                entry.aged_at = now

    def _refuse(self, entries: list[tuple[Entry, Code]]) -> None:
        for entry, code in entries:
            self._end(entry, code, None)

    def _end(self, entry: Entry, code: Code, payload: Any) -> None:
        done, entry.done = entry.done, None
        if done is None:
            return
        self._under_way -= 1
        self._ended[code] = self._ended.get(code, 0) + 1
        done(code, payload)

    def statistics(self) -> RequestStatistics:
        return RequestStatistics(
            submitted=self._submitted,
            ended={code.name.lower(): self._ended[code] for code in sorted(self._ended)},
            messages=self._messages,
            retries=self._retries,
            timeouts=self._timeouts,
            failure_notices=self._failure_notices,
            not_mine=self._not_mine,
            late_replies=self._late,
            unknown_replies=self._unknown,
            under_way=self._under_way,
        )
