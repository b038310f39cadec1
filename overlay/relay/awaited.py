"""Messages that went straight and whose notice is awaited: who leaves them unacknowledged for long is looked for.

A transport gives a peer up after many seconds; that is right for a peer that may be busy, and too long for a path that
is broken while others are not. So a peer that acknowledges nothing for a second is looked for through others meanwhile,
and when a path to it is found, what it left unacknowledged has failed there and then: its senders send it again, by the
path. A peer that acknowledges anything is not looked for, however slow it is.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.api import Address, Notice, Runtime

#: A peer that left messages unacknowledged for so long is looked for.
LATE_S = 1.0
#: How often that is looked at while anything is awaited.
SWEEP_S = 0.5


class _Watched:
    """One message's notice, called once however often it is told."""

    __slots__ = ("_awaited", "_notice", "since", "to")

    def __init__(self, awaited: Awaited, to: Address, notice: Notice, since: float) -> None:
        self._awaited = awaited
        self._notice: Notice | None = notice
        self.to = to
        self.since = since

    def __call__(self, arrived: bool) -> None:
        notice, self._notice = self._notice, None
        self._awaited.settled(self, arrived)
        if notice is not None:
            notice(arrived)


class Awaited:
    """`late` is called with a peer that is silent, or whose message failed; `heard` with one that acknowledged while it
    was looked for."""

    __slots__ = ("_heard", "_late", "_looked_for", "_open", "_runtime", "_timed")

    def __init__(
        self, runtime: Runtime, late: Callable[[Address], None], heard: Callable[[Address], None]
    ) -> None:
        self._runtime = runtime
        self._late = late
        self._heard = heard
        #: By peer, oldest first.
        self._open: dict[Address, dict[_Watched, None]] = {}
        self._looked_for: set[Address] = set()
        self._timed = False

    def watch(self, to: Address, notice: Notice) -> Notice:
        watched = _Watched(self, to, notice, self._runtime.now())
        self._open.setdefault(to, {})[watched] = None
        if not self._timed:
            self._timed = True
            self._runtime.call_later(SWEEP_S, self._sweep, None)
        return watched

    def settled(self, watched: _Watched, arrived: bool) -> None:
        to = watched.to
        mine = self._open.get(to)
        if mine is not None and watched in mine:
            del mine[watched]
            if not mine:
                del self._open[to]
        if not arrived:
            self._late(to)
        elif to in self._looked_for:
            self._looked_for.discard(to)
            self._heard(to)

    def fail(self, to: Address) -> None:
        """A peer is reached by another way: what it left unacknowledged for long has failed."""
        self._looked_for.discard(to)
        before = self._runtime.now() - LATE_S
        for watched in [each for each in self._open.get(to, ()) if each.since <= before]:
            watched(False)

    def _sweep(self, _: None) -> None:
        before = self._runtime.now() - LATE_S
        for to, mine in list(self._open.items()):
            if next(iter(mine)).since <= before:
                self._looked_for.add(to)
                self._late(to)
            else:
                self._looked_for.discard(to)
        self._looked_for.intersection_update(self._open)
        self._timed = bool(self._open)
        if self._timed:
            self._runtime.call_later(SWEEP_S, self._sweep, None)
