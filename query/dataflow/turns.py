"""Operators whose answer to one batch can be large: a join, a cache, a scan. They work in steps.

Such an operator writes its work as a generator that emits a bounded piece and yields what the consumer said. A few
steps run at once; what remains goes on in the query's turns, so that no query holds up its node, and waits while the
consumer is paused. Work that arrives meanwhile queues behind it in order, ends included, and producers are asked to
pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from query.expr.errors import EvalError, ExprError

#: Steps taken before the rest is left to later turns; a step is about a batch of 64 k rows.
STEPS_AT_ONCE = 4


class _Work(NamedTuple):
    steps: Iterator[Flow]
    #: Rows that are lost if they do not fit the operator, and bytes they occupy while waiting.
    rows: int
    bytes: int


class InTurns(Operator):
    """Base of operators that work in steps."""

    def open(self) -> None:
        self._work: deque[_Work] = deque()
        self._running = False
        self._busy = False
        self._paused = False
        self._asked_to_pause = False

    def work(self, steps: Iterator[Flow], rows: int = 0, bytes_: int = 0) -> Flow:
        """Does the steps, after all earlier ones; at once as far as it may."""
        if not self._work and not self._paused and not self._busy and self._done_at_once(steps):
            if self.in_cycle:
                # A cycle that could not settle because this operator was busy may settle now.
                self.context.settle()
            return Flow.MORE
        self.context.budget.hold(bytes_, self.name)
        self._work.append(_Work(steps, rows, bytes_))
        self._asked_to_pause = True
        self._wake()
        return Flow.PAUSE

    def resume(self) -> None:
        self._paused = False
        if self._work:
            self._wake()
        else:
            self._drained()

    def idle(self) -> bool:
        return not self._work and not self._busy

    def close(self) -> None:
        for item in self._work:
            self.context.budget.hold(-item.bytes, self.name)
        self._work.clear()

    def _done_at_once(self, steps: Iterator[Flow]) -> bool:
        """Takes the first steps; whether that was all."""
        self._busy = True
        try:
            for _ in range(STEPS_AT_ONCE):
                flow = next(steps, None)
                if flow is None:
                    return True
                if flow is Flow.PAUSE:
                    self._paused = True
                    break
        finally:
            self._busy = False
        return False

    def _wake(self) -> None:
        if not self._running and not self._paused:
            self._running = True
            self.context.schedule(self._turn)

    def _turn(self) -> bool:
        if self._work and not self._paused:
            self._step(self._work[0])
        if not self._work:
            self._running = False
            self._drained()
            return False
        self._running = not self._paused
        return self._running

    def _step(self, item: _Work) -> None:
        try:
            flow = next(item.steps, None)
        except (ExprError, EvalError) as error:
            self.drop(item.rows, str(error), error.cause)
            flow = None
        if flow is Flow.PAUSE:
            self._paused = True
        # Closing the query, which a step may cause, forgets all work.
        if flow is None and self._work:
            self._work.popleft()
            self.context.budget.hold(-item.bytes, self.name)

    def _drained(self) -> None:
        if self._asked_to_pause and not self._paused:
            self._asked_to_pause = False
            super().resume()
        if self.in_cycle:
            self.context.settle()
