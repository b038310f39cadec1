"""A table of groups and their partial states, fed with columns: the engine of every group-by.

Rows wait until there are enough for a kernel call to pay. Then they are added to accumulators (`accumulators.py`)
or, where an aggregate or a type has none, become partial states by Arrow's grouped kernels, and those are combined
whenever they have doubled. Memory is that of the groups, not of the rows.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from query.aggregate.accumulators import Accumulated
from query.aggregate.aggregate import Aggregate

#: Rows that wait before they are grouped: at this size a grouped kernel runs within 10 % of its best speed.
PENDING_ROWS = 131_072
#: States are combined once there are this many more of them than groups at the last time.
STATES_ROWS_MIN = 65_536
#: Calls over all rows that are one kernel each.
_PLAIN = ("count_all", "count", "sum", "min", "max")


class Mode(enum.Enum):
    """What goes in and what comes out: rows or partial states; partial states or results."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    COMBINE = "combine"
    FINAL = "final"

    @property
    def takes_states(self) -> bool:
        return self in (Mode.COMBINE, Mode.FINAL)

    @property
    def gives_states(self) -> bool:
        return self in (Mode.PARTIAL, Mode.COMBINE)


class Grouping:
    """Groups by some key columns, with some aggregates each."""

    def __init__(
        self, keys: Sequence[str], aggregates: Sequence[tuple[str, Aggregate]], seed: int = 0
    ) -> None:
        """`aggregates` are (name of the result, aggregate); `seed` is where hashing starts."""
        self.keys = list(keys)
        self.aggregates = list(aggregates)
        self.state_names = [f"{name}${state}" for name, kind in aggregates for state in kind.STATES]
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._partials: list[pa.Table] = []
        self._partial_rows = 0
        self._groups = 0
        #: Whether every table of partial states has each group once; states from elsewhere may repeat them.
        self._distinct = True
        self._seed = seed
        #: Where rows go as long as they fit; the grouped kernels take them otherwise.
        self._accumulated: Accumulated | None = None
        self._unfit = False

    @property
    def nbytes(self) -> int:
        """Bytes held, rows that wait included."""
        accumulated = 0 if self._accumulated is None else self._accumulated.nbytes
        waiting: int = sum(table.nbytes for table in (*self._pending, *self._partials))
        return accumulated + waiting

    def add(self, keys: list[pa.Array], arguments: list[list[pa.Array]], rows: int) -> None:
        """Adds rows: a column per key, and per aggregate a column per argument."""
        columns, names = list(keys), list(self.keys)
        for number, ((_, kind), values) in enumerate(zip(self.aggregates, arguments, strict=True)):
            kind.check([value.type for value in values])
            columns += values
            names += [f"{number}.{position}" for position in range(len(values))]
        if not columns:
            # Counting rows without a key needs a column to carry their number.
            columns, names = [pa.nulls(rows)], [""]
        self._pending.append(pa.Table.from_arrays(columns, names=names))
        self._pending_rows += rows
        if self._pending_rows >= PENDING_ROWS:
            self._group_pending()

    def add_states(self, keys: list[pa.Array], states: list[pa.Array]) -> None:
        """Adds partial states, as `states` returned them somewhere."""
        table = pa.Table.from_arrays([*keys, *states], names=[*self.keys, *self.state_names])
        self._add_partial(table)
        self._distinct = False

    def states(self) -> pa.Table:
        """All groups with their partial states."""
        self._group_pending()
        if self._accumulated is not None and not self._partials:
            return pa.Table.from_arrays(self._accumulated.columns(), names=[*self.keys, *self.state_names])
        self._spill()
        if len(self._partials) != 1 or not self._distinct:
            self._combine()
        return self._partials[0]

    def results(self) -> pa.Table:
        """All groups with their results. Without keys there is one group, also over no rows at all."""
        states = self.states()
        columns = [states.column(number).combine_chunks() for number in range(states.num_columns)]
        results = columns[: len(self.keys)]
        at = len(self.keys)
        for _, kind in self.aggregates:
            results.append(kind.result(columns[at : at + len(kind.STATES)]))
            at += len(kind.STATES)
        return pa.Table.from_arrays(results, names=[*self.keys, *(name for name, _ in self.aggregates)])

    def clear(self) -> None:
        """Forgets all groups: the start of an epoch."""
        self._pending.clear()
        self._partials.clear()
        self._accumulated = None
        self._unfit = False
        self._pending_rows = self._partial_rows = self._groups = 0
        self._distinct = True

    def _group_pending(self) -> None:
        if not self._pending:
            return
        table = unified(self._pending)
        self._pending, self._pending_rows = [], 0
        columns, arguments = self._columns(table)
        if self._accumulate(columns, arguments, table.num_rows):
            return
        calls: list[tuple[Any, str, Any]] = []
        names = list(self.keys)
        for number, (_, kind) in enumerate(self.aggregates):
            for position, column in enumerate(kind.prepare(arguments[number])):
                columns.append(column)
                names.append(f"{number}.{position}")
            calls += [
                ([] if call.column is None else f"{number}.{call.column}", call.function, call.options)
                for call in kind.ADD
            ]
        if not columns:
            columns, names = [table.column(0)], [""]
        columns = self._grouped(pa.Table.from_arrays(columns, names=names), calls)
        at, states = len(self.keys), columns[: len(self.keys)]
        for _, kind in self.aggregates:
            states += kind.added(columns[at : at + len(kind.ADD)])
            at += len(kind.ADD)
        self._add_partial(pa.Table.from_arrays(states, names=[*self.keys, *self.state_names]))

    def _columns(self, table: pa.Table) -> tuple[list[pa.Array], list[list[pa.Array]]]:
        """The key columns, and for each aggregate those of its arguments."""
        at = len(self.keys)
        keys = [table.column(key).combine_chunks() for key in range(at)]
        arguments = []
        for number in range(len(self.aggregates)):
            count = sum(name.startswith(f"{number}.") for name in table.column_names)
            arguments.append([table.column(at + position).combine_chunks() for position in range(count)])
            at += count
        return keys, arguments

    def _accumulate(self, keys: list[pa.Array], arguments: list[list[pa.Array]], rows: int) -> bool:
        """Adds rows to the accumulators, if all aggregates have one for them."""
        if not keys or self._unfit:
            return False
        if self._accumulated is None:
            made = [
                kind.accumulator([value.type for value in values])
                for (_, kind), values in zip(self.aggregates, arguments, strict=True)
            ]
            fitting = [accumulator for accumulator in made if accumulator is not None]
            if len(fitting) < len(made):
                self._unfit = True
                return False
            self._accumulated = Accumulated([key.type for key in keys], fitting, self._seed)
        if self._accumulated.add(keys, arguments, rows):
            return True
        # Values of another type or size came: what was accumulated becomes partial states like any other.
        self._unfit = True
        self._spill()
        return False

    def _spill(self) -> None:
        accumulated, self._accumulated = self._accumulated, None
        if accumulated is not None and accumulated.groups:
            names = [*self.keys, *self.state_names]
            self._add_partial(pa.Table.from_arrays(accumulated.columns(), names=names))

    def _add_partial(self, table: pa.Table) -> None:
        self._partials.append(table)
        self._partial_rows += table.num_rows
        if self._partial_rows >= STATES_ROWS_MIN + 2 * self._groups and len(self._partials) > 1:
            self._combine()

    def _combine(self) -> None:
        if not self._partials:
            self._partials = [self._neutral()]
        table = unified(self._partials)
        at, columns, names = len(self.keys), [], list(self.keys)
        calls: list[tuple[Any, str, Any]] = []
        for key in range(at):
            columns.append(table.column(key).combine_chunks())
        for number, (_, kind) in enumerate(self.aggregates):
            states = [table.column(at + state).combine_chunks() for state in range(len(kind.STATES))]
            at += len(kind.STATES)
            for position, column in enumerate(kind.regroup(states)):
                columns.append(column)
                names.append(f"{number}.{position}")
            calls += [(f"{number}.{call.column}", call.function, call.options) for call in kind.COMBINE]
        grouped = self._grouped(pa.Table.from_arrays(columns, names=names), calls)
        at, states = len(self.keys), grouped[: len(self.keys)]
        for _, kind in self.aggregates:
            states += kind.combined(grouped[at : at + len(kind.COMBINE)])
            at += len(kind.COMBINE)
        combined = pa.Table.from_arrays(states, names=[*self.keys, *self.state_names])
        self._partials, self._partial_rows = [combined], combined.num_rows
        self._distinct = True
        self._groups = combined.num_rows

    def _neutral(self) -> pa.Table:
        """The states of no rows: their types are known from adding an empty column of NULLs."""
        nothing = [[pa.nulls(0)] * kind.COLUMNS for _, kind in self.aggregates]
        empty = Grouping(self.keys, self.aggregates)
        empty.add([pa.nulls(0) for _ in self.keys], nothing, 0)
        empty._unfit = True
        empty._group_pending()
        return empty._partials[0]

    def _grouped(self, table: pa.Table, calls: list[tuple[Any, str, Any]]) -> list[pa.Array]:
        """Keys and results of the calls, a row per group, in the order in which groups first appeared."""
        if not self.keys:
            return _ungrouped(table, calls)
        grouped = pa.TableGroupBy(table, self.keys, use_threads=False).aggregate(calls)
        return [grouped.column(number).combine_chunks() for number in range(grouped.num_columns)]


