"""Replicas: the owner of an object keeps copies at the neighbours that would own it next (option of put).

The owner copies before it confirms a put. A renewal renews the copies too, and copies again what a neighbour
does not have; so after neighbours have changed, the copies are right again one renewal later. When the owner
dies, the node that owns the id next usually has a copy, and it counts as the object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.dht.accept import to_item
from overlay.dht.messages import Cause, Code, Item, Put, Renew, Renewal
from overlay.dht.requests import ITEM_BYTES, Entry, Requests
from overlay.objects.stored import StoredObject
from overlay.ring import to_wire
from overlay.router import Router
from runtime.api import Address, Runtime

#: A neighbour that is silent twice is left out; the next renewal repairs.
COPY_ATTEMPTS_MAX = 2


class Copies:
    """The replicas of what this node owns."""

    __slots__ = (
        "_requests",
        "_router",
        "_runtime",
        "failed",
        "made",
    )

    def __init__(self, runtime: Runtime, router: Router, requests: Requests) -> None:
        self._runtime = runtime
        self._router = router
        self._requests = requests
        self.made = 0
        self.failed = 0

    def keep(self, items: Sequence[Item], done: Callable[[], None]) -> None:
        """Copies each item to as many neighbours as it asks for; `done` when all have answered or failed."""
        wanted = max(item.copies for item in items)
        left = 1

        def ended(code: Code, _: object) -> None:
            nonlocal left
            left -= 1
            if code is Code.OK:
                self.made += 1
            else:
                self.failed += 1
            if left == 0:
                done()

        def began(_: None) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                done()

        for position, node in enumerate(self._router.replicas(wanted)):
            entries = [
                _entry(item, node.address, ended) for item in items if item.copies > position
            ]  # fmt: skip
            left += len(entries)
            self._requests.submit(_build_copy, entries)
        self._runtime.call_later(0.0, began, None)

    def renew(self, renewed: Sequence[tuple[StoredObject, int]]) -> None:
        """Tells the neighbours that objects live on (for so many milliseconds)."""
        wanted = max(stored.copies for stored, _ in renewed)
        for position, node in enumerate(self._router.replicas(wanted)):
            entries = [
                self._renewal(stored, lifetime_ms, node.address)
                for stored, lifetime_ms in renewed
                if stored.copies > position
            ]
            self._requests.submit(_build_renew, entries)

    def _renewal(self, stored: StoredObject, lifetime_ms: int, to: Address) -> Entry:
        def ended(code: Code, _: object) -> None:
            if code is Code.UNKNOWN:
                again = _entry(to_item(stored, self._runtime.now()), to, self._copied)
                self._requests.submit(_build_copy, [again])

        renewal = Renewal(to_wire(stored.id), *stored.name, lifetime_ms, stored.version, stored.load)
        return Entry(renewal, ITEM_BYTES, ended, to=to, attempts_max=COPY_ATTEMPTS_MAX)

    def _copied(self, code: Code, _: object) -> None:
        if code is Code.OK:
            self.made += 1
        else:
            self.failed += 1


def _entry(item: Item, to: Address, ended: Callable[[Code, object], None]) -> Entry:
    return Entry(item, ITEM_BYTES + len(item.value), ended, to=to, attempts_max=COPY_ATTEMPTS_MAX)


def _build_copy(call: int, items: tuple[Item, ...], anyhow: bool) -> Put:
    return Put(call, items, Cause.COPY, anyhow)


def _build_renew(call: int, renewals: tuple[Renewal, ...], anyhow: bool) -> Renew:
    return Renew(call, renewals, anyhow)
