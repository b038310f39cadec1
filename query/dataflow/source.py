"""Base of operators that bring data into an opgraph: scans. Small batches are merged here, once, so that every
operator above works on large ones (docs/decisions/0009).

A scan calls `deliver` for what it read or was told, under the tag of the probe it answers, and `deliver_end` when
a set probe is answered in full. Rows wait at most `CoalesceLimits.age_s`. A consumer that pauses is seen in
`paused`: a scan that can wait stops reading until `resumed`; one that cannot (arrivals from the network) goes on
and what it delivers is held here, charged to the query's memory.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import ClassVar

from query.batch import Batch, CoalesceLimits, Coalescer
from query.dataflow.flow import Flow
from query.dataflow.operator import Operator
from runtime.api import Timer

#: Probes that one scan answers at a time; an index join that asks for more waits for earlier ones.
TAGS_MAX = 1_024


class _Answer:
    """What one probe is being answered with."""

    __slots__ = ("coalescer", "done", "ended", "held", "timer")

    def __init__(self, limits: CoalesceLimits) -> None:
        self.coalescer = Coalescer(limits)
        self.timer: Timer | None = None
        #: Batches that were ready while the consumer was paused.
        self.held: deque[Batch] = deque()
        self.ended = False
        self.done = False


class Lies(enum.Enum):
    """Where that lies which a scan reads, and so whose absence it would suffer from."""

    #: In the plan itself.
    PLAN = "plan"
    #: With the nodes that bring the table which the setting `table` names.
    NODE = "node"
    #: Anywhere: any member may keep some of it.
    RING = "ring"


class Source(Operator):
    """A scan."""

    LIES: ClassVar[Lies] = Lies.RING
    SOURCES: ClassVar[tuple[int, int | None]] = (0, 0)
    COALESCE: ClassVar[CoalesceLimits] = CoalesceLimits()

    def open(self) -> None:
        self.paused = False
        self._answers: dict[int, _Answer] = {}
        self._held_bytes = 0

    def brings(self) -> bool:
        return True

    def deliver(self, batch: Batch, tag: int) -> Flow:
        """Hands rows over. DONE: nobody wants more under this tag."""
        answer = self._answers.get(tag)
        if answer is None:
            assert len(self._answers) < TAGS_MAX, "too many open probes"
            answer = self._answers[tag] = _Answer(self.COALESCE)
        self.arrived(batch.num_rows)
        if answer.done:
            return Flow.DONE
        for ready in answer.coalescer.push(batch, self.context.clock.now()):
            self._pass_on(answer, ready, tag)
        self._arm(answer, tag)
        return Flow.DONE if answer.done else Flow.PAUSE if self.paused else Flow.MORE

    def deliver_end(self, tag: int) -> None:
        """The set probe `tag` is answered; the end follows the last held row."""
        answer = self._answers.get(tag)
        if answer is None:
            self.emit_end(tag)
            return
        answer.ended = True
        self._flush(answer, tag)

    def resume(self) -> None:
        """The consumer takes batches again: first what was held, then the scan goes on."""
        self.paused = False
        for tag, answer in list(self._answers.items()):
            while answer.held and not self.paused:
                batch = answer.held.popleft()
                self._hold(-batch.nbytes)
                self._push(answer, batch, tag)
            self._end_if_drained(answer, tag)
        if not self.paused:
            self.resumed()

    def resumed(self) -> None:
        """For scans that stopped reading while paused."""

    def idle(self) -> bool:
        """Nothing waits to be merged, nor for a paused consumer."""
        return not any(answer.held or answer.coalescer.rows_held for answer in self._answers.values())

    def close(self) -> None:
        for answer in self._answers.values():
            if answer.timer is not None:
                answer.timer.cancel()
        self._answers.clear()
        self._hold(-self._held_bytes)

    def _arm(self, answer: _Answer, tag: int) -> None:
        due_s = answer.coalescer.deadline()
        if answer.timer is None and due_s is not None:
            delay_s = max(0.0, due_s - self.context.clock.now())
            answer.timer = self.context.clock.call_later(delay_s, self._expired, tag)

    def _expired(self, tag: int) -> None:
        answer = self._answers.get(tag)
        if answer is not None:
            answer.timer = None
            self.context.guard(lambda: self._pass_on_aged(answer, tag))

    def _pass_on_aged(self, answer: _Answer, tag: int) -> None:
        for ready in answer.coalescer.expire(self.context.clock.now()):
            self._pass_on(answer, ready, tag)
        self._arm(answer, tag)

    def _flush(self, answer: _Answer, tag: int) -> None:
        for ready in answer.coalescer.flush():
            self._pass_on(answer, ready, tag)
        self._end_if_drained(answer, tag)

    def _pass_on(self, answer: _Answer, batch: Batch, tag: int) -> None:
        if self.paused:
            self._hold(batch.nbytes)
            answer.held.append(batch)
        else:
            self._push(answer, batch, tag)

    def _push(self, answer: _Answer, batch: Batch, tag: int) -> None:
        flow = self.emit(batch, tag)
        if flow is Flow.PAUSE:
            self.paused = True
        elif flow is Flow.DONE:
            answer.done = True

    def _end_if_drained(self, answer: _Answer, tag: int) -> None:
        if answer.ended and not answer.held:
            if answer.timer is not None:
                answer.timer.cancel()
            del self._answers[tag]
            self.emit_end(tag)

    def _hold(self, bytes_: int) -> None:
        self._held_bytes += bytes_
        self.context.budget.hold(bytes_, self.name)
