"""Scan, DHT: the rows of a namespace that this node owns (PIER Table 3.3, 3.2.4).

A namespace is a published table, or where opgraphs of this query meet. Of a published table a set probe gets what is
here now, a stream probe what arrives. A namespace of the query's own is read from its first object to its last:
what arrived before the opgraph did is caught up with (PIER 3.3.8), and the end comes when everybody who puts is done.
A set-predicate probe is answered by gets, wherever the owners are: the inner side of a Fetch Matches join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, GotObject
from overlay.dht.standing import Standing
from overlay.dht.watch import NewData, Subscription
from overlay.objects.name import Name, Prefix
from overlay.ring import Arc
from query import plan
from query.batch import Batch
from query.batch.key_text import key_texts
from query.causes import Cause
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.source import Source
from query.engine.exchange import Taking
from query.operators.scan.origin import ORIGIN, Origin, check_origin
from query.wire import MissingSchema, SchemaReceiver, WireError, decode_many

#: How long a continuous query waits at a node until it is sure of its part of a table.
STAND_S = 1.0
KEY_UNSURE = "rows of a key may be missing: its owner is not sure of its part of the table"


@register
class ScanDht(Source):
    """Rows of a DHT namespace at the nodes that own them."""

    TYPE = "scan"
    IMPLEMENTATION = "DHT"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option(
            "ns", "text", "the namespace: a published table, or one that this query puts into", required=True
        ),
        Option("table", "text", "the table name of the rows; that under which they were put when absent"),
        ORIGIN,
    )

    @classmethod
    def reads(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (options["ns"],)

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        check_origin(options)

    def open(self) -> None:
        super().open()
        self._origin = Origin(self.context, self.options)
        self.dht = self.context.services["dht"]
        self._exchange = self.context.services["exchange"]
        self.prefix = Prefix(self.options["ns"])
        self._internal = self._exchange.is_internal(self.options["ns"])
        self._schemas = SchemaReceiver()
        self.subscriptions: list[Subscription] = []
        #: Where it counts what the query's own opgraphs put, once it reads all of it.
        self.taking: Taking | None = None
        #: A node that came when rows had begun to meet elsewhere: it counts what the ring brought it since.
        self._late = self._internal and self.context.services["run"].late
        if self._internal and not self._late:
            self.subscriptions.append(self.dht.hold(self.options["ns"]))
        self._closed = False
        #: Set probes that are being answered: they keep the operator busy.
        self._reading: dict[int, None] = {}

    def brings(self) -> bool:
        return not self._internal

    def probe(self, probe: Probe) -> None:
        if probe.kind is ProbeKind.SET_PREDICATE:
            self._fetch(probe)
        elif probe.kind is ProbeKind.STREAM:
            self.follow(probe.tag)
        elif self._internal:
            # Subscribed in the same turn as the scan begins, so every object is seen exactly once.
            self.follow(probe.tag)
            self._reading[probe.tag] = None
            self._scan(probe.tag, lambda: self._caught_up(probe.tag))
        else:
            self._reading[probe.tag] = None
            self._show(probe.tag)

    def idle(self) -> bool:
        return not self._reading and super().idle()

    def close(self) -> None:
        for subscription in self.subscriptions:
            subscription.cancel()
        self.subscriptions.clear()
        self._closed = True
        super().close()

    def _show(self, tag: int) -> None:
        """A published table: what lies in the arc that this node answers for in this query, or does so now."""
        standing = self.context.services["run"].standing
        if standing is not None:
            self._show_as(standing, tag)
            return

        def stood(standing: Standing) -> None:
            if not self._closed:
                self.context.guard(lambda: self._stood(standing, tag))

        self.dht.stand(stood, STAND_S)

    def _stood(self, standing: Standing, tag: int) -> None:
        if not standing.whole:
            self.drop(1, "this node is not sure of its part of the table", Cause.UNOWNED)
        self._show_as(standing, tag)

    def _show_as(self, standing: Standing, tag: int) -> None:
        if standing.arc is None:
            self._answered(tag)
        else:
            self._scan(tag, lambda: self._answered(tag), standing.arc)

    def _astray(self, objects: int) -> None:
        self.drop(objects, "on their way to the node that owns them", Cause.UNOWNED)

    def _scan(self, tag: int, done: Callable[[], None], within: Arc | None = None) -> None:
        def each(objects: list[GotObject]) -> None:
            self.context.guard(lambda: self.take_objects(objects, tag))

        def ended() -> None:
            # A continuous query scans again and again.
            if scan in self.subscriptions:
                self.subscriptions.remove(scan)
            self.context.guard(done)

        scan = self.dht.local_scan(self.prefix, each, ended, within, self._astray)
        self.subscriptions.append(scan)

    def follow(self, tag: int) -> None:
        if self._internal and self.taking is None:
            self.taking = self._exchange.taking(self.options["ns"])

        def arrived(data: NewData) -> None:
            self.context.guard(lambda: self.take_object(data.name, data.value, tag))

        self.subscriptions.append(self.dht.new_data(self.prefix, arrived))

    def _caught_up(self, tag: int) -> None:
        self._reading.pop(tag, None)
        self._exchange.when_complete(
            self.options["ns"], lambda: self.context.guard(lambda: self._complete(tag))
        )
        self.context.settle()

    def _complete(self, tag: int) -> None:
        if self.taking is not None:
            self.taking.ended = True
        self.deliver_end(tag)

    def _answered(self, tag: int) -> None:
        self._reading.pop(tag, None)
        self.deliver_end(tag)

    def take_objects(self, objects: list[GotObject], tag: int, here: bool = True) -> None:
        """Objects that a scan of this node or gets found: many small ones of one schema are one batch."""
        for count, batch in decode_many((got.value for got in objects), self._schemas):
            if isinstance(batch, Batch):
                self.give(self._origin.added(batch, here), tag, count)
            else:
                self._unread(batch)

    def take_object(self, name: Name, value: bytes, tag: int) -> None:
        """An object of this node; the DHT shows each once."""
        self.take(value, tag)

    def take(self, value: bytes, tag: int) -> None:
        batch = self.read(value)
        if batch is not None:
            self.give(self._origin.added(batch), tag)

    def read(self, value: bytes) -> Batch | None:
        """The rows of an object; None, and counted, when it has none."""
        ((_, batch),) = decode_many((value,), self._schemas)
        if isinstance(batch, Batch):
            return batch
        self._unread(batch)
        return None

    def _unread(self, problem: MissingSchema | WireError) -> None:
        if self.taking is not None:
            self.taking.batches += 1
        without = isinstance(problem, MissingSchema)
        self.drop(
            1, "an object without its schema" if without else f"malformed object: {problem}", Cause.UNREADABLE
        )

    def give(self, batch: Batch, tag: int, objects: int = 1) -> None:
        """Rows of so many objects that were meant for this node."""
        if self.taking is not None:
            self.taking.batches += objects
        if self._late:
            self.drop(batch.num_rows, "went to a node that came after the query", Cause.STRANGER)
            return
        self.deliver(batch.with_table(self.options["table"]) if self.options["table"] else batch, tag)

    def _fetch(self, probe: Probe) -> None:
        assert probe.keys is not None
        self._reading[probe.tag] = None
        keys = sorted(set(key_texts(probe.keys.data.columns)))
        gets = [GetObject(self.options["ns"], key) for key in keys]

        def got(answers: list[Got]) -> None:
            self.context.guard(lambda: self._fetched(answers, probe.tag))

        self.dht.get_many(gets, got)

    def _fetched(self, answers: list[Got], tag: int) -> None:
        for answer in answers:
            if answer.code is not Code.OK:
                self.drop(1, f"not all rows of a key could be read: {answer.code.name}", Cause.NOT_FETCHED)
            elif not answer.sure:
                self.drop(1, KEY_UNSURE, Cause.UNOWNED)
        self.take_objects([found for answer in answers for found in answer.objects], tag, here=False)
        self._answered(tag)
