"""A node for one opgraph: sources that push given batches, a sink that collects, a hand-driven clock.

Test operators are real operators: they register under the type `test` and are wired by the real graph.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from query import plan
from query.batch import Batch, from_pydict
from query.dataflow.budget import Budget, Limits
from query.dataflow.context import Context
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.graph import Dataflow
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.scheduler import Scheduler
from runtime.rng import Rng


class ManualTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time that moves only when told to."""

    def __init__(self) -> None:
        self.time_s = 0.0
        self._heap: list[tuple[float, int, ManualTimer, Callable[[Any], None], Any]] = []
        self._count = 0

    def now(self) -> float:
        return self.time_s

    def wall(self) -> float:
        return 1_700_000_000.0 + self.time_s

    def call_later(self, delay_s: float, fn: Callable[[Any], None], arg: Any) -> ManualTimer:
        timer = ManualTimer()
        self._count += 1
        heapq.heappush(self._heap, (self.time_s + delay_s, self._count, timer, fn, arg))
        return timer

    def run(self, for_s: float = 0.0, calls_max: int = 100_000) -> None:
        """Runs everything that is due within `for_s` from now."""
        until_s = self.time_s + for_s
        while self._heap and self._heap[0][0] <= until_s:
            calls_max -= 1
            assert calls_max > 0, "the dataflow does not settle"
            due_s, _, timer, fn, arg = heapq.heappop(self._heap)
            self.time_s = max(self.time_s, due_s)
            if not timer.cancelled:
                fn(arg)
        self.time_s = until_s


@register
class TestSource(Operator):
    """Pushes the batches that the harness holds for it, all at once, then ends."""

    __test__ = False
    TYPE = "test"
    IMPLEMENTATION = "Source"
    SOURCES = (0, 0)

    def open(self) -> None:
        self.probes: list[Probe] = []
        self.resumed = 0

    def probe(self, probe: Probe) -> None:
        self.probes.append(probe)
        batches = self.context.services["batches"][self.name]
        if probe.kind is ProbeKind.STREAM:
            return
        for batch in batches:
            if self.emit(batch, probe.tag) is Flow.DONE:
                break
        self.emit_end(probe.tag)

    def resume(self) -> None:
        self.resumed += 1


@register
class TestSink(Operator):
    """Collects rows; pauses when told to."""

    __test__ = False
    TYPE = "test"
    IMPLEMENTATION = "Sink"
    CONSUMERS_MAX: ClassVar[int] = 0

    def open(self) -> None:
        self.batches: list[Batch] = []
        self.ends: list[int] = []
        self.answer = Flow.MORE

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        assert tag not in self.ends, "a batch came after the end of its probe"
        self.batches.append(batch)
        return self.answer

    def finish(self, tag: int) -> None:
        assert tag not in self.ends, "an end came twice"
        self.ends.append(tag)
        self.context.sink_ended(self.name)

    def rows(self) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for batch in self.batches for row in batch.to_rows()]


class Harness:
    """One opgraph on one node without a network."""

    def __init__(
        self,
        operators: Iterable[plan.Operator],
        batches: dict[str, list[Batch]],
        limits: Limits | None = None,
        **services: Any,
    ) -> None:
        self.clock = ManualClock()
        self.errors: list[Exception] = []
        self.complaints: list[tuple[str, str]] = []
        self.done = 0
        self.context = Context(
            query_id="q1",
            clock=self.clock,
            rng=Rng(1),
            scheduler=Scheduler(self.clock),
            budget=Budget(limits or Limits()),
            services={"batches": batches, **services},
            time_us=1_700_000_000_000_000,
            fail=self.errors.append,
            complain=lambda operator, reason: self.complaints.append((operator, reason)),
        )
        self.flow = Dataflow(plan.Opgraph("g", {}, tuple(operators)), self.context, self._finished)

    def _finished(self) -> None:
        self.done += 1

    def run(self, for_s: float = 0.0) -> Harness:
        self.context.guard(self.flow.start)
        self.clock.run(for_s)
        return self

    def __getitem__(self, name: str) -> Any:
        return self.flow.operators[name]


def rows(table: str = "t", **columns: list[Any]) -> Batch:
    return from_pydict(table, columns)


def operator(name: str, kind: str, /, *sources: str, **settings: plan.Setting) -> plan.Operator:
    """`operator("p", "projection/Basic", "s", columns=...)`."""
    type_, _, implementation = kind.partition("/")
    return plan.Operator(name, type_, implementation, sources, settings)


def source(name: str = "s") -> plan.Operator:
    return operator(name, "test/Source")


def sink(*sources: str, name: str = "out") -> plan.Operator:
    return operator(name, "test/Sink", *sources)