def _ungrouped(table: pa.Table, calls: list[tuple[Any, str, Any]]) -> list[pa.Array]:
    """All rows as one group. Arrow has no `list` of a whole column: that is the column itself. Plain kernels need no
    plan of Arrow's engine, which costs more than a small batch is worth."""
    if all(call[1] in _PLAIN for call in calls):
        return [_plain(table, *call) for call in calls]
    kernels = [call for call in calls if call[1] != "list"]
    counted = pa.TableGroupBy(table, [], use_threads=False).aggregate(kernels)
    results = iter(counted.columns)
    return [
        pa.ListArray.from_arrays(
            pa.array([0, table.num_rows], pa.int32()), table.column(call[0]).combine_chunks()
        )
        if call[1] == "list"
        else next(results).combine_chunks()
        for call in calls
    ]


def _plain(table: pa.Table, column: Any, function: str, options: Any) -> pa.Array:
    if function == "count_all":
        return pa.array([table.num_rows], pa.int64())
    return pa.repeat(pc.call_function(function, [table.column(column)], options), 1)


def unified(tables: list[pa.Table]) -> pa.Table:
    """One table; columns whose types differ are widened to one that holds both."""
    first = tables[0].schema
    if all(table.schema.equals(first) for table in tables[1:]):
        return pa.concat_tables(tables)
    return pa.concat_tables(tables, promote_options="permissive")
