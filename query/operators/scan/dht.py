"""Scan, DHT: the rows of a namespace that this node owns (PIER Table 3.3, 3.2.4).

A namespace is a published table, or where opgraphs of this query meet. Of a published table a set probe gets what is
here now, a stream probe what is put from then on; what changes hands is not new. With `window` a set probe gets the
rows that were put within it, wherever they lay then. A namespace of the query's own is read from its first object to
its last: what arrived before the opgraph did is caught up with (PIER 3.3.8), and the end comes when everybody who puts
is done. A set-predicate probe is answered by gets, wherever the owners are: the inner side of a Fetch Matches join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from overlay.dht.messages import Code
from overlay.dht.operations import GetObject, Got, GotObject
from overlay.dht.standing import Standing
from overlay.dht.watch import NewData, Subscription
from overlay.dht.window import Window
from overlay.objects.name import Name, Prefix
from overlay.ring import Arc
from query import plan
from query.aggregation.share import Share, share_of
from query.batch import Batch
from query.batch.key_text import key_texts
from query.causes import Cause
from query.dataflow.flow import Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import NAME_CHARS_MAX, Option
from query.dataflow.source import TAGS_MAX, Source
from query.engine.exchange import Taking
from query.operators.scan.origin import ORIGIN, Origin, check_origin
from query.wire import MissingSchema, SchemaReceiver, WireError, decode_many

#: How long a continuous query waits at a node until it is sure of its part of a table.
STAND_S = 1.0
#: Objects of a window that are read in one turn.
WINDOW_OBJECTS = 512
KEY_UNSURE = "rows of a key may be missing: its owner is not sure of its part of the table"


@register
class ScanDht(Source):
    """Rows of a DHT namespace at the nodes that own them."""

    TYPE = "scan"
    IMPLEMENTATION = "DHT"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option(
            "ns",
            "text",
            "the namespace: a published table, or one that this query puts into",
            required=True,
            most=NAME_CHARS_MAX,
        ),
        Option("table", "text", "the table name of the rows; that under which they were put when absent"),
        Option(
            "window",
            "number",
            "of a published table: set probes get what was put within so many seconds, stream probes nothing",
            least=0.0,
            most=1e9,
        ),
        Option("once", "flag", "with window: each set probe gets what was put since the one before", False),
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
        #: Of probes about a published table: since when it is read. And whether there was one.
        self._began: dict[int, float] = {}
        self._asked = False
        self._window: Window | None = None
        if self.options["window"] is not None and not self._internal:
            self._window = self.dht.window(self.options["ns"], self.options["window"])
        #: Of a published table, by tag: what this node could answer for.
        self._shares: dict[int, Share] = {}

    def share(self, tag: int) -> Share | None:
        return self._shares.pop(tag, None)

    def brings(self) -> bool:
        return not self._internal

    def probe(self, probe: Probe) -> None:
        if probe.kind is ProbeKind.SET_PREDICATE:
            self._fetch(probe)
        elif probe.kind is ProbeKind.STREAM:
            if self._window is None:
                self.follow(probe.tag)
        elif self._internal:
            # Subscribed in the same turn as the scan begins, so every object is seen exactly once.
            self.follow(probe.tag)
            self._reading[probe.tag] = None
            self._scan(probe.tag, lambda: self._caught_up(probe.tag))
        else:
            self._reading[probe.tag] = None
            self._began[probe.tag] = self._since()
            self._show(probe.tag)

    def idle(self) -> bool:
        return not self._reading and super().idle()

    def close(self) -> None:
        for subscription in self.subscriptions:
            subscription.cancel()
        self.subscriptions.clear()
        self._closed = True
        self._reading.clear()
        if self._window is not None:
            self._window.close()
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
        self._shares[tag] = share_of(standing)
        for old in list(self._shares)[:-TAGS_MAX]:
            del self._shares[old]
        if standing.arc is None:
            self._answered(tag)
        elif self._window is not None:
            self._window.when_ready(lambda: self.context.guard(lambda: self._read_window(standing, tag)))
        else:
            self._scan(
                tag, lambda: self._scanned(tag), standing.arc, lambda objects: self._astray(objects, tag)
            )

    def _astray(self, objects: int, tag: int) -> None:
        self.drop(objects, "on their way to the node that owns them", Cause.UNOWNED)
        steps, doubts = self._shares[tag]
        self._shares[tag] = Share(steps, doubts + 1)

    def _read_window(self, standing: Standing, tag: int) -> None:
        """What is young at this moment, whole; it is passed on in pieces."""
        if tag not in self._reading or self._window is None or standing.arc is None:
            return
        young = self._window.read(standing.arc, self.options["once"])
        self._shares[tag] = share_of(standing, young.doubtful)

        def step(start: int) -> None:
            if tag not in self._reading:
                return
            self.context.guard(lambda: self._take_values(young.values[start : start + WINDOW_OBJECTS], tag))
            if start + WINDOW_OBJECTS < len(young.values):
                self.context.clock.call_later(0.0, step, start + WINDOW_OBJECTS)
            else:
                self.context.guard(lambda: self._scanned(tag))

        step(0)

    def _scan(
        self,
        tag: int,
        done: Callable[[], None],
        within: Arc | None = None,
        astray: Callable[[int], None] | None = None,
    ) -> None:
        def each(objects: list[GotObject]) -> None:
            self.context.guard(lambda: self.take_objects(objects, tag))

        def ended() -> None:
            # A continuous query scans again and again.
            if scan in self.subscriptions:
                self.subscriptions.remove(scan)
            self.context.guard(done)

        scan = self.dht.local_scan(self.prefix, each, ended, within, astray)
        self.subscriptions.append(scan)

    def follow(self, tag: int) -> None:
        if self._internal and self.taking is None:
            self.taking = self._exchange.taking(self.options["ns"])

        def arrived(data: NewData) -> None:
            if not self._internal and not data.first:
                return
            self.context.guard(lambda: self.take_object(data.name, data.value, tag))

        self.subscriptions.append(self.dht.new_data(self.prefix, arrived))

    def _caught_up(self, tag: int) -> None:
        self._reading.pop(tag, None)
        self._exchange.when_complete(
            self.options["ns"], lambda: self.context.guard(lambda: self._complete(tag))
        )
        self.context.settle()

    def _since(self) -> float:
        """When the reading began of which a probe is part: with the query, for its first; for later ones with them."""
        first, self._asked = not self._asked, True
        started_s: float = self.context.services["run"].started_s
        return started_s if first else self.context.clock.now()

    def _scanned(self, tag: int) -> None:
        """All rows of a published table that are seen here. While a load comes into sight, one node may show its rows
        and another not yet: the answer says so."""
        table = self.options["ns"]
        if self.dht.unsettled(table, self._began[tag]):
            text = f"a load of {table} came into sight while it was read: ask again for all of it"
            self.context.services["run"].note(Cause.PUBLISHING, 1, text)
        self._answered(tag)

    def _complete(self, tag: int) -> None:
        if self.taking is not None:
            self.taking.ended = True
        self.deliver_end(tag)

    def _answered(self, tag: int) -> None:
        self._reading.pop(tag, None)
        self._began.pop(tag, None)
        self.deliver_end(tag)

    def take_objects(self, objects: list[GotObject], tag: int, here: bool = True) -> None:
        """Objects that a scan of this node or gets found: many small ones of one schema are one batch."""
        self._take_values([got.value for got in objects], tag, here)

    def _take_values(self, values: Sequence[bytes], tag: int, here: bool = True) -> None:
        for count, batch in decode_many(values, self._schemas):
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
