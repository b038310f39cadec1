"""Sources fed by hand, in any order of batches and ends; answers as sorted rows, to compare with an oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from hypothesis import strategies as st

import query.operators  # noqa: F401 - makes the operators known
from query import plan
from query.batch import Batch, from_pydict
from query.dataflow.budget import Limits
from query.dataflow.check import operator_problems
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.keys import matching
from query.plan import Array, Constant, Expression, Field, Function, Table
from tests.query.dataflow.harness import Harness, operator, sink


@register
class Fed(Operator):
    """Emits what it is given, under the tag of the last set or stream probe; remembers all probes."""

    TYPE = "test"
    IMPLEMENTATION = "Fed"
    SOURCES = (0, 0)

    def open(self) -> None:
        self.probes: list[Probe] = []
        self.tag = 0
        self.resumed = 0

    def probe(self, probe: Probe) -> None:
        self.probes.append(probe)
        if probe.kind is not ProbeKind.SET_PREDICATE:
            self.tag = probe.tag

    def feed(self, batch: Batch) -> Flow:
        self.arrived(batch.num_rows)
        return self.emit(batch, self.tag)

    def end(self) -> None:
        self.emit_end(self.tag)

    def resume(self) -> None:
        self.resumed += 1


@register
class Stored(Operator):
    """A table that answers set and set-predicate probes: the inner side of an index join."""

    TYPE = "test"
    IMPLEMENTATION = "Stored"
    SOURCES = (0, 0)

    def open(self) -> None:
        self.probes: list[Probe] = []

    def probe(self, probe: Probe) -> None:
        self.probes.append(probe)
        for batch in self.context.services["batches"][self.name]:
            rows = batch if probe.keys is None else matching(batch, probe.keys, 1)
            self.emit(rows, probe.tag)
        self.emit_end(probe.tag)


def fed(name: str = "s") -> plan.Operator:
    return operator(name, "test/Fed")


def fields(*names: str) -> Array:
    return Array(tuple(Field(name) for name in names))


def texts(*names: str) -> Array:
    return Array(tuple(names))


def table(**items: Expression) -> Table:
    return Table(dict(items))


def call(name: str, *args: Expression) -> Function:
    return Function(name, tuple(args))


def long(value: int) -> Constant:
    return Constant(str(value), "long")


#: A batch for a source, or None for its end.
Event = tuple[str, Batch | None]


def started(
    operators: Sequence[plan.Operator],
    stored: dict[str, list[Batch]] | None = None,
    limits: Limits | None = None,
    **services: Any,
) -> Harness:
    problems = list(operator_problems(plan.Plan((plan.Opgraph("g", {}, tuple(operators)),))))
    assert not problems, problems
    harness = Harness(operators, stored or {}, limits, **services)
    harness.context.guard(harness.flow.start)
    return harness


def play(harness: Harness, events: Iterable[Event]) -> Harness:
    """Feeds the sources in the order of the events, with the turns in between."""
    harness.clock.run()
    for name, batch in events:
        if batch is None:
            harness.context.guard(harness[name].end)
        else:
            harness.context.guard(lambda name=name, batch=batch: harness[name].feed(batch))
        harness.clock.run()
    assert harness.errors == []
    return harness


def answer(operators: Sequence[plan.Operator], events: Iterable[Event], **services: Any) -> list[Any]:
    """The rows a graph ends with, all told; it must be done and must have given back its memory."""
    harness = play(started(operators, **services), events)
    assert harness.done == 1, "the graph has not ended"
    assert harness["out"].ends == [1]
    harness.flow.close()
    assert harness.context.budget.memory_bytes == 0
    return rows_of(harness)


def rows_of(harness: Harness, name: str = "out") -> list[Any]:
    return normal(row for batch in harness[name].batches for row in batch.to_rows())


def normal(rows: Iterable[dict[str, Any]]) -> list[Any]:
    """Rows in an order that does not depend on how they came, with NaN made comparable."""
    tuples = [tuple("nan" if v != v else v for v in row.values()) for row in rows]
    return sorted(tuples, key=repr)


def oracle(sql: str, **tables: pa.Table) -> list[Any]:
    """What DuckDB answers."""
    with duckdb.connect() as connection:
        for name, data in tables.items():
            connection.register(name, data)
        return normal(connection.sql(sql).to_arrow_table().to_pylist())


def split(data: pa.Table, cuts: Sequence[int], name: str = "t") -> list[Batch]:
    """The rows in batches that end at the cuts."""
    edges = [0, *sorted(cut % (data.num_rows + 1) for cut in cuts), data.num_rows]
    whole = data.combine_chunks()
    parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(edges) if b > a]
    return [Batch(name, batch) for part in parts for batch in part.combine_chunks().to_batches()]


cuts = st.lists(st.integers(0, 1 << 20), max_size=6)
small = st.one_of(st.none(), st.integers(0, 4))
letters = st.one_of(st.none(), st.sampled_from(["", "a", "b", "ab"]))
doubles = st.one_of(st.none(), st.sampled_from([0.0, 1.0, 2.5, float("nan")]))


@st.composite
def tables(draw: st.DrawFn, numbers: str = "n", rows_max: int = 24) -> pa.Table:
    """k and s to join and group by, d a floating-point number, and a number of its own for each row."""
    count = draw(st.integers(0, rows_max))
    columns = {
        "k": pa.array([draw(small) for _ in range(count)], pa.int64()),
        "s": pa.array([draw(letters) for _ in range(count)], pa.string()),
        "d": pa.array([draw(doubles) for _ in range(count)], pa.float64()),
        numbers: pa.array(list(range(count)), pa.int64()),
    }
    return pa.table(columns)


@st.composite
def interleaved(draw: st.DrawFn, **sources: list[Batch]) -> list[Event]:
    """The batches of some sources in any order that keeps each source's own, each with its end last."""
    queues: dict[str, list[Batch | None]] = {name: [*batches, None] for name, batches in sources.items()}
    events: list[Event] = []
    while queues:
        name = draw(st.sampled_from(sorted(queues)))
        events.append((name, queues[name].pop(0)))
        if not queues[name]:
            del queues[name]
    return events


def rows(name: str = "t", **columns: list[Any]) -> Batch:
    return from_pydict(name, columns)


__all__ = ["sink"]
