"""What scans of files and databases share: they read a piece in each turn, for one probe after the other.

A set probe gets all rows, a set-predicate probe those that match; the reader may look for them itself, they are
filtered here in any case. What lies in a file does not arrive: a stream probe gets nothing and ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from query import plan
from query.batch import Batch
from query.dataflow.context import SourceUnavailable
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.settings import Option
from query.dataflow.source import TAGS_MAX, Source
from query.expr.errors import ExprError
from query.keys import matching
from query.operators.scan.origin import ORIGIN, Origin, check_origin

MISSING = Option(
    "missing",
    "choice",
    "what it means when a node cannot read it: fail, and the account says so; empty, as if it had no rows",
    "fail",
    choices=("fail", "empty"),
)
TABLE = "the table name of the rows; "


class ReadingScan(Source):
    """Base of scans that read."""

    OPTIONS: ClassVar[Sequence[Option]] = (MISSING, ORIGIN)

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        check_origin(options)

    def open(self) -> None:
        super().open()
        self._seed = self.context.rng.bits64()
        self._origin = Origin(self.context, self.options)
        self._probes: dict[int, Probe] = {}
        #: The rows of the oldest probe.
        self._rows: Iterator[Batch] | None = None
        self._running = False

    def service(self, name: str) -> Any:
        """A service of the node; SourceUnavailable where its owner opened nothing to queries."""
        found = self.context.services.get(name)
        if found is None:
            raise SourceUnavailable(f"this node has no {name} open to queries")
        return found

    def begin(self, keys: Batch | None) -> Iterator[Batch]:
        """Opens the source; raises SourceUnavailable, as the iterator may."""
        raise AssertionError("a scan says what it reads")

    def probe(self, probe: Probe) -> None:
        if probe.kind is ProbeKind.STREAM:
            self.deliver_end(probe.tag)
            return
        assert len(self._probes) < TAGS_MAX, "too many open probes"
        self._probes[probe.tag] = probe
        self._wake()

    def resumed(self) -> None:
        self._wake()

    def idle(self) -> bool:
        return not self._probes

    def close(self) -> None:
        self._stop_reading()
        self._probes.clear()
        super().close()

    def _wake(self) -> None:
        if self._probes and not self._running and not self.paused:
            self._running = True
            self.context.schedule(self._turn)

    def _turn(self) -> bool:
        if self._probes and not self.paused:
            self._read(next(iter(self._probes.values())))
        self._running = bool(self._probes) and not self.paused
        return self._running

    def _read(self, probe: Probe) -> None:
        """Reads one batch."""
        try:
            if self._rows is None:
                self._rows = self.begin(probe.keys)
            batch = next(self._rows, None)
        except SourceUnavailable as error:
            self._unavailable(error, probe.tag)
            return
        if batch is None or self._hand_over(batch, probe) is Flow.DONE:
            self._finished(probe.tag)

    def _hand_over(self, batch: Batch, probe: Probe) -> Flow:
        if probe.keys is not None:
            try:
                batch = matching(batch, probe.keys, self._seed)
            except ExprError as error:
                self.drop(batch.num_rows, str(error), error.cause)
                return Flow.MORE
        return self.deliver(self._origin.added(batch), probe.tag)

    def _unavailable(self, error: SourceUnavailable, tag: int) -> None:
        if self.options["missing"] == "fail":
            self._stop_reading()
            self._probes.clear()
            self.context.fail(error)
            return
        self.context.complain(self.name, str(error))
        self._finished(tag)

    def _finished(self, tag: int) -> None:
        self._stop_reading()
        self._probes.pop(tag, None)
        self.deliver_end(tag)
        if self.in_cycle:
            self.context.settle()

    def _stop_reading(self) -> None:
        """Closes what the reader has open."""
        rows, self._rows = self._rows, None
        close = getattr(rows, "close", None)
        if close is not None:
            close()
