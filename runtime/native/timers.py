"""The timer heap of one process: calls in, due calls out. Cancelled timers die lazily, since most are."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

#: Cancelled timers tolerated in the heap beyond as many as there are live ones.
CANCELLED_SLACK = 1_024


class HeapTimer:
    __slots__ = ("_heap", "arg", "fn")

    def __init__(self, heap: TimerHeap, fn: Callable[[Any], None], arg: Any) -> None:
        self._heap: TimerHeap | None = heap
        self.fn: Callable[[Any], None] | None = fn
        self.arg = arg

    def cancel(self) -> None:
        if self.fn is not None:
            self.fn = self.arg = None
            if self._heap is not None:
                self._heap.note_cancelled()

    def take(self) -> tuple[Callable[[Any], None], Any] | None:
        """Its call, once."""
        fn, arg = self.fn, self.arg
        self.fn = self.arg = self._heap = None
        return (fn, arg) if fn is not None else None


class TimerHeap:
    """`soon` holds calls without delay, in order; they never enter the heap."""

    __slots__ = ("_cancelled", "_heap", "_sequence", "soon")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, HeapTimer]] = []
        self._sequence = 0
        self._cancelled = 0
        self.soon: deque[HeapTimer] = deque()

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled + len(self.soon)

    def add(self, at: float, fn: Callable[[Any], None], arg: Any) -> HeapTimer:
        timer = HeapTimer(self, fn, arg)
        self._sequence += 1
        heappush(self._heap, (at, self._sequence, timer))
        return timer

    def add_soon(self, fn: Callable[[Any], None], arg: Any) -> HeapTimer:
        timer = HeapTimer(self, fn, arg)
        timer._heap = None
        self.soon.append(timer)
        return timer

    def note_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > CANCELLED_SLACK and self._cancelled * 2 > len(self._heap):
            self._heap = [entry for entry in self._heap if entry[2].fn is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_at(self) -> float | None:
        heap = self._heap
        while heap and heap[0][2].fn is None:
            heappop(heap)
            self._cancelled -= 1
        return heap[0][0] if heap else None

    def pop_due(self, now: float) -> list[HeapTimer]:
        """Timers whose time has come, then the calls without delay that wait now."""
        due = []
        heap = self._heap
        while heap and heap[0][0] <= now:
            timer = heappop(heap)[2]
            if timer.fn is None:
                self._cancelled -= 1
            else:
                timer._heap = None
                due.append(timer)
        if self.soon:
            due.extend(self.soon)
            self.soon.clear()
        return due
