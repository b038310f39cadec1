"""Put, Epochs: partial states again and again, to the node that was asked, by any algorithm of PIER's Appendix C.
An addition to PIER's operators, whose plans spell these algorithms out.

At the start of each epoch it asks the operators below for a set (PIER 4.2.2: results of an epoch are based on the data
fetched at its start); what they give is this node's state. Below it stands a groupby in mode partial; a cache
between that and the source makes sliding windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from query import plan
from query.aggregate import Grouping
from query.aggregation.session import Edges, SessionSpec
from query.aggregation.strategy import UnknownStrategy, parse
from query.batch import Batch
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import SettingError
from query.engine.epochs import EPOCHS_MAX, OPTIONS, TOO_LARGE, combiner, session_id
from query.engine.trees import Shape, pack
from query.operators.groupby.calls import GroupSettings
from runtime.api import Timer

#: Epochs whose rows are still being read; a source slower than the epochs must not pile them up.
READING_MAX = 4


@register
class PutEpochs(Operator):
    """States of every epoch."""

    TYPE = "put"
    IMPLEMENTATION = "Epochs"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar = OPTIONS

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        GroupSettings.check(options, spec, opgraph)
        try:
            strategy = parse(options["strategy"])
        except UnknownStrategy as error:
            raise SettingError("strategy", str(error)) from None
        if strategy.timing.value == "Optimal" and not strategy.by_dissemination and not options["nodes"]:
            raise SettingError("nodes", f"{strategy.name} needs the number of nodes")

    def open(self) -> None:
        self._shape = Shape(self.options)
        #: By tag: the states of an epoch and who gets them.
        self._reading: dict[int, tuple[Grouping, Callable[[bytes], None]]] = {}
        self._timers: list[Timer] = []
        self._held_bytes = 0
        services = self.context.services
        self._id = session_id(self.context.query_id, self.options["channel"])
        self._service = services["aggregations"]
        self._run = services["run"]
        self._exchange = services["exchange"]

    def probe(self, probe: Probe) -> None:
        """The sink asks by itself, at each epoch; where the query goes on from here is known one turn later."""

    def start(self) -> None:
        clock = self.context.clock
        self._timers.append(clock.call_later(0.0, lambda _: self.context.guard(self._begin), None))
        count = self.options["count"]
        if count is not None:
            # The last epoch has as long as the others to come together.
            self._timers.append(clock.call_later(count * self.options["every"], self._over, None))

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        reading = self._reading.get(tag)
        if reading is not None:
            self._shape.add(reading[0], batch)
            self._exchange.fed += batch.num_rows
            self._charge()
        return Flow.MORE

    def finish(self, tag: int) -> None:
        reading = self._reading.pop(tag, None)
        if reading is not None:
            grouping, give = reading
            self.counters.rows_out += 1
            give(pack(grouping) or TOO_LARGE)
            self._charge()

    def close(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._service.close(self._id)
        self._reading.clear()
        self._charge()

    def _begin(self) -> None:
        options, spec = self.options, self._run.spec
        strategy = parse(options["strategy"])
        session = SessionSpec(
            id=self._id,
            strategy=strategy,
            asker=spec.proxy.address,
            epochs=options["count"] or EPOCHS_MAX,
            epoch_s=options["every"],
            timeout_s=options["timeout"],
            cleanup_s=options["cleanup"] or options["every"],
            nodes=options["nodes"],
            degree_max=options["degree"],
            root=spec.proxy.address,
        )
        self._service.open(session, combiner(options), self._read, self._edges())

    def _edges(self) -> Edges:
        """This node's place in the tree by which the query came; the asker is its root."""
        branch = self._run.branch
        me = self._service.address
        if branch is None:
            return Edges(None, ())
        parent = None if branch.root.address == me or branch.parent is None else branch.parent.address
        return Edges(parent, tuple(child.address for child in branch.children if child.address != me))

    def _read(self, epoch: int, give: Callable[[bytes], None]) -> None:
        """Asks below for the rows of an epoch."""
        if len(self._reading) >= READING_MAX:
            self.drop(0, "an epoch without this node: earlier ones are still being read")
            give(b"")
            return
        tag = self.context.next_tag()
        self._reading[tag] = (self._shape.grouping(), give)
        self.context.guard(lambda: super(PutEpochs, self).probe(Probe(ProbeKind.SET, tag)))

    def _over(self, _: None) -> None:
        self.context.guard(lambda: self.context.sink_ended(self.name))

    def _charge(self) -> None:
        size = sum(grouping.nbytes for grouping, _ in self._reading.values())
        self.context.budget.hold(size - self._held_bytes, self.name)
        self._held_bytes = size
