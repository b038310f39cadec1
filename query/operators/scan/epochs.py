"""Scan, Epochs: the results of every epoch of a put Epochs, at the node that was asked.

A row has the columns `epoch`, `revision` and `nodes` before the keys and results: which epoch it belongs to, whether it
replaces an earlier result because data came late (above 0), and how many nodes' data is in it. The rows of a result
come together in one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from query import plan
from query.aggregation.messages import EpochResult
from query.batch import Batch
from query.dataflow.flow import Probe
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.dataflow.source import Source
from query.engine.epochs import TOO_LARGE, session_id
from query.engine.stages import EPOCHS
from query.engine.trees import CHANNEL_BYTES_MAX, Shape, unpack
from query.engine.trees import OPTIONS as TREE_OPTIONS
from query.expr.errors import EvalError, ExprError
from query.operators.groupby.calls import GroupSettings
from query.wire import WireError
from runtime.api import Timer

#: When all nodes have passed their last states on, the last results are still on the way.
LAST_S = 1.0
#: The columns before keys and results.
COLUMNS = ("epoch", "revision", "nodes")


class OutgrewTree(ValueError):
    """The groups of an epoch are more than a tree carries."""


@register
class ScanEpochs(Source):
    """Results of a continuous aggregation."""

    TYPE = "scan"
    IMPLEMENTATION = "Epochs"
    OPTIONS: ClassVar = (*TREE_OPTIONS, Option("table", "text", "the table name of the rows", "epochs"))

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        GroupSettings.check(options, spec, opgraph)
        for name in (*options["keys"], *options["aggregates"]):
            if name in COLUMNS:
                raise SettingError("keys", f"{name!r} is a column that every result has")

    def open(self) -> None:
        super().open()
        self._shape = Shape(self.options)
        self._stop: Callable[[], None] | None = None
        self._timer: Timer | None = None

    def probe(self, probe: Probe) -> None:
        """The first probe of any kind gets all results as they come."""
        if self._stop is not None:
            self.deliver_end(probe.tag)
            return
        services, channel = self.context.services, self.options["channel"]

        def got(result: EpochResult) -> None:
            self.context.guard(lambda: self._take(result, probe.tag))

        self._stop = services["aggregations"].listen(session_id(self.context.query_id, channel), got)
        services["exchange"].when_complete(EPOCHS + channel, lambda: self._wait_for_last(probe.tag))

    def close(self) -> None:
        if self._stop is not None:
            self._stop()
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    def _wait_for_last(self, tag: int) -> None:
        self._timer = self.context.clock.call_later(
            LAST_S, lambda _: self.context.guard(lambda: self.deliver_end(tag)), None
        )

    def _take(self, result: EpochResult, tag: int) -> None:
        if result.state == TOO_LARGE:
            raise OutgrewTree(
                f"limit {CHANNEL_BYTES_MAX} bytes of partial states in a tree reached in epoch {result.epoch}"
            )
        grouping = self._shape.grouping()
        try:
            if result.state:
                self._shape.add(grouping, unpack(result.state))
            table = grouping.results()
        except (WireError, ExprError, EvalError, pa.ArrowException) as error:
            self.drop(1, f"malformed states: {error}")
            return
        columns = [
            pa.repeat(pa.scalar(getattr(result, name), pa.int64()), table.num_rows) for name in COLUMNS
        ]
        columns += [column.combine_chunks() for column in table.columns]
        data = pa.RecordBatch.from_arrays(columns, names=[*COLUMNS, *table.column_names])
        self.deliver(Batch(self.options["table"], data), tag)
