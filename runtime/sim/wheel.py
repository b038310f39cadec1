"""The event core: calls go in with an instant, and run in exact (time, sequence) order.

A bucketed timer wheel: a dict of ticks to lists, a heap of the ticks, one stable sort when a bucket's turn
comes. Within a bucket the list is in order of scheduling, so a stable sort by time is the (time, sequence)
order without storing sequence numbers. A cancelled event stays in its bucket as an empty shell until its
time comes, or until shells outnumber the living and are swept; an event whose owner has died is skipped.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Any, Protocol

import msgspec

from runtime.sim.trace import Trace

#: Buckets per simulated second. A power of two, so that ticks are exact; at 64 a bucket of a large run holds
#: hundreds of events, which makes the heap of ticks negligible, and the sort stays in cache.
TICKS_PER_S = 64
#: Pending events at which a run is given up: at about 0.2 kB each, 4 GB.
PENDING_MAX = 20_000_000
#: Below this many pending events no sweep for cancelled ones is worth its time.
SWEEP_FLOOR = 65_536

_AT = attrgetter("at")


class PendingEventsExceeded(RuntimeError):
    """More events are pending than `pending_max` allows: something schedules without end."""


class Owner(Protocol):
    """On whose behalf an event runs. When `alive` turns False its events never run; while only `awake` is False they
    wait with it."""

    alive: bool
    awake: bool
    index: int

    def hold(self, event: Event) -> None:
        """Keeps an event that came while it was not awake."""
        ...


class _World:
    """The owner of what no host owns."""

    alive = True
    awake = True
    index = -1

    def hold(self, event: Event) -> None:
        raise AssertionError("the world is always awake")


WORLD: Owner = _World()


class Event(msgspec.Struct, eq=False):
    """A pending call and its handle. A struct, since creating one costs a quarter of a slotted class."""

    at: float
    fn: Callable[[Any], None] | None
    arg: Any
    owner: Any

    def cancel(self) -> None:
        self.fn = self.arg = None


class Wheel:
    """Simulated time. A trace, where given, receives the instant and the owner's index of every event run.
    Nobody may schedule into the past: callers clamp."""

    __slots__ = (
        "_bucket",
        "_buckets",
        "_room",
        "_tick",
        "_ticks",
        "_trace",
        "now",
        "pending_max",
        "run",
    )

    def __init__(self, trace: Trace | None = None, pending_max: int = PENDING_MAX) -> None:
        self.now = 0.0
        #: Events run so far.
        self.run = 0
        self.pending_max = pending_max
        self._buckets: dict[int, list[Event]] = {}
        self._ticks: list[int] = []
        #: The bucket being run and its tick; -1 between buckets.
        self._bucket: list[Event] = []
        self._tick = -1
        self._trace = trace
        #: Events that may be scheduled before somebody looks at how many are pending.
        self._room = min(SWEEP_FLOOR, pending_max)

    def call_at(self, at: float, fn: Callable[[Any], None], arg: Any, owner: Owner) -> Event:
        event = Event(at, fn, arg, owner)
        self._room -= 1
        if self._room < 0:
            self._make_room()
        self._insert(event, at)
        return event

    def resume(self, event: Event) -> None:
        """Runs a held event after all, now; unless it was cancelled meanwhile."""
        event.at = self.now
        self._insert(event, self.now)

    def _insert(self, event: Event, at: float) -> None:
        tick = int(at * TICKS_PER_S)
        if tick > self._tick:
            bucket = self._buckets.get(tick)
            if bucket is None:
                self._buckets[tick] = [event]
                heappush(self._ticks, tick)
            else:
                bucket.append(event)
        else:
            # All that has run by now is at `now` or before, so the place found is behind it.
            event.at = max(at, self.now)
            insort(self._bucket, event, key=_AT)

    def run_until(self, until: float) -> None:
        """Runs every event up to and including `until`, then sets the clock to it."""
        if self._tick >= 0:
            raise RuntimeError("run_until was called by an event")
        last_tick = int(until * TICKS_PER_S)
        ticks = self._ticks
        while ticks and ticks[0] <= last_tick:
            tick = heappop(ticks)
            self._run_bucket(tick, until)
            if tick == last_tick:
                break
        self.now = max(self.now, until)

    def _run_bucket(self, tick: int, until: float) -> None:
        bucket = self._bucket = self._buckets.pop(tick)
        self._tick = tick
        bucket.sort(key=_AT)
        log = self._trace.log if self._trace is not None else None
        queue = iter(bucket)
        held: list[Event] = []
        shells = 0
        try:
            for event in queue:
                fn = event.fn
                if fn is None:
                    shells += 1
                    continue
                owner = event.owner
                at = event.at
                if not owner.awake:
                    if at > until:
                        held.append(event)
                        break
                    if owner.alive:
                        owner.hold(event)
                    shells += 1
                    continue
                if at > until:
                    held.append(event)
                    break
                self.now = at
                if log is not None:
                    log(at)
                    log(owner.index)
                arg = event.arg
                event.fn = event.arg = None
                fn(arg)
        except Exception as error:
            error.add_note(f"in an event of host {event.owner.index} at {self.now} s of simulated time")
            raise
        finally:
            rest = [*held, *queue]
            self.run += len(bucket) - len(rest) - shells
            self._finish_bucket(tick, rest)

    def _finish_bucket(self, tick: int, rest: list[Event]) -> None:
        """Puts back what is not due yet."""
        self._tick = -1
        self._bucket = []
        if rest:
            self._buckets[tick] = rest
            heappush(self._ticks, tick)
        if self._trace is not None:
            self._trace.trim()

    def _make_room(self) -> None:
        """Sweeps out cancelled events. Runs once for as many new events as are alive, so it costs a constant each."""
        pending = len(self._bucket)
        for tick in list(self._buckets):
            kept = [event for event in self._buckets[tick] if event.fn is not None and event.owner.alive]
            if kept:
                self._buckets[tick] = kept
                pending += len(kept)
            else:
                del self._buckets[tick]
        self._ticks[:] = self._buckets
        heapify(self._ticks)
        if pending >= self.pending_max:
            raise PendingEventsExceeded(
                f"{pending} events are pending at {self.now} s; pending_max = {self.pending_max}"
            )
        self._room = min(max(SWEEP_FLOOR, pending), self.pending_max - pending)

    def pending(self) -> int:
        """Events that will run, as of now."""
        waiting = [*self._buckets.values(), self._bucket]
        return sum(1 for bucket in waiting for event in bucket if event.fn is not None and event.owner.alive)
