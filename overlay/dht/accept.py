"""Objects into the store: whatever way they came, this is where they are kept and subscribers are told."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

from overlay.dht.hidden import HiddenLoads
from overlay.dht.holds import Holds
from overlay.dht.messages import Cause, Code, Found, Item
from overlay.dht.own_arc import OwnArc
from overlay.dht.watch import NewData, OnNewData, Subscription, Watchers
from overlay.objects.name import Name, Prefix
from overlay.objects.store import ObjectStore
from overlay.objects.stored import Outcome, Role, StoredObject
from overlay.ring import Arc, from_wire, to_wire
from runtime.api import Runtime, Timer
from runtime.message import to_millis

#: Rows of an ended query that are given up in one turn.
LET_GO_CHUNK = 1_024

#: Told of an object that is stored here, or replaced.
OnStored: TypeAlias = Callable[[StoredObject], None]

_CODES = {Outcome.FULL: Code.FULL, Outcome.TOO_LARGE: Code.TOO_LARGE}


class Keeper:
    """The store of this node with its clock, its subscribers and its expiry timer."""

    __slots__ = (
        "_expiry",
        "_expiry_at",
        "_runtime",
        "_windows",
        "hidden",
        "holds",
        "new_data",
        "owns",
        "store",
    )

    def __init__(self, runtime: Runtime, own: OwnArc, holds: Holds, store: ObjectStore) -> None:
        self.store = store
        self.holds = holds
        self.hidden = HiddenLoads()
        self.new_data: Watchers[OnNewData] = Watchers()
        self._runtime = runtime
        self.owns = own.owns
        self._expiry: Timer | None = None
        self._expiry_at = 0.0
        #: Who keeps an eye on the young objects of a namespace, own ones and copies.
        self._windows: dict[str, list[OnStored]] = {}

    def watch_stored(self, namespace: str, handler: OnStored) -> Subscription:
        """Shows every object of a namespace that is stored here from now on, whoever owns it."""
        self._windows.setdefault(namespace, []).append(handler)

        def cancel() -> None:
            self._windows[namespace].remove(handler)
            if not self._windows[namespace]:
                del self._windows[namespace]

        return Subscription(cancel)

    def _show(self, name: Name) -> None:
        handlers = self._windows.get(name.namespace)
        stored = self.store.get(name, self._runtime.now()) if handlers else None
        if stored is not None:
            for handler in list(handlers or ()):
                handler(stored)

    def belongs(self, stored: StoredObject) -> bool:
        """Whether a local scan shows it: exactly one live node does, whatever copies there are; none does while it is
        part of a load that is not shown."""
        if stored.load:
            return False
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
            self._tell(name, item.value, cause, first=True)
            return Code.OK
        identifier = from_wire(item.id)
        role = Role.PRIMARY
        # What a query puts at a node it chose stays there, whoever owns the id now or later.
        if anyhow and (item.temporary or not self.owns(identifier)):
            role = Role.PINNED if cause in (Cause.PUT, Cause.SENT) else Role.COPY
        moved = cause in (Cause.MOVED, Cause.COPY)
        before = self.store.get(name, now)
        same = before is not None and before.value == item.value and not before.load
        visible = before is not None and before.role is not Role.COPY and not before.load
        outcome = self.store.put(
            StoredObject(
                name,
                identifier,
                item.value,
                put_at=now - item.age_ms / 1000,
                expires_at=now + item.lifetime_ms / 1000,
                born_at=now - item.born_ms / 1000,
                version=item.version,
                copies=item.copies,
                role=role,
                temporary=item.temporary,
                load=item.load,
                moved=moved,
            ),
            now,
        )
        if item.load and outcome.kept:
            self.hidden.add(name, item.load, now + item.lifetime_ms / 1000, now)
            if not visible:
                self._arm()
                return Code.OK
        if outcome.kept and self._windows:
            self._show(name)
        fresh = outcome in (Outcome.STORED, Outcome.REPLACED) or (outcome is Outcome.SAME and not visible)
        if fresh and role is not Role.COPY:
            # Only what was put just now, and was not here before, is new to the whole ring.
            self._tell(name, item.value, cause, first=not (moved or same or item.born_ms))
        self._arm()
        return _CODES.get(outcome, Code.OK)

    def promote(self, stored: StoredObject) -> None:
        """A copy whose id this node has come to own."""
        self.store.set_role(stored, Role.PRIMARY)
        if not stored.load:
            self._tell(stored.name, stored.value, Cause.MOVED, first=False)

    def turn_load(self, namespace: str, load: str) -> int:
        """A load is about to be shown: how many of its objects are this node's."""
        return self._own(self.hidden.turn(namespace, load))

    def show_load(self, namespace: str, load: str) -> int:
        """A load is to be seen from now on: how many of its objects are this node's."""
        now = self._runtime.now()
        names = self.hidden.show(namespace, load, now)
        for name in names:
            stored = self.store.get(name, now)
            if stored is not None:
                self.show(stored)
        return self._own(names)

    def renewed(self, stored: StoredObject, load: str) -> None:
        """Its publisher keeps it alive: as part of a load that is still coming, or to be seen."""
        if load and stored.load:
            self.hidden.add(stored.name, load, stored.expires_at, self._runtime.now())
        elif not load:
            self.show(stored)

    def show(self, stored: StoredObject) -> None:
        """What comes into sight is as new as what is put."""
        if not stored.load:
            return
        self.store.show(stored, self._runtime.now())
        if self._windows:
            self._show(stored.name)
        if stored.role is not Role.COPY:
            self._tell(stored.name, stored.value, Cause.PUT, first=True)

    def _own(self, names: list[Name]) -> int:
        now = self._runtime.now()
        found = (self.store.get(name, now) for name in names)
        return sum(1 for each in found if each is not None and self.owns(each.id))

    def _tell(self, name: Name, value: bytes, cause: Cause, first: bool) -> None:
        if self.new_data:
            news = NewData(name, value, cause, first)
            for handler in self.new_data.matching(name):
                handler(news)

    def drop(self, namespace: str, keys: Collection[str]) -> int:
        now, owned = self._runtime.now(), 0
        if keys:
            found = [stored for key in keys for stored in self.store.under(namespace, key, now)]
        else:
            scan, found = self.store.scan(Prefix(namespace)), []
            while not scan.finished:
                found += scan.next(LET_GO_CHUNK, now)
        for stored in found:
            if not stored.temporary:
                owned += self.owns(stored.id)
                self.store.remove(stored)
        return owned

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
        lifetime_ms=to_millis(stored.expires_at - now, 1),
        age_ms=to_millis(now - stored.put_at),
        version=stored.version,
        copies=stored.copies,
        temporary=stored.temporary,
        load=stored.load,
        born_ms=to_millis(now - stored.born_at),
    )


def to_found(stored: StoredObject, now: float) -> Found:
    return Found(
        stored.name.suffix,
        stored.value,
        lifetime_ms=to_millis(stored.expires_at - now, 1),
        age_ms=to_millis(now - stored.put_at),
    )
