"""The object manager: named soft-state values of one node, bounded in number and bytes (PIER 3.2.1-3.2.3).

The DHT's wrapper offers objects (`put`), extends them (`renew`), reads them by name and walks them by prefix.
A pure machine: every call is given the time. An object that has ended is never returned, whether or not its
memory was given back yet. Nothing is refused or evicted uncounted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from overlay.objects.expiry import ExpiryBuckets
from overlay.objects.name import Name, Prefix
from overlay.objects.scan import Scan
from overlay.objects.stored import Outcome, Role, StoredObject

#: What one object costs beside its strings: the object, its dictionary entries, its bucket entry (measured
#: with tracemalloc on CPython 3.11: 510 bytes with one object per key).
OBJECT_OVERHEAD_BYTES = 512
#: How many objects one call of `expire` lets go, so that a mass expiry does not stall the node (about 1 ms).
EXPIRE_CHUNK = 1000


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Bounds of one node's store."""

    #: Memory, names and overhead included. Lower on small hosts.
    bytes_max: int = 256 << 20
    #: Bounds the time of walking the whole store.
    objects_max: int = 1_000_000
    #: One value; larger things are split by whoever publishes them.
    value_bytes_max: int = 1 << 20
    #: PIER 3.2.3: no object outlives a dead publisher by more than this.
    lifetime_max_s: float = 3600.0
    #: Intermediate state of queries needs no more; a forgotten query's state is gone after this.
    temporary_lifetime_max_s: float = 600.0


@dataclass(frozen=True, slots=True)
class StoreStatistics:
    objects: int
    bytes: int
    stored: int
    replaced: int
    repeated: int
    superseded: int
    renewed: int
    renewals_refused: int
    expired: int
    removed: int
    refused_full: int
    refused_too_large: int
    copies_evicted: int


