"""Group-by, DualFlow: data flows in under one flow control, results out under another (PIER 3.3.6).

Rows are aggregated as they arrive, so nothing below has to keep them. A set probe from above is answered with the
groups as they stand; a stream probe leaves the timing to the group-by: every `period`, after so many `rows`, and
when its input ends. Results before the end are early returns (CAN 4): the same groups come again with more in
them, and `revision` tells them apart. Probes are never passed down: the flow control below does the asking;
without one there, the group-by asks once for the set when the query starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from query import plan
from query.batch import Batch
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.dataflow.turns import InTurns
from query.keys import matching
from query.operators.groupby.calls import OPTIONS, Groups, GroupSettings
from runtime.api import Timer

#: Probes from above that wait at a time.
TAGS_MAX = 1_024


@register
class DualFlow(GroupSettings, InTurns):
    """Aggregates what arrives; gives results when asked or by its own timing."""

    TYPE = "groupby"
    IMPLEMENTATION = "DualFlow"
    OPTIONS: ClassVar = (
        *OPTIONS,
        Option(
            "results",
            "choice",
            "asked: a set probe gets the groups as they stand; ended: it waits for the end of the input",
            "asked",
            choices=("asked", "ended"),
        ),
        Option("period", "number", "seconds between results for a stream probe", least=0.001, most=1e6),
        Option("rows", "integer", "rows aggregated between results for a stream probe", least=1),
        Option("clear", "flag", "whether groups start anew after each result: an epoch each", False),
        Option(
            "revision",
            "text",
            "a column that counts the results of this node: of the rows of a group the highest is the newest",
        ),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        super().check(options, spec, opgraph)
        if options["revision"] in {*options["keys"], *options["aggregates"]}:
            raise SettingError("revision", f"{options['revision']!r} is a column of the result already")

    def open(self) -> None:
        super().open()
        self._groups = Groups(self)
        self._streams: list[int] = []
        self._waiting: list[int] = []
        self._since_rows = 0
        self._own_tag = 0
        self._complete = False
        self._timer: Timer | None = None
        self._revision = 0

    def start(self) -> None:
        if not any(operator.TYPE == "flowcontrol" for operator in self.below()):
            self._own_tag = self.context.next_tag()
            for child in self.inputs:
                child.probe(Probe(ProbeKind.SET, self._own_tag))
        if self.options["period"] is not None:
            self._arm()

    def probe(self, probe: Probe) -> None:
        assert len(self._streams) + len(self._waiting) < TAGS_MAX, "too many open probes"
        if probe.kind is ProbeKind.STREAM and not self._complete:
            self._streams.append(probe.tag)
        elif self.options["results"] == "ended" and not self._complete and probe.kind is ProbeKind.SET:
            self._waiting.append(probe.tag)
        else:
            self._give((probe.tag,), True, probe.keys)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        self._groups.add(batch)
        self._since_rows += batch.num_rows
        wanted = self.options["rows"]
        if wanted is not None and self._since_rows >= wanted and self._streams:
            return self._give(tuple(self._streams), False)
        return Flow.MORE

    def finish(self, tag: int) -> None:
        self._complete = True
        if self._timer is not None:
            self._timer.cancel()
        tags = (*self._streams, *self._waiting)
        self._streams.clear()
        self._waiting.clear()
        if tags:
            self._give(tags, True)

    def close(self) -> None:
        super().close()
        if self._timer is not None:
            self._timer.cancel()
        self._groups.clear()

    def _give(self, tags: Sequence[int], ends: bool, keys: Batch | None = None) -> Flow:
        """Passes the groups of this moment to some probes, in steps; the groups may go on changing."""
        batches = [self._numbered(batch) for batch in self._groups.take()]
        self._revision += 1
        if self.options["clear"]:
            self._groups.clear()
        self._since_rows = 0
        if keys is not None:
            batches = [
                matching(batch, keys, self.context.rng.bits64()) for batch in batches if batch.num_rows
            ]
        return self.work(self._pass_on(batches, tags, ends))

    def _numbered(self, batch: Batch) -> Batch:
        name = self.options["revision"]
        if name is None:
            return batch
        numbers = pa.repeat(pa.scalar(self._revision, pa.int64()), batch.num_rows)
        return Batch(batch.table, batch.data.append_column(name, numbers))

    def _pass_on(self, batches: Sequence[Batch], tags: Sequence[int], ends: bool) -> Iterator[Flow]:
        for batch in batches:
            for tag in tags:
                yield self.emit(batch, tag)
        if ends:
            for tag in tags:
                self.emit_end(tag)

    def _arm(self) -> None:
        self._timer = self.context.clock.call_later(self.options["period"], self._due, None)

    def _due(self, _: None) -> None:
        self._arm()
        if self._streams:
            self.context.guard(lambda: self._give(tuple(self._streams), False))
