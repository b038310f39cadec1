"""Cache, Windows: rows wait until the window of time in which they lie is over. An addition to PIER's operators.

It follows its source from the start of the query. A set probe gets the rows of all windows that have ended since the
one before, by this node's own clock: nobody's clock is compared with another's. Rows that come when their window is
over are late: they are in the next answer, where they revise the window's result, or, later than `lateness`, dropped
and counted. Rows without a time are dropped and counted, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from query.batch import Batch
from query.causes import Cause
from query.dataflow.evaluate import Evaluator
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns


@register
class Windows(InTurns):
    """Rows of windows that are over."""

    TYPE = "cache"
    IMPLEMENTATION = "Windows"
    OPTIONS: ClassVar[Sequence[Option]] = (
        Option("end", "expression", "when a row's window ends: end = $window_end", required=True),
        Option(
            "lateness",
            "number",
            "seconds after the end of its window that a row still counts",
            0.0,
            least=0.0,
            most=1e9,
        ),
    )

    def open(self) -> None:
        super().open()
        self._end = Evaluator(self, [self.options["end"]])
        #: Rows with the ends of their windows, in microseconds since 1970.
        self._held: list[tuple[Batch, pa.Array]] = []
        self._held_bytes = 0
        self._stream_tag = 0

    def start(self) -> None:
        self._stream_tag = self.context.next_tag()
        super().probe(Probe(ProbeKind.STREAM, self._stream_tag))

    def probe(self, probe: Probe) -> None:
        """Streams are not passed up: a window's rows come together."""
        if probe.kind is not ProbeKind.STREAM:
            self.work(self._answer(probe.tag))

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        rows, (ends,) = self._end(batch)
        ends_us = ends.cast(pa.timestamp("us", ends.type.tz)).cast(pa.int64())
        timeless = ends_us.null_count
        if timeless:
            self.drop(timeless, "no time, so in no window", Cause.OUTSIDE)
        late_us = self._now_us() - int(self.options["lateness"] * 1e6)
        keep = pc.fill_null(pc.greater(ends_us, late_us), False)
        kept = pc.sum(keep).as_py() or 0
        if kept + timeless < rows.num_rows:
            self.drop(
                rows.num_rows - kept - timeless,
                f"late by more than {self.options['lateness']:g} s",
                Cause.OUTSIDE,
            )
        if kept:
            self._held.append((rows.take(keep), ends_us.filter(keep)))
            self._charge()
        return Flow.MORE

    def finish(self, tag: int) -> None:
        """A source that ends has given all it has; windows still end one by one."""

    def close(self) -> None:
        super().close()
        self._held = []
        self._charge()

    def _answer(self, tag: int) -> Iterator[Flow]:
        now_us = self._now_us()
        held, self._held = self._held, []
        ready: list[Batch] = []
        for rows, ends_us in held:
            over = pc.less_equal(ends_us, now_us)
            ended = pc.sum(over).as_py() or 0
            if ended:
                ready.append(rows if ended == rows.num_rows else rows.take(over))
            if ended < rows.num_rows:
                waiting = pc.invert(over)
                self._held.append((rows.take(waiting), ends_us.filter(waiting)) if ended else (rows, ends_us))
        self._charge()
        for batch in ready:
            yield self.emit(batch, tag)
        self.emit_end(tag)

    def _now_us(self) -> int:
        return int(self.context.clock.wall() * 1e6)

    def _charge(self) -> None:
        size = sum(rows.nbytes + ends_us.nbytes for rows, ends_us in self._held)
        self.context.budget.hold(size - self._held_bytes, self.name)
        self._held_bytes = size
