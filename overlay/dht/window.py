"""The young objects of a namespace, for whoever asks again and again what came lately.

It knows of every object that is stored at this node, own ones and copies, and shows those in the arc that the node
answers for when it is asked: one that moves is shown by its new owner with the age that it has, no more by the old.
Invariant: an object of the namespace that is younger than `age_s` and not known here is not stored here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.dht.accept import Keeper
from overlay.dht.watch import Subscription
from overlay.objects.name import Name, Prefix
from overlay.objects.stored import Role, StoredObject
from overlay.ring import Arc
from runtime.api import Runtime

#: Objects looked at between two turns of the loop.
CHUNK_OBJECTS = 512
#: An age that travelled is right within this: what moved and lies so near to the edge of a window may be beyond it.
EDGE_S = 0.5
#: Young objects of one window: as many as a store holds. What is beyond it is not shown, and is in doubt.
YOUNG_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Young:
    """What a window shows at one moment."""

    values: list[bytes]
    #: Objects that came from elsewhere and lie at the edge, and such as are on their way to the node that owns them.
    doubtful: int


class Window:
    """The objects born within `age_s`, each time it is asked."""

    __slots__ = (
        "_age_s",
        "_crowded",
        "_keeper",
        "_read_at",
        "_ready",
        "_runtime",
        "_subscription",
        "_unread",
        "_waiting",
        "_young",
    )

    def __init__(self, runtime: Runtime, keeper: Keeper, namespace: str, age_s: float) -> None:
        self._runtime = runtime
        self._keeper = keeper
        self._age_s = age_s
        self._young: dict[Name, StoredObject] = {}
        #: Those that were put here since it was last asked: at the instant of asking, time alone does not tell.
        self._unread: dict[Name, None] = {}
        self._crowded = 0
        self._read_at: float | None = None
        self._ready = False
        self._waiting: list[Callable[[], None]] = []
        self._subscription: Subscription | None = keeper.watch_stored(namespace, self._stored)
        scan = keeper.store.scan(Prefix(namespace))

        def step(_: None) -> None:
            if self._subscription is None:
                return
            for stored in scan.next(CHUNK_OBJECTS, self._runtime.now()):
                self._stored(stored)
            if not scan.finished:
                self._runtime.call_later(0.0, step, None)
                return
            self._ready = True
            waiting, self._waiting = self._waiting, []
            for tell in waiting:
                tell()

        runtime.call_later(0.0, step, None)

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.cancel()
            self._subscription = None
        self._young.clear()
        self._unread.clear()
        self._waiting.clear()

    def when_ready(self, tell: Callable[[], None]) -> None:
        """Calls tell once everything that was here at the beginning has been looked at; at once if it has."""
        if self._ready:
            tell()
        else:
            self._waiting.append(tell)

    def read(self, arc: Arc, since_last: bool) -> Young:
        """What is young now in an arc; with `since_last` what was born since the last time it was asked."""
        now = self._runtime.now()
        oldest = now - self._age_s
        if since_last and self._read_at is not None:
            oldest = self._read_at
        self._read_at = now
        unread, self._unread = self._unread, {}
        values: list[bytes] = []
        doubtful, self._crowded = self._crowded, 0
        keep_s = min(oldest, now - self._age_s) - EDGE_S
        for name, stored in list(self._young.items()):
            if stored.born_at < keep_s or self._keeper.store.get(name, now) is not stored:
                del self._young[name]
                continue
            young = stored.born_at > oldest or name in unread
            if not self._keeper.lies_within(arc, stored):
                doubtful += stored.role is Role.PRIMARY and young
            else:
                doubtful += stored.moved and abs(stored.born_at - oldest) < EDGE_S
                if young:
                    values.append(stored.value)
        return Young(values, doubtful)

    def _stored(self, stored: StoredObject) -> None:
        if stored.load:
            return  # Nobody is to see it yet; it comes again when it is shown.
        now = self._runtime.now()
        oldest = now - self._age_s if self._read_at is None else min(now - self._age_s, self._read_at)
        if stored.born_at <= oldest - EDGE_S:
            return
        if len(self._young) >= YOUNG_MAX and stored.name not in self._young:
            self._crowded += 1
            return
        self._young[stored.name] = stored
        if stored.born_at >= now:
            self._unread[stored.name] = None
