"""Deadlines of many requests on one timer: most are met, so keeping one must cost next to nothing.

Ids go into the bucket of their tick; when it falls due those that are still open are told. A request that was answered
is simply not open any more.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from runtime.api import Runtime, Timer

#: How late a deadline may be noticed; a third of the shortest one.
TICK_S = 0.05


class Deadlines:
    """Calls `due` with each id whose tick has passed, whether or not it is still of interest."""

    __slots__ = ("_buckets", "_due", "_heap", "_runtime", "_timer", "_timer_tick")

    def __init__(self, runtime: Runtime, due: Callable[[int], None]) -> None:
        self._runtime = runtime
        self._due = due
        self._buckets: dict[int, list[int]] = {}
        self._heap: list[int] = []
        self._timer: Timer | None = None
        self._timer_tick = 0

    def add(self, at: float, identifier: int) -> None:
        tick = int(at / TICK_S) + 1
        bucket = self._buckets.get(tick)
        if bucket is not None:
            bucket.append(identifier)
            return
        self._buckets[tick] = [identifier]
        heapq.heappush(self._heap, tick)
        if self._timer is None or tick < self._timer_tick:
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_tick = self._heap[0]
        delay_s = self._timer_tick * TICK_S - self._runtime.now()
        self._timer = self._runtime.call_later(max(0.0, delay_s), self._fire, None)

    def _fire(self, _: None) -> None:
        self._timer = None
        now = self._runtime.now()
        passed: list[int] = []
        while self._heap and self._heap[0] * TICK_S <= now:
            passed += self._buckets.pop(heapq.heappop(self._heap))
        if self._heap:
            self._arm()
        for identifier in passed:
            self._due(identifier)
