"""Who on this node wants to know: subscriptions to new data and to passing messages, by name prefix (PIER 3.2.4).

The wrapper tells of every object that arrives and of every sent object that passes; out go calls to the
subscribers whose prefix matches, in the order they subscribed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from overlay.dht.messages import Cause
from overlay.objects.name import Name, Prefix
from overlay.router import Passage, Verdict

H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class NewData:
    """An object has arrived at this node and belongs here."""

    name: Name
    value: bytes
    #: MOVED: it had been stored elsewhere, and subscribers there may have seen it.
    cause: Cause
    #: Whether it is new to the ring: put just now, not moved here, nor put again because its owner had lost it.
    first: bool = True


@dataclass(frozen=True, slots=True)
class Passing:
    """A sent object is at this node on its way: `passage` says whether midway and whether locally sent."""

    name: Name
    value: bytes
    lifetime_s: float
    passage: Passage


OnNewData: TypeAlias = Callable[[NewData], None]
#: May let it go on, stop it, or put another value in its place.
OnPassing: TypeAlias = Callable[[Passing], Verdict | bytes]


class Subscription:
    """Cancel to hear no more; cancelling twice does nothing."""

    __slots__ = ("_cancel",)

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel: Callable[[], None] | None = cancel

    def cancel(self) -> None:
        if self._cancel is not None:
            self._cancel()
            self._cancel = None


class Watchers(Generic[H]):
    """Handlers by prefix; looking one up costs three dictionary reads, however many there are."""

    __slots__ = ("_by_prefix", "_serial")

    def __init__(self) -> None:
        self._by_prefix: dict[Prefix, dict[int, H]] = {}
        self._serial = 0

    def __bool__(self) -> bool:
        return bool(self._by_prefix)

    def add(self, prefix: Prefix, handler: H) -> Subscription:
        self._serial = serial = self._serial + 1
        self._by_prefix.setdefault(prefix, {})[serial] = handler
        return Subscription(lambda: self._remove(prefix, serial))

    def matching(self, name: Name) -> list[H]:
        found: list[tuple[int, H]] = []
        for prefix in (Prefix(), Prefix(name.namespace), Prefix(name.namespace, name.key)):
            handlers = self._by_prefix.get(prefix)
            if handlers is not None:
                found.extend(handlers.items())
        found.sort(key=lambda pair: pair[0])
        return [handler for _, handler in found]

    def _remove(self, prefix: Prefix, serial: int) -> None:
        handlers = self._by_prefix[prefix]
        del handlers[serial]
        if not handlers:
            del self._by_prefix[prefix]
