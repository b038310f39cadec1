"""Objects into the store: whatever way they came, this is where they are kept and subscribers are told."""

from __future__ import annotations

from overlay.dht.holds import Holds
from overlay.dht.messages import Cause, Code, Found, Item
from overlay.dht.own_arc import OwnArc
from overlay.dht.watch import NewData, OnNewData, Watchers
from overlay.objects.name import Name, Prefix
from overlay.objects.store import ObjectStore
from overlay.objects.stored import Outcome, Role, StoredObject
from overlay.ring import Arc, from_wire, to_wire
from runtime.api import Runtime, Timer

#: Rows of an ended query that are given up in one turn.
LET_GO_CHUNK = 1_024

_CODES = {Outcome.FULL: Code.FULL, Outcome.TOO_LARGE: Code.TOO_LARGE}


class Keeper:
    """The store of this node with its clock, its subscribers and its expiry timer."""

    __slots__ = ("_expiry", "_expiry_at", "_runtime", "holds", "new_data", "owns", "store")

    def __init__(self, runtime: Runtime, own: OwnArc, holds: Holds, store: ObjectStore) -> None:
        self.store = store
        self.holds = holds
        self.new_data: Watchers[OnNewData] = Watchers()
        self._runtime = runtime
        self.owns = own.owns
        self._expiry: Timer | None = None
        self._expiry_at = 0.0

    def belongs(self, stored: StoredObject) -> bool:
        """Whether a local scan shows it: exactly one live node does, whatever copies there are."""
        if stored.role is Role.PINNED:
            return True
        return self.takes(stored.name.namespace, stored.temporary, stored.id)

    def lies_within(self, arc: Arc, stored: StoredObject) -> bool:
        """The same for a scan that has an arc of its own."""
        return stored.role is Role.PINNED or arc.contains(stored.id)

    def takes(self, namespace: str, temporary: bool, identifier: int) -> bool:
        """Whether an object is this node's: by what it holds for a query, else by the ring."""
        mine = self.holds.mine(namespace, temporary, identifier)
        return self.owns(identifier) if mine is None else mine

    def accept(self, item: Item, cause: Cause, anyhow: bool) -> Code:
        now = self._runtime.now()
        name = Name(item.namespace, item.key, item.suffix)
        if item.lifetime_ms == 0 and cause is Cause.SENT:
            self._tell(name, item.value, cause)
            return Code.OK
        identifier = from_wire(item.id)
        role = Role.PRIMARY
        # What a query puts at a node it chose stays there, whoever owns the id now or later.
        if anyhow and (item.temporary or not self.owns(identifier)):
            role = Role.PINNED if cause in (Cause.PUT, Cause.SENT) else Role.COPY
        before = self.store.get(name, now)
        visible = before is not None and before.role is not Role.COPY
        outcome = self.store.put(
            StoredObject(
                name,
                identifier,
                item.value,
                put_at=now - item.age_ms / 1000,
                expires_at=now + item.lifetime_ms / 1000,
                version=item.version,
                copies=item.copies,
                role=role,
                temporary=item.temporary,
            ),
            now,
        )
        fresh = outcome in (Outcome.STORED, Outcome.REPLACED) or (outcome is Outcome.SAME and not visible)
        if fresh and role is not Role.COPY:
            self._tell(name, item.value, cause)
        self._arm()
        return _CODES.get(outcome, Code.OK)

    def promote(self, stored: StoredObject) -> None:
        """A copy whose id this node has come to own."""
        self.store.set_role(stored, Role.PRIMARY)
        self._tell(stored.name, stored.value, Cause.MOVED)

    def _tell(self, name: Name, value: bytes, cause: Cause) -> None:
        if self.new_data:
            news = NewData(name, value, cause)
            for handler in self.new_data.matching(name):
                handler(news)

    def let_go(self, namespace: str) -> None:
        """A query has read a namespace here to its end: the rows that were put at this node for it to read go. Those
        that the ring placed by their keys stay for their lifetime, since another node may still look them up."""
        if not self.holds.end(namespace):
            return
        scan = self.store.scan(Prefix(namespace))

        def step(_: None) -> None:
            for stored in scan.next(LET_GO_CHUNK, self._runtime.now()):
                if stored.temporary and stored.role is Role.PINNED:
                    self.store.remove(stored)
            if not scan.finished:
                self._runtime.call_later(0.0, step, None)

        step(None)

    # --- expiry ------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        due = self.store.next_expiry()
        if due is None or (self._expiry is not None and self._expiry_at <= due):
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry_at = due
        self._expiry = self._runtime.call_later(max(0.0, due - self._runtime.now()), self._expire, None)

    def _expire(self, _: None) -> None:
        self._expiry = None
        self.store.expire(self._runtime.now())
        self._arm()


def to_item(stored: StoredObject, now: float) -> Item:
    """A stored object as it travels to another node."""
    return Item(
        to_wire(stored.id),
        *stored.name,
        stored.value,
        lifetime_ms=max(1, int((stored.expires_at - now) * 1000)),
        age_ms=max(0, int((now - stored.put_at) * 1000)),
        version=stored.version,
        copies=stored.copies,
        temporary=stored.temporary,
    )


def to_found(stored: StoredObject, now: float) -> Found:
    return Found(
        stored.name.suffix,
        stored.value,
        lifetime_ms=max(1, int((stored.expires_at - now) * 1000)),
        age_ms=max(0, int((now - stored.put_at) * 1000)),
    )
