"""What the group-by operators share: keys and aggregates from settings, rows or partial states into a `Grouping`.

`keys[src] = $src` names the group's columns; `aggregates[n] = count()`, `aggregates[total] = sum($bytes)` the
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from query import plan
from query.aggregate import AGGREGATES, Aggregate, Grouping, Mode, find, make
from query.batch import Batch
from query.dataflow.evaluate import Evaluator
from query.dataflow.operator import Operator
from query.dataflow.settings import Option, SettingError
from query.expr import MissingColumn
from query.expr.errors import TypeClash
from query.operators.groupby.types import TYPES, check_types, kinds_of, typed
from query.plan import Expression, Function
from query.plan_hints import did_you_mean, quoted

#: Rows of a batch that leaves a group-by.
OUT_ROWS = 65_536

OPTIONS = (
    Option(
        "keys",
        "expression table",
        "columns to group by: keys[src] = $src; none makes one group of all rows",
        {},
    ),
    Option(
        "aggregates", "expression table", "results: aggregates[n] = count(), aggregates[s] = sum($bytes)", {}
    ),
    Option(
        "mode",
        "choice",
        "complete: rows in, results out; partial: rows in, partial states out; "
        "combine: states in, states out; final: states in, results out",
        "complete",
        choices=tuple(mode.value for mode in Mode),
    ),
    TYPES,
    Option("table", "text", "the table name of the result; that of the input when absent"),
)


def aggregate_of(name: str, expression: Expression) -> tuple[Aggregate, tuple[Expression, ...]]:
    """The aggregate an expression calls, and its arguments."""
    if not isinstance(expression, Function):
        raise SettingError(f"aggregates[{name}]", "is not a call of an aggregate", "for example sum($bytes)")
    kind = find(expression.name, len(expression.args))
    if kind is None:
        hint = did_you_mean(expression.name, AGGREGATES, "there is " + ", ".join(AGGREGATES))
        raise SettingError(f"aggregates[{name}]", f"there is no aggregate {quoted(expression.name)}", hint)
    try:
        return make(kind, expression.args)
    except TypeClash as error:
        raise SettingError(f"aggregates[{name}]", str(error)) from None


class GroupSettings:
    """For the group-by operators: what their settings must agree on."""

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        check_types(options)
        for name, call in options["aggregates"].items():
            aggregate_of(name, call)
        both = sorted(set(options["keys"]) & set(options["aggregates"]))
        if both:
            raise SettingError(
                f"aggregates[{both[0]}]", "a key has the same name", "each column needs its own"
            )
        if not options["keys"] and not options["aggregates"]:
            raise SettingError(
                "aggregates", "is empty, and so is keys", "for example aggregates[n] = count()"
            )


class Groups:
    """The groups of one operator under one tag, fed with batches, read as batches."""

    def __init__(self, operator: Operator) -> None:
        options = operator.options
        self.mode = Mode(options["mode"])
        self._operator = operator
        self._keys = list(options["keys"])
        calls = [(name, *aggregate_of(name, call)) for name, call in options["aggregates"].items()]
        self._arguments = [arguments for _, _, arguments in calls]
        aggregates = [(name, kind) for name, kind, _ in calls]
        self._grouping = Grouping(self._keys, aggregates, operator.context.rng.bits64())
        expressions = [*options["keys"].values(), *(a for arguments in self._arguments for a in arguments)]
        self._evaluator = Evaluator(operator, expressions)
        self._table = options["table"] or ""
        self._kinds = kinds_of(options)
        self._held_bytes = 0

    def add(self, batch: Batch) -> None:
        if not self.mode.takes_states:
            rows, columns = self._evaluator(batch)
            keys, at = columns[: len(self._keys)], len(self._keys)
            arguments = []
            for wanted in self._arguments:
                arguments.append(columns[at : at + len(wanted)])
                at += len(wanted)
            self._grouping.add(keys, arguments, rows.num_rows)
        else:
            self._grouping.add_states(
                _columns(batch, self._keys),
                _columns(batch, self._grouping.state_names),
            )
        self._table = self._table or batch.table
        self._charge()

    def take(self) -> Iterator[Batch]:
        """The groups as they stand, as states or results, in batches."""
        table = self._grouping.states() if self.mode.gives_states else self._grouping.results()
        for data in table.combine_chunks().to_batches(max_chunksize=OUT_ROWS):
            yield Batch(self._table, typed(data, self._kinds))

    def clear(self) -> None:
        self._grouping.clear()
        self._charge()

    def _charge(self) -> None:
        size = self._grouping.nbytes
        self._operator.context.budget.hold(size - self._held_bytes, self._operator.name)
        self._held_bytes = size


def _columns(batch: Batch, names: Sequence[str]) -> list[pa.Array]:
    known = set(batch.schema.names)
    for name in names:
        if name not in known:
            raise MissingColumn(f"no column {name!r} in the partial states of {batch.table}")
    return [batch.column(name) for name in names]
