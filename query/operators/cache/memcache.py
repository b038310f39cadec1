"""Cache, MemCache: keeps rows while the query runs and answers from memory (PIER Table 3.3).

It is filled in one of two ways. By `probe`: the first set probe is passed down, and what it brings is kept; from its
end on set and set-predicate probes are answered here, and earlier ones are passed down. By `stream`: the cache asks
for the stream when the query starts, keeps what arrives, and answers every set and set-predicate probe with what it
has. A stream probe from above gets what arrives from then on; below, one stream is asked for, however many ask
above.

Rows older than `age` are gone: a sliding window. A cache filled by a probe that does not fit into `bytes` gives up
and passes everything on; one filled by a stream lets its oldest rows go, counted as drops.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from typing import ClassVar

from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow, Probe, ProbeKind, least
from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.dataflow.turns import InTurns
from query.operators.cache.held import Held

#: Stream probes from above that are served at a time.
STREAMS_MAX = 64

OPTIONS = (
    Option(
        "fill",
        "choice",
        "probe: with what the first set probe brings; stream: with what arrives from the start of the query",
        "probe",
        choices=("probe", "stream"),
    ),
    Option("age", "number", "seconds after which a row is gone; never when absent", least=0.0, most=1e9),
    Option(
        "clear",
        "flag",
        "with stream: a set probe takes the rows away, so that each row is in one answer",
        False,
    ),
    Option("bytes", "integer", "memory it may use", 64 << 20, least=1 << 10, most=1 << 40),
)


class _Filled(enum.Enum):
    NOT_YET = "not yet"
    FILLING = "filling"
    COMPLETE = "complete"
    GIVEN_UP = "given up"


@register
class MemCache(InTurns):
    """Answers probes from memory."""

    TYPE = "cache"
    IMPLEMENTATION = "MemCache"
    OPTIONS: ClassVar[Sequence[Option]] = OPTIONS

    def open(self) -> None:
        super().open()
        self._held = self._new_held()
        self._held_bytes = 0
        self._filled = _Filled.NOT_YET
        self._fill_tag = 0
        #: The tag of the one stream below, and those of the streams above.
        self._stream_tag = 0
        self._streams: list[int] = []

    def _new_held(self) -> Held:
        return Held(self.context.rng.bits64(), self.keys())

    def keys(self) -> Sequence[str]:
        """Columns of which only the newest row of each combination is kept; none keeps all rows."""
        return ()

    def start(self) -> None:
        if self.options["fill"] == "stream":
            self._filled = _Filled.COMPLETE
            self._ask_stream()

    def probe(self, probe: Probe) -> None:
        if probe.kind is ProbeKind.STREAM:
            assert len(self._streams) < STREAMS_MAX, "too many open streams"
            self._streams.append(probe.tag)
            self._ask_stream()
        elif self._filled is _Filled.COMPLETE or self.options["fill"] == "stream":
            self._expire()
            self.work(self._answer(probe))
        else:
            if self._filled is _Filled.NOT_YET and probe.kind is ProbeKind.SET:
                self._filled, self._fill_tag = _Filled.FILLING, probe.tag
            super().probe(probe)

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        if tag == self._stream_tag:
            self._keep(batch)
            return least([self.emit(batch, stream) for stream in self._streams])
        if tag == self._fill_tag and self._filled is _Filled.FILLING:
            self._keep(batch)
        return self.emit(batch, tag)

    def finish(self, tag: int) -> None:
        if tag == self._stream_tag:
            for stream in self._streams:
                self.emit_end(stream)
            self._streams.clear()
            return
        if tag == self._fill_tag and self._filled is _Filled.FILLING:
            self._filled = _Filled.COMPLETE
        self.emit_end(tag)

    def close(self) -> None:
        super().close()
        self._held = Held(0)
        self.context.budget.hold(-self._held_bytes, self.name)
        self._held_bytes = 0

    def _ask_stream(self) -> None:
        if self._stream_tag == 0:
            self._stream_tag = self.context.next_tag()
            super().probe(Probe(ProbeKind.STREAM, self._stream_tag))

    def _answer(self, probe: Probe) -> Iterator[Flow]:
        batches = self._held.batches() if probe.keys is None else self._held.matching(probe.keys)
        if self.options["clear"] and probe.keys is None and self.options["fill"] == "stream":
            batches, self._held = iter(list(batches)), self._new_held()
        for batch in batches:
            yield self.emit(batch, probe.tag)
        self._charge()
        self.emit_end(probe.tag)

    def _keep(self, batch: Batch) -> None:
        if self._filled is _Filled.GIVEN_UP:
            return
        self._held.add(batch, self.context.clock.now())
        self._expire()
        if self._held.nbytes > self.options["bytes"]:
            if self.options["fill"] == "stream":
                self.drop(
                    self._held.make_room(self.options["bytes"]),
                    "left the cache to make room",
                    Cause.CROWDED_OUT,
                )
            else:
                self._filled = _Filled.GIVEN_UP
                self._held = Held(0)
                self.context.complain(
                    self.name, f"more than bytes = {self.options['bytes']}: nothing is cached"
                )
        self._charge()

    def _expire(self) -> None:
        if self.options["age"] is not None:
            self._held.expire(self.context.clock.now() - self.options["age"])

    def _charge(self) -> None:
        size = self._held.nbytes
        self.context.budget.hold(size - self._held_bytes, self.name)
        self._held_bytes = size