class ObjectStore:
    """Objects by namespace, key and suffix."""

    __slots__ = (
        "_copies",
        "_copies_evicted",
        "_expired",
        "_expiry",
        "_names",
        "_refused_full",
        "_refused_too_large",
        "_removed",
        "_renewals_refused",
        "_renewed",
        "_repeated",
        "_replaced",
        "_stored",
        "_superseded",
        "bytes",
        "count",
        "limits",
        "serial",
        "shape",
    )

    def __init__(self, limits: StoreLimits) -> None:
        self.limits = limits
        self.serial = 0
        #: Another number whenever a key came or went.
        self.shape = 0
        self.bytes = 0
        self.count = 0
        self._names: dict[str, dict[str, dict[str, StoredObject]]] = {}
        self._expiry = ExpiryBuckets()
        self._copies: dict[Name, None] = {}
        self._stored = self._replaced = self._repeated = self._superseded = 0
        self._renewed = self._renewals_refused = 0
        self._expired = self._removed = self._copies_evicted = 0
        self._refused_full = self._refused_too_large = 0

    # --- writing -----------------------------------------------------------------------------------------------

    def put(self, offered: StoredObject, now: float) -> Outcome:
        """Takes an object over; on a name already here the younger value stays. The lifetime is cut to the
        maximum. A replaced object keeps its identity and changes in place."""
        if len(offered.value) > self.limits.value_bytes_max:
            self._refused_too_large += 1
            return Outcome.TOO_LARGE
        offered.expires_at = min(offered.expires_at, now + self._lifetime_max(offered.temporary))
        here = self._find(offered.name)
        if here is not None and here.expires_at <= now:
            self._drop(here)
            self._expired += 1
            here = None
        if here is not None and here.value == offered.value and (offered.load or not here.load):
            # The same content again is no other row: it is as old as the older of the two says.
            here.born_at = offered.born_at = min(here.born_at, offered.born_at)
        if here is not None and here.put_at > offered.put_at:
            self._superseded += 1
            return Outcome.SUPERSEDED
        if here is not None and here.value == offered.value:
            # What a load brings that is not shown yet, and is seen already, stays its first publisher's.
            unseen = bool(offered.load) and not here.load
            if unseen or here.version == offered.version:
                self._repeat(here, offered)
                return Outcome.SAME
        growth = len(offered.value) - len(here.value) if here is not None else _cost(offered)
        if not self._make_room(growth, here, now):
            self._refused_full += 1
            return Outcome.FULL
        self.serial += 1
        if here is not None:
            self._replace(here, offered, growth)
            return Outcome.REPLACED
        offered.serial = self.serial
        self._insert(offered)
        self._stored += 1
        return Outcome.STORED

    def renew(self, name: Name, lifetime_s: float, version: int | None, now: float) -> StoredObject | None:
        """Extends an object's life from now; None when it is not here, is another value, or is temporary.
        A lifetime of nothing removes it."""
        stored = self.get(name, now)
        if stored is None or stored.temporary or (version is not None and stored.version != version):
            self._renewals_refused += 1
            return None
        if lifetime_s <= 0:
            self.remove(stored)
            return stored
        stored.expires_at = now + min(lifetime_s, self._lifetime_max(stored.temporary))
        self._expiry.changed(stored)
        self._renewed += 1
        return stored

    def remove(self, stored: StoredObject) -> None:
        self._drop(stored)
        self._removed += 1

    def set_role(self, stored: StoredObject, role: Role) -> None:
        stored.role = role
        if role is Role.COPY:
            self._copies[stored.name] = None
        else:
            self._copies.pop(stored.name, None)

    def show(self, stored: StoredObject, now: float) -> None:
        """It is to be seen from now on: new to whoever has begun to look."""
        self.serial += 1
        stored.load, stored.serial, stored.born_at = "", self.serial, now

    def expire(self, now: float) -> int:
        """Gives back the memory of objects that have ended, EXPIRE_CHUNK at a time; how many there were."""
        ended = self._expiry.take_due(now, EXPIRE_CHUNK)
        for stored in ended:
            self._drop(stored)
        self._expired += len(ended)
        return len(ended)

    def next_expiry(self) -> float | None:
        return self._expiry.next_due()

    # --- reading -----------------------------------------------------------------------------------------------

    def get(self, name: Name, now: float) -> StoredObject | None:
        stored = self._find(name)
        return stored if stored is not None and stored.expires_at > now else None

    def under(self, namespace: str, key: str, now: float) -> list[StoredObject]:
        """Everything under one partitioning key."""
        suffixes = self._names.get(namespace, {}).get(key)
        if not suffixes:
            return []
        return [stored for stored in suffixes.values() if stored.expires_at > now]

    def scan(self, prefix: Prefix) -> Scan:
        """A walk over what is here now under a prefix, to be taken in chunks."""
        return Scan(self._names, prefix, self.serial)

    def namespaces(self) -> Iterator[str]:
        return iter(self._names)

    def keys_under(self, namespace: str) -> int:
        return len(self._names.get(namespace, ()))

    def statistics(self) -> StoreStatistics:
        return StoreStatistics(
            objects=self.count,
            bytes=self.bytes,
            stored=self._stored,
            replaced=self._replaced,
            repeated=self._repeated,
            superseded=self._superseded,
            renewed=self._renewed,
            renewals_refused=self._renewals_refused,
            expired=self._expired,
            removed=self._removed,
            refused_full=self._refused_full,
            refused_too_large=self._refused_too_large,
            copies_evicted=self._copies_evicted,
        )

    # --- inside ------------------------------------------------------------------------------------------------

    def _find(self, name: Name) -> StoredObject | None:
        keys = self._names.get(name.namespace)
        suffixes = keys.get(name.key) if keys is not None else None
        return suffixes.get(name.suffix) if suffixes is not None else None

    def _lifetime_max(self, temporary: bool) -> float:
        return self.limits.temporary_lifetime_max_s if temporary else self.limits.lifetime_max_s

    def _make_room(self, growth: int, here: StoredObject | None, now: float) -> bool:
        """Whether an object fits, after letting go of what has ended and then of copies, oldest first."""
        extra = 0 if here is not None else 1
        while self.bytes + growth > self.limits.bytes_max or self.count + extra > self.limits.objects_max:
            if self.expire(now):
                continue
            victim = next((name for name in self._copies if here is None or name != here.name), None)
            if victim is None:
                return False
            copy = self._find(victim)
            assert copy is not None, "the index of copies names an object that is gone"
            self._drop(copy)
            self._copies_evicted += 1
        return True

    def _insert(self, stored: StoredObject) -> None:
        namespace, key, suffix = stored.name
        suffixes = self._names.setdefault(namespace, {}).setdefault(key, {})
        self.shape += not suffixes
        suffixes[suffix] = stored
        self.bytes += _cost(stored)
        self.count += 1
        self._expiry.add(stored)
        if stored.role is Role.COPY:
            self._copies[stored.name] = None

    def _replace(self, here: StoredObject, offered: StoredObject, growth: int) -> None:
        here.id, here.value, here.put_at = offered.id, offered.value, offered.put_at
        here.expires_at, here.version = offered.expires_at, offered.version
        here.copies, here.temporary = offered.copies, offered.temporary
        here.born_at, here.moved = offered.born_at, offered.moved
        here.serial = self.serial
        # What is seen stays seen: a load that is repeated does not hide what it has shown before.
        here.load = here.load and offered.load
        self.bytes += growth
        self._expiry.changed(here)
        self.set_role(here, offered.role)
        self._replaced += 1

    def _repeat(self, here: StoredObject, offered: StoredObject) -> None:
        # A copy that stayed behind somewhere knows nothing of later renewals: it must not cut a life short.
        here.expires_at = max(here.expires_at, offered.expires_at) if offered.moved else offered.expires_at
        here.put_at, here.copies = offered.put_at, offered.copies
        if here.load and not offered.load:
            self.show(here, offered.born_at)
        self._expiry.changed(here)
        if offered.role is not Role.COPY:
            self.set_role(here, offered.role)
        self._repeated += 1

    def _drop(self, stored: StoredObject) -> None:
        namespace, key, suffix = stored.name
        keys = self._names[namespace]
        suffixes = keys[key]
        del suffixes[suffix]
        if not suffixes:
            del keys[key]
            self.shape += 1
            if not keys:
                del self._names[namespace]
        self.bytes -= _cost(stored)
        self.count -= 1
        self._expiry.discard(stored)
        self._copies.pop(stored.name, None)


def _cost(stored: StoredObject) -> int:
    namespace, key, suffix = stored.name
    return len(stored.value) + len(namespace) + len(key) + len(suffix) + OBJECT_OVERHEAD_BYTES
