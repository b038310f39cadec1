"""Eddy, Basic: decides for each batch in which order it visits the operators around it (PIER Table 3.3).

The eddy's sources bring rows. Operators that take their rows from the eddy and end in a `put Eddy` that names it are
visited; what they return comes back through that put. Whatever else takes from the eddy is its output, and gets the
rows that have visited everything they had to. In UFL:

    %operator(e)     { type = eddy       sources[0] = log }
    %operator(low)   { type = selection  sources[0] = e    … }
    %operator(back)  { type = put  implementation = Eddy  sources[0] = low   eddy = e }
    %operator(tcp)   { type = selection  sources[0] = e    … }
    %operator(back2) { type = put  implementation = Eddy  sources[0] = tcp   eddy = e }
    %operator(out)   { type = result     sources[0] = e }

Done bits, a bit for each operator visited, travel with the rows in a column of their own, which a join carries over
from both of its sides; they are merged and removed when rows come back. A row may visit an operator once it has the
columns that the operator needs: a join of (a, b) takes rows with its left keys on the left and rows with its right
keys on the right, also when they are already the result of another join. So keys on the two sides of a join need
different names, and columns of different tables do, too. Joins around an eddy are inner joins.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow, Probe, least
from query.dataflow.operator import Edge, Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.operators.eddy.tickets import Tickets

#: Operators around one eddy: their done bits fit into a column of 64-bit integers.
MODULES_MAX = 62
#: The column of done bits; the name cannot be written in a query.
DONE = "\ufdd2done"


class _Module(NamedTuple):
    """An operator that is visited: its inputs that the eddy feeds, with the columns each needs."""

    operator: Operator
    edges: list[tuple[Edge, frozenset[str]]]

    def edge_for(self, names: set[str]) -> Edge | None:
        for edge, needs in self.edges:
            if needs <= names:
                return edge
        return None


@register
class Eddy(Operator):
    """Routes batches among operators by what these were seen to remove."""

    TYPE = "eddy"
    IMPLEMENTATION = "Basic"
    SOURCES = (1, None)
    CONSUMERS_MAX: ClassVar[int] = 2 * MODULES_MAX
    OPTIONS: ClassVar = (
        Option("rows", "integer", "rows that are routed together", 8_192, least=1, most=1 << 20),
        Option(
            "window",
            "integer",
            "rows after which what was learned counts half: small adapts faster, large wavers less",
            262_144,
            least=1,
        ),
    )

    def open(self) -> None:
        self._sources = len(self.spec.sources)
        returning = {child.name: port for port, child in enumerate(self.inputs) if port >= self._sources}
        self._modules: list[_Module] = []
        self._ways_out: list[Edge] = []
        #: The operator that returns rows at each port behind those of the sources.
        self._module_at: dict[int, int] = {}
        for edge in self.outputs:
            ports = [returning[name] for name in _reached(edge.operator) if name in returning]
            if not ports:
                self._ways_out.append(edge)
                continue
            number = self._module(edge)
            self._module_at.update(dict.fromkeys(ports, number))
        self._require_distinct_sides()
        rng = self.context.rng
        self._tickets = Tickets(len(self._modules), self.options["window"], rng)
        self._all_done = (1 << len(self._modules)) - 1
        self._waiting: deque[tuple[Batch, int, int]] = deque()
        self._held_bytes = 0
        self._routing = False
        self._paused = False
        self._passed_tag = 0

    def probe(self, probe: Probe) -> None:
        # Operators around the eddy may have sources of their own; their way down leads here again.
        if probe.tag > self._passed_tag:
            self._passed_tag = probe.tag
            super().probe(probe)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        if port < self._sources:
            self._wait(batch, 0, tag)
        else:
            self._returned(batch, tag, self._module_at[port])
        if not self._routing:
            self._route_all()
        return Flow.PAUSE if self._paused else Flow.MORE

    def resume(self) -> None:
        self._paused = False
        self._route_all()
        if not self._paused:
            for child in self.inputs[: self._sources]:
                child.resume()

    def idle(self) -> bool:
        return not self._waiting and not self._routing

    def close(self) -> None:
        self._waiting.clear()
        self.context.budget.hold(-self._held_bytes, self.name)
        self._held_bytes = 0

    # -- rows on their way

    def _wait(self, batch: Batch, done: int, tag: int) -> None:
        for start in range(0, batch.num_rows, self.options["rows"]):
            piece = batch.slice(start, self.options["rows"])
            self._hold(piece.nbytes)
            self._waiting.append((piece, done, tag))

    def _returned(self, batch: Batch, tag: int, module: int) -> None:
        """Rows come back from an operator: their done bits are those of all rows they were made of, and its own."""
        marks = [name for name in batch.schema.names if name.endswith(DONE)]
        if not marks:
            self.drop(batch.num_rows, "returned to the eddy without done bits", Cause.UNFIT)
            return
        if self.has_ended(tag, 0) and tag not in self.ending():
            self.drop(batch.num_rows, "returned to the eddy after its end", Cause.NOT_TAKEN)
            return
        bits = np.zeros(batch.num_rows, dtype=np.int64)
        for name in marks:
            bits |= batch.column(name).to_numpy()
        bits |= 1 << module
        self._tickets.returned(module, batch.num_rows)
        rows = Batch(batch.table, batch.data.drop_columns(marks))
        if bits.min() == bits.max():
            self._wait(rows, int(bits[0]), tag)
            return
        for value in np.unique(bits):
            self._wait(rows.take(pa.array(bits == value)), int(value), tag)

    def _route_all(self) -> None:
        self._routing = True
        try:
            while self._waiting and not self._paused:
                batch, done, tag = self._waiting.popleft()
                self._hold(-batch.nbytes)
                self._route(batch, done, tag)
        finally:
            self._routing = False
        if not self._waiting:
            self.context.settle()

    def _route(self, batch: Batch, done: int, tag: int) -> None:
        if done == self._all_done:
            if self._emit_to(self._ways_out, batch, tag) is Flow.PAUSE:
                self._paused = True
            return
        names = set(batch.schema.names)
        edges = {
            number: edge
            for number, module in enumerate(self._modules)
            if not done >> number & 1 and (edge := module.edge_for(names)) is not None
        }
        if not edges:
            self.drop(batch.num_rows, "no operator around the eddy takes these columns", Cause.UNFIT)
            return
        number = self._tickets.draw(list(edges))
        self._tickets.took(number, batch.num_rows)
        marks = pa.array(np.full(batch.num_rows, done, dtype=np.int64))
        marked = Batch(batch.table, batch.data.append_column(DONE, marks))
        edge = edges[number]
        edge.operator.receive(marked, tag, edge.port)

    def _emit_to(self, edges: list[Edge], batch: Batch, tag: int) -> Flow:
        self.counters.rows_out += batch.num_rows
        if tap := self.context.taps.get((self.name, "out")):
            tap(self.name, "out", batch)
        return least([edge.operator.receive(batch, tag, edge.port) for edge in edges])

    def _hold(self, bytes_: int) -> None:
        self._held_bytes += bytes_
        self.context.budget.hold(bytes_, self.name)

    # -- what stands around it

    def _module(self, edge: Edge) -> int:
        entry = (edge, edge.operator.needs(edge.port))
        for number, module in enumerate(self._modules):
            if module.operator is edge.operator:
                module.edges.append(entry)
                return number
        if len(self._modules) >= MODULES_MAX:
            raise SettingError("type", f"an eddy routes among at most {MODULES_MAX} operators (MODULES_MAX)")
        self._modules.append(_Module(edge.operator, [entry]))
        return len(self._modules) - 1

    def _require_distinct_sides(self) -> None:
        for module in self._modules:
            sides = [needs for _, needs in module.edges]
            if len(sides) > 1 and (sides[0] <= sides[1] or sides[1] <= sides[0]):
                name = module.operator.name
                hint = "give the key columns of the two sides different names"
                raise SettingError("sources", f"the eddy cannot tell the sides of {name!r} apart", hint)


def _reached(start: Operator) -> list[str]:
    """Operators above one, up to and without eddies."""
    reached: list[str] = []
    frontier = [start]
    while frontier:
        operator = frontier.pop()
        if operator.name not in reached and operator.TYPE != "eddy":
            reached.append(operator.name)
            frontier.extend(edge.operator for edge in operator.outputs)
    return reached
