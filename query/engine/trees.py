"""Partial states that climb the tree of a spread and are combined at each node on the way: DHT-Hi-Optimal (PIER 4.2.1).

put Tree leaves a node's states here; they ride in the node's report of that stage. Whoever has the reports of its
children combines the states in them, by the keys and aggregates that the plan gives for the channel, and passes one
report on. A node knows its children from dissemination, so it waits for exactly them (docs/decisions/0012): the thesis
had no such tree. Each node's states are in the answer once, also when parts of the tree are rebuilt, and the account
says whose are not.

States that have grown beyond what a tree should carry are left out and marked: EMPTY for a channel means that every
node keeps its own and sends them by hash instead (`scan Overflow`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from query.aggregate import Aggregate, Grouping, find, make
from query.batch import Batch
from query.causes import Cause, added
from query.counts import total
from query.dataflow.settings import NAME_CHARS_MAX, Option, read
from query.engine.filters import merged
from query.engine.spec import ERROR_CHARS_MAX, ERRORS_MAX, Report, decode_report, encode
from query.expr.errors import ExprError
from query.plan import Expression, Function, Operator, Plan
from query.wire import SchemaReceiver, WireError, decode
from query.wire import encode as encode_batch

#: States of one channel in one report. Some thousand groups: beyond that, every node near the root would carry nearly
#: all groups, and owners of groups share the work better.
CHANNEL_BYTES_MAX = 256 << 10
#: What stands for states that were too large.
EMPTY = b""

OPTIONS = (
    Option(
        "channel",
        "text",
        "the name of the scan Tree that takes the states",
        required=True,
        most=NAME_CHARS_MAX,
    ),
    Option("keys", "expression table", "keys of the groups, as in the groupby that made the states", {}),
    Option("aggregates", "expression table", "its aggregates", {}),
)


class Shape:
    """What the states of one channel are made of."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._keys = list(options["keys"])
        self._calls = dict(options["aggregates"])

    def grouping(self) -> Grouping:
        return Grouping(self._keys, [(name, _aggregate(call)) for name, call in self._calls.items()])

    def add(self, grouping: Grouping, batch: Batch) -> None:
        """Takes states in; raises ExprError for a batch that has others."""
        names = [*self._keys, *grouping.state_names]
        for name in names:
            if name not in batch.schema.names:
                raise ExprError(f"no column {name!r} in the partial states")
        columns = [batch.column(name) for name in names]
        grouping.add_states(columns[: len(self._keys)], columns[len(self._keys) :])


def _aggregate(call: Expression) -> Aggregate:
    kind = find(call.name, len(call.args)) if isinstance(call, Function) else None
    if kind is None or not isinstance(call, Function):
        raise ExprError("not a call of an aggregate")
    return make(kind, call.args)[0]


def pack(grouping: Grouping) -> bytes:
    """Combined states as they travel, or EMPTY when they are too large."""
    return pack_table(grouping.states())


def pack_table(states: pa.Table) -> bytes:
    table = states.combine_chunks()
    if table.nbytes > 4 * CHANNEL_BYTES_MAX:
        return EMPTY
    batches = table.to_batches()
    data = batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)
    payload = encode_batch(Batch("", data), inline_schema=True)
    return payload if len(payload) <= CHANNEL_BYTES_MAX else EMPTY


def unpack(payload: bytes) -> Batch:
    """Raises WireError for bytes that are no states."""
    batch = decode(payload, SchemaReceiver())
    if not isinstance(batch, Batch):
        raise WireError("states without their schema")
    return batch


class Trees:
    """The channels of one plan, for whoever combines reports."""

    __slots__ = ("_plan", "_shapes")

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._shapes: dict[str, Shape] | None = None

    def combine(self, left: bytes, right: bytes) -> bytes:
        """Two encoded reports into one. States that cannot be read cost the nodes they came from, not the query."""
        ours, theirs = decode_report(left), decode_report(right)
        trees, filters = dict(ours.trees), dict(ours.filters)
        try:
            for channel, payload in theirs.trees.items():
                known = trees.get(channel)
                trees[channel] = payload if known is None else self._merged(channel, known, payload)
            filters = merged(filters, theirs.filters) if theirs.filters else filters
        except Exception as error:
            # A peer's bytes go through Arrow and NumPy, which raise what they like: here, nothing may get past.
            theirs = _spoiled(theirs, f"partial states cannot be combined: {error}")
            trees, filters = dict(ours.trees), dict(ours.filters)
        return encode(msgspec.structs.replace(ours.plus(theirs), trees=trees, filters=filters))

    def _merged(self, channel: str, left: bytes, right: bytes) -> bytes:
        if EMPTY in (left, right):
            return EMPTY
        shape = self.shapes()[channel]
        grouping = shape.grouping()
        for payload in (left, right):
            shape.add(grouping, unpack(payload))
        return pack(grouping)

    def shapes(self) -> dict[str, Shape]:
        if self._shapes is None:
            self._shapes = {
                options["channel"]: Shape(options)
                for options in (read(OPTIONS, operator.settings) for operator in _puts(self._plan))
            }
        return self._shapes


def _puts(plan: Plan) -> Sequence[Operator]:
    return [
        operator
        for opgraph in plan.opgraphs
        for operator in opgraph.operators
        if operator.type == "put" and operator.implementation.lower() == "tree"
    ]


def _spoiled(report: Report, reason: str) -> Report:
    """A report whose states are lost: its nodes have failed."""
    return msgspec.structs.replace(
        report,
        answered=0,
        empty=0,
        failed=total(report.failed, report.answered, report.empty),
        errors=(reason[:ERROR_CHARS_MAX], *report.errors)[:ERRORS_MAX],
        trees={},
        filters={},
        causes=added(report.causes, {Cause.UNREADABLE.number: 1}),
    )
