"""An operator at work: probes come down to it, batches and ends come up to it (PIER 3.3.4, 3.3.5).

A subclass says how it treats a batch (`process`) and, where that is not "pass it on", a probe and an end.
This class does what is the same for all: counting, budgets, taps, dropping what does not fit, and waiting for
all inputs before an end is passed on. One module per implementation, in `query.operators`.

Invariant: after `emit_end(tag)` no batch of that tag is emitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from query import plan
from query.aggregation.share import Share
from query.batch import Batch
from query.causes import Cause
from query.dataflow.context import Context, Counters
from query.dataflow.flow import Flow, Probe, least
from query.dataflow.settings import Option, read
from query.expr.errors import EvalError, ExprError, MissingColumn


class Edge(NamedTuple):
    """Where an operator's output goes: a consumer, and which of its inputs this is."""

    operator: Operator
    port: int


class Operator:
    """Base of all operators."""

    #: Name in UFL: type and implementation; settings; least and most number of sources.
    TYPE: ClassVar[str] = ""
    IMPLEMENTATION: ClassVar[str] = ""
    OPTIONS: ClassVar[Sequence[Option]] = ()
    SOURCES: ClassVar[tuple[int, int | None]] = (1, 1)
    #: Consumers it may have; only a tee feeds several, a sink has none.
    CONSUMERS_MAX: ClassVar[int] = 1

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        """Raises `SettingError` for settings that do not go together or with the opgraph. Called before a
        query spreads, so that its author hears of it and no node meets it."""

    @classmethod
    def reads(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Namespaces of the DHT whose objects it reads, by the options that it will work with."""
        return ()

    @classmethod
    def tables(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Tables of the ring whose rows it reads, unless the query itself puts them there."""
        return cls.reads(options)

    @classmethod
    def writes(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        """Namespaces of the DHT that it puts into, or whose entries in the dictionary it changes. Rights are judged by
        this: a class that writes and does not say so writes unseen."""
        return ()

    @classmethod
    def returns_to(cls, options: Mapping[str, Any]) -> str | None:
        """The operator that gets the output of one that has no consumers in the plan: put Eddy."""
        return None

    def __init__(self, spec: plan.Operator, context: Context) -> None:
        self.name = spec.name
        self.spec = spec
        self.context = context
        self.options: dict[str, Any] = read(self.OPTIONS, spec.settings)
        self.inputs: list[Operator] = []
        self.outputs: list[Edge] = []
        self.counters = Counters()
        #: Told how many rows came in, when this operator is a source: flow controls that count them.
        self.watchers: list[Callable[[int], None]] = []
        #: Inputs that have ended, by tag, while others have not. Inside a cycle finished tags stay as None.
        self._ended: dict[int, set[int] | None] = {}
        self.in_cycle = False

    # -- control: from the consumer above

    def probe(self, probe: Probe) -> None:
        """Asks for data. Operators that are no source pass the request on."""
        for child in self.inputs:
            child.probe(probe)

    def resume(self) -> None:
        """A consumer that had said PAUSE can take batches again."""
        for child in self.inputs:
            child.resume()

    # -- data: from the producer below

    def receive(self, batch: Batch, tag: int, port: int) -> Flow:
        """Takes a batch from input `port`. A batch that does not fit the operator is dropped and counted."""
        context = self.context
        context.budget.step(self.name)
        counters = self.counters
        counters.batches_in += 1
        counters.rows_in += batch.num_rows
        if context.taps and (tap := context.taps.get((self.name, "in"))):
            tap(self.name, "in", batch)
        try:
            return self.process(batch, tag, port)
        except (ExprError, EvalError) as error:
            self.drop(batch.num_rows, str(error), error.cause)
            if isinstance(error, MissingColumn) and error.column:
                self.counters.lack(batch.table, error.column, error.close)
            return Flow.MORE

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        raise AssertionError(f"{type(self).__name__} takes no input")

    def receive_end(self, tag: int, port: int) -> None:
        """Input `port` has answered the probe `tag` in full; once all have, so has this operator."""
        if len(self.inputs) <= 1 and not self.in_cycle:
            self.finish(tag)
            return
        ended = self._ended.setdefault(tag, set())
        if ended is None:
            return
        ended.add(port)
        if len(ended) < len(self.inputs):
            if self.in_cycle:
                self.context.settle()
            return
        if self.in_cycle:
            self._ended[tag] = None
        else:
            del self._ended[tag]
        self.finish(tag)

    def ending(self) -> list[int]:
        """Tags that some but not all inputs have ended."""
        return [tag for tag, ended in self._ended.items() if ended is not None]

    def has_ended(self, tag: int, port: int) -> bool:
        ended = self._ended.get(tag, ())
        return ended is None or port in ended

    def finish(self, tag: int) -> None:
        """All inputs have ended for this tag: emit what is left, then the end."""
        self.emit_end(tag)

    # -- towards the consumers

    def emit(self, batch: Batch, tag: int) -> Flow:
        """Pushes a batch to the consumer."""
        if batch.num_rows == 0:
            return Flow.MORE
        context = self.context
        self.counters.rows_out += batch.num_rows
        if context.taps and (tap := context.taps.get((self.name, "out"))):
            tap(self.name, "out", batch)
        outputs = self.outputs
        if len(outputs) == 1:
            edge = outputs[0]
            return edge.operator.receive(batch, tag, edge.port)
        return least([edge.operator.receive(batch, tag, edge.port) for edge in outputs])

    def emit_end(self, tag: int) -> None:
        for edge in self.outputs:
            edge.operator.receive_end(tag, edge.port)

    def drop(self, rows: int, reason: str, cause: Cause) -> None:
        """Counts rows that could not be processed and tells the author if asked to."""
        self.counters.drop(rows, reason, cause)
        self.context.complain(self.name, reason)

    def share(self, tag: int) -> Share | None:
        """What the answer to a probe can stand for, of a source whose rows lie with the owners of their keys; asked
        once, when the answer has ended. None of other operators."""
        return None

    def needs(self, port: int) -> frozenset[str]:
        """The columns that rows at an input must have, as far as the settings say."""
        return frozenset()

    def arrived(self, rows: int) -> None:
        """A source tells that data came in at it, whether or not anybody has asked for that yet."""
        for watch in self.watchers:
            watch(rows)

    def below(self) -> Iterator[Operator]:
        """All operators whose data can reach this one, each once."""
        seen: dict[str, Operator] = {}
        frontier = list(self.inputs)
        while frontier:
            operator = frontier.pop()
            if operator.name not in seen:
                seen[operator.name] = operator
                frontier.extend(operator.inputs)
        return iter(seen.values())

    def brings(self) -> bool:
        """Whether rows that begin here are this node's own part of the answer: of its sources, of what it holds of a
        published table, fetched by it, or spelled out by the query. Rows that other nodes of the query put there are
        theirs."""
        return False

    # -- life

    def open(self) -> None:
        """Called once when all operators are wired, before the first probe."""

    def start(self) -> None:
        """Called once after the sinks have asked: for operators that ask by themselves, as flow controls."""

    def close(self) -> None:
        """Called once at the end: give back subscriptions, timers and memory."""

    def idle(self) -> bool:
        """Whether nothing waits inside that would flow on by itself. Turning idle: `context.settle()`."""
        return True
