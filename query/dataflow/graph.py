"""An opgraph at work on one node: operators are built, started, watched until done, and taken down.

The plan has been checked (`query.dataflow.check`) before it gets here. When the graph starts, every sink asks for a
set, all under one tag; the probes go down until a source answers them or a flow control, a cache or a dual-flow
group-by stops them. Then those that ask by themselves begin. The graph is done when every sink has seen the end of
its probe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from query import plan
from query.dataflow.context import Context
from query.dataflow.cycles import components
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.operator import Edge, Operator
from query.dataflow.registry import find


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Operators that feed each other: inputs from outside (`entries`), and those from inside beside them."""

    members: list[Operator]
    entries: list[Edge]
    returns: list[Edge]

    def settle(self) -> None:
        """Ends the inner inputs for each tag whose outer inputs have ended, once nothing waits inside."""
        if not all(member.idle() for member in self.members):
            return
        for tag in self.entries[0].operator.ending():
            if all(edge.operator.has_ended(tag, edge.port) for edge in self.entries):
                for edge in self.returns:
                    if not edge.operator.has_ended(tag, edge.port):
                        edge.operator.receive_end(tag, edge.port)


class Dataflow:
    """The running form of one opgraph."""

    def __init__(self, opgraph: plan.Opgraph, context: Context, done: Callable[[], None]) -> None:
        self.opgraph = opgraph
        self.context = context
        self._done = done
        self.operators: dict[str, Operator] = {}
        for spec in opgraph.operators:
            kind = find(spec.type, spec.implementation)
            assert kind is not None, f"unchecked plan: {spec.type}/{spec.implementation}"
            self.operators[spec.name] = kind(spec, context)
        for spec in opgraph.operators:
            consumer = self.operators[spec.name]
            for port, source in enumerate(spec.sources):
                producer = self.operators[source]
                consumer.inputs.append(producer)
                producer.outputs.append(Edge(consumer, port))
        self._sources = {spec.name: list(spec.sources) for spec in opgraph.operators}
        for operator in self.operators.values():
            self._wire_return(operator)
        self._cycles = self._find_cycles()
        self._waiting = {operator.name for operator in self.sinks()}
        self._closed = False
        #: Operators that have begun: those that can say how they stand, and need an end.
        self.opened: list[Operator] = []
        self._settling = self._unsettled = False
        context.settle = self._settle
        context.sink_ended = self._sink_ended

    def sinks(self) -> list[Operator]:
        return [operator for operator in self.operators.values() if not operator.outputs]

    def start(self) -> None:
        """Opens all operators, asks once through all sinks, then starts the operators that ask by themselves."""
        for operator in self.operators.values():
            self.opened.append(operator)
            operator.open()
        probe = Probe(ProbeKind.SET, self.context.next_tag())
        for sink in self.sinks():
            sink.probe(probe)
        for operator in self.operators.values():
            operator.start()

    def close(self) -> None:
        """Takes the graph down; nothing stays behind. May be called at any time, once or twice."""
        if not self._closed:
            self._closed = True
            for operator in self.opened:
                operator.close()

    def gave_own_rows(self) -> bool:
        """Whether rows that this node brought into the query, or what was made of them, have left by a sink."""
        seen: set[str] = set()

        def passed(operator: Operator) -> bool:
            if operator.counters.rows_out == 0 or operator.name in seen:
                return False
            seen.add(operator.name)
            return any(map(passed, operator.inputs)) if operator.inputs else operator.brings()

        return any(map(passed, self.sinks()))

    def _sink_ended(self, name: str) -> None:
        self._waiting.discard(name)
        if not self._waiting and not self._closed:
            self._done()

    def _settle(self) -> None:
        """Ends the cycles that can end. Their ends may settle others: those wait for the next round."""
        self._unsettled = True
        if self._settling:
            return
        self._settling = True
        try:
            while self._unsettled:
                self._unsettled = False
                for cycle in self._cycles:
                    cycle.settle()
        finally:
            self._settling = False

    def _wire_return(self, producer: Operator) -> None:
        """The way back to an eddy: a further input of it, and so a cycle."""
        name = producer.returns_to(producer.options)
        if name is not None:
            consumer = self.operators[name]
            producer.outputs.append(Edge(consumer, len(consumer.inputs)))
            consumer.inputs.append(producer)
            self._sources[name].append(producer.name)

    def _find_cycles(self) -> list[_Cycle]:
        sources = self._sources
        cycles = []
        for names in components(sources):
            inside = set(names)
            entries: list[Edge] = []
            returns: list[Edge] = []
            for name in names:
                operator = self.operators[name]
                operator.in_cycle = True
                if all(source in inside for source in sources[name]):
                    continue
                for port, source in enumerate(sources[name]):
                    (returns if source in inside else entries).append(Edge(operator, port))
            cycles.append(_Cycle([self.operators[name] for name in names], entries, returns))
        return cycles
