"""Put, Epochs: partial states again and again, to the node that was asked, by any algorithm of PIER's Appendices B
and C. An addition to PIER's operators, whose plans spell these algorithms out.

At the start of each epoch it asks the operators below for a set (PIER 4.2.2: results of an epoch are based on the data
fetched at its start); what they give is this node's state. Below it stands a groupby in mode partial; a cache
between that and the source makes sliding windows. With `count = 1` it is a one-shot query.

When the groups outgrow what one aggregation carries, the asker divides it (`query.engine.splits`): this node's states
are then divided by a hash of the keys, one aggregation a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import pyarrow as pa

from query import plan
from query.aggregate import Grouping
from query.aggregation.session import Edges, Give, SessionSpec
from query.aggregation.share import NOTHING, Share
from query.aggregation.strategy import UnknownStrategy, parse
from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.engine.epochs import (
    EPOCHS_MAX,
    EVERY_MOST_S,
    HASHED,
    ONE_SHOT_S,
    OPTIONS,
    TOO_LARGE,
    combiner,
    session_id,
)
from query.engine.splits import Split
from query.engine.trees import Shape, pack_table
from query.operators.groupby.calls import GroupSettings
from query.operators.put.placement import by_group
from runtime.api import Timer

#: Epochs whose rows are still being read; a source slower than the epochs must not pile them up.
READING_MAX = 4
#: Epochs whose states are kept in case they have to be divided: as long as it takes to find out.
KEPT_EPOCHS = 4

FIRST = Option(
    "first",
    "number",
    "seconds until the first epoch; a window of what arrives has its first rows later",
    0.0,
    least=0.0,
    most=EVERY_MOST_S,
)


@dataclass(slots=True)
class Reading:
    """An epoch whose rows are coming, and who waits for which part of it."""

    epoch: int
    grouping: Grouping
    waiting: list[tuple[int, Give]] = field(default_factory=list)


@register
class PutEpochs(Operator):
    """States of every epoch."""

    TYPE = "put"
    IMPLEMENTATION = "Epochs"
    CONSUMERS_MAX = 0
    OPTIONS: ClassVar[Sequence[Option]] = (*OPTIONS, FIRST)

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        GroupSettings.check(options, spec, opgraph)
        cls.check_times(options)

    @staticmethod
    def check_times(options: Mapping[str, Any]) -> None:
        try:
            strategy = parse(options["strategy"])
        except UnknownStrategy as error:
            raise SettingError("strategy", str(error)) from None
        if strategy.timing.value == "Optimal" and not strategy.by_dissemination and not options["nodes"]:
            raise SettingError("nodes", f"{strategy.name} needs the number of nodes")
        if options["every"] is None and options["count"] != 1:
            raise SettingError("every", "is missing", "seconds between epochs, or count = 1 for one answer")

    def open(self) -> None:
        self._shape = Shape(self.options)
        self._keys = list(self.options["keys"])
        #: By tag.
        self._reading: dict[int, Reading] = {}
        #: By epoch: this node's states, and the same in parts as they travel; what it could answer for then.
        self._kept: dict[int, tuple[pa.Table, list[bytes], Share]] = {}
        self._timer: Timer | None = None
        self._held_bytes = 0
        services = self.context.services
        self._id = session_id(self.context.query_id, self.options["channel"])
        self._service = services["aggregations"]
        self._splits = services["splits"]
        self._run = services["run"]
        self._exchange = services["exchange"]
        self._open: list[str] = []
        self._generation, self._parts = 0, 1
        self._stop: Callable[[], None] | None = None

    def probe(self, probe: Probe) -> None:
        """The sink asks by itself, at each epoch; where the query goes on from here is known one turn later."""

    def start(self) -> None:
        clock = self.context.clock
        self._timer = clock.call_later(0.0, lambda _: self.context.guard(self._begin), None)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        reading = self._reading.get(tag)
        if reading is not None:
            self._shape.add(reading.grouping, batch)
            self._charge()
        return Flow.MORE

    def finish(self, tag: int) -> None:
        reading = self._reading.pop(tag, None)
        if reading is not None:
            states = reading.grouping.states()
            shares = self._shares(states)
            ring_share = self._ring_share(tag)
            if self._keys:
                # Without keys there is one group, which cannot be divided.
                self._kept[reading.epoch] = (states, shares, ring_share)
            for old in [epoch for epoch in self._kept if epoch <= reading.epoch - KEPT_EPOCHS]:
                del self._kept[old]
            self._charge()
            self.counters.rows_out += states.num_rows
            for part, give in reading.waiting:
                give(shares[part], ring_share)

    def _ring_share(self, tag: int) -> Share:
        """What the sources below could answer for when they were asked for an epoch."""
        found = [each for operator in self.below() if (each := operator.share(tag)) is not None]
        return found[0] if found else NOTHING

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._stop is not None:
            self._stop()
        self._close_all()
        self._reading.clear()
        self._kept.clear()
        self._charge()

    # -- aggregations

    def _begin(self) -> None:
        options, spec = self.options, self._run.spec
        every_s = options["every"] or ONE_SHOT_S
        self._began_s = self._run.started_s + options["first"]
        self._spec = SessionSpec(
            id=self._id,
            strategy=parse(options["strategy"]),
            asker=spec.proxy.address,
            epochs=options["count"] or EPOCHS_MAX,
            epoch_s=every_s,
            timeout_s=options["timeout"],
            cleanup_s=options["cleanup"] or every_s,
            nodes=options["nodes"],
            degree_max=options["degree"],
            root=spec.proxy.address,
        )
        # A node to which the query comes late begins with the epoch that is next.
        passed = int((self.context.clock.now() - self._began_s) // every_s)
        first = passed + 1 if passed > 0 else 0
        if first >= self._spec.epochs:
            self.context.sink_ended(self.name)
            return
        self._take_part(self._id, self._spec, 0, first)
        self._stop = self._splits.listen(
            self._id, lambda split: self.context.guard(lambda: self._split(split))
        )

    def _split(self, split: Split) -> None:
        """From now on one aggregation a part."""
        if split.generation <= self._generation:
            return
        self._close_all()
        self._generation, self._parts = split.generation, split.parts
        self._kept = {
            epoch: (states, self._shares(states), ring_share)
            for epoch, (states, _, ring_share) in self._kept.items()
        }
        for part in range(split.parts):
            each = split.part_id(part)
            self._take_part(each, replace(self._spec, id=each, strategy=HASHED), part, split.first)

    def _take_part(self, session: str, spec: SessionSpec, part: int, first: int) -> None:
        self._open.append(session)
        self._service.open(
            spec,
            combiner(self.options),
            partial(self._read, self._generation, part),
            self._edges,
            age_s=self.context.clock.now() - self._began_s,
            over=partial(self._over, session),
            first=first,
        )

    def _close_all(self) -> None:
        for session in self._open:
            self._service.close(session)
        self._open.clear()

    def _over(self, session: str) -> None:
        self._open.remove(session)
        self._service.close(session)
        if not self._open:
            if self._reading:
                self.drop(
                    len(self._reading),
                    "epochs without this node: their rows were not read in time",
                    Cause.NOT_READ,
                )
            self.context.guard(lambda: self.context.sink_ended(self.name))

    def _edges(self) -> Edges:
        """This node's place in the tree by which the query came; the asker is its root."""
        branch, me = self._run.branch, self._service.address
        parent = None if branch.root.address == me or branch.parent is None else branch.parent.address
        return Edges(parent, tuple(child.address for child in branch.children if child.address != me))

    # -- rows

    def _read(self, generation: int, part: int, epoch: int, give: Give) -> None:
        """Asks below for the rows of an epoch, once for all parts."""
        if generation != self._generation:
            return
        if epoch in self._kept:
            _, shares, ring_share = self._kept[epoch]
            give(shares[part], ring_share)
            return
        for reading in self._reading.values():
            if reading.epoch == epoch:
                reading.waiting.append((part, give))
                return
        late_s = self.context.clock.now() - self._began_s - epoch * self._spec.epoch_s
        if len(self._reading) >= READING_MAX or late_s >= self._spec.epoch_s:
            self.drop(
                1,
                "epochs without this node: their time was over before their rows could be read",
                Cause.NOT_READ,
            )
            give(None)
            return
        tag = self.context.next_tag()
        self._reading[tag] = Reading(epoch, self._shape.grouping(), [(part, give)])
        self.context.guard(lambda: super(PutEpochs, self).probe(Probe(ProbeKind.SET, tag)))

    def _shares(self, states: pa.Table) -> list[bytes]:
        """States as they travel, a piece for each part."""
        if self._parts == 1:
            return [pack_table(states) or TOO_LARGE]
        shares = [b""] * self._parts
        for data in states.combine_chunks().to_batches():
            batch = Batch("", data)
            for part, rows in by_group(batch, [batch.column(key) for key in self._keys], self._parts, ""):
                shares[int(part)] = pack_table(pa.Table.from_batches([rows.data])) or TOO_LARGE
        return shares

    def _charge(self) -> None:
        size = sum(reading.grouping.nbytes for reading in self._reading.values())
        size += sum(states.nbytes for states, *_ in self._kept.values())
        self.context.budget.hold(size - self._held_bytes, self.name)
        self._held_bytes = size
