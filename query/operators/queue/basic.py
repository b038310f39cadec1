"""Queue, Basic: holds batches and passes them on in the query's turns (PIER 3.3.4).

The call stack unwinds here, so recursion through a queue does not deepen it and no query starves another. Ends
keep their place behind the batches that came before them. Above `bytes` held, producers are asked to pause;
a consumer that pauses stops the queue until it resumes.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from query.batch import Batch
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option


@register
class Queue(Operator):
    """Yields to other queries between batches."""

    TYPE = "queue"
    IMPLEMENTATION = "Basic"
    OPTIONS: ClassVar = (
        Option(
            "bytes", "integer", "held before producers are asked to pause", 4 << 20, least=1, most=1 << 30
        ),
    )

    def open(self) -> None:
        #: What waits: a batch, or None for an end, with its tag.
        self._items: deque[tuple[Batch | None, int]] = deque()
        self._bytes = 0
        self._running = False
        #: While an item is on its way up, the queue is not idle: a cycle must not end under it.
        self._passing = False
        self._stopped_by_consumer = False
        self._paused_producers = False

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        size = batch.nbytes
        self.context.budget.hold(size, self.name)
        self._bytes += size
        self._append(batch, tag)
        if self._bytes > self.options["bytes"]:
            self._paused_producers = True
            return Flow.PAUSE
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self._append(None, tag)

    def resume(self) -> None:
        self._stopped_by_consumer = False
        self._wake()

    def idle(self) -> bool:
        return not self._items and not self._passing

    def close(self) -> None:
        self.context.budget.hold(-self._bytes, self.name)
        self._items.clear()
        self._bytes = 0

    def _append(self, batch: Batch | None, tag: int) -> None:
        self._items.append((batch, tag))
        self._wake()

    def _wake(self) -> None:
        if self._items and not self._running and not self._stopped_by_consumer:
            self._running = True
            self.context.schedule(self._turn)

    def _turn(self) -> bool:
        if self._items:
            self._passing = True
            self._pass_on(*self._items.popleft())
            self._passing = False
        self._running = bool(self._items) and not self._stopped_by_consumer
        if not self._items and self.in_cycle:
            self.context.settle()
        return self._running

    def _pass_on(self, batch: Batch | None, tag: int) -> None:
        if batch is None:
            self.emit_end(tag)
            return
        size = batch.nbytes
        self._bytes -= size
        self.context.budget.hold(-size, self.name)
        if self.emit(batch, tag) is Flow.PAUSE:
            self._stopped_by_consumer = True
        if self._paused_producers and self._bytes <= self.options["bytes"] // 2:
            self._paused_producers = False
            super().resume()
