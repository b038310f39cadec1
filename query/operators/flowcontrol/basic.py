"""Flow control, Basic: decides when data is asked for (PIER 3.3.5, 3.3.6).

It issues probes of its own towards its source: when the query starts, periodically, after so many rows have arrived
at the sources below, or when their rate crosses a bound. Where it stands says what that means: above a group-by it
makes the group-by answer again and again; below a dual-flow group-by it feeds it.

Tags and ends. Every probe it issues has a tag of its own, so operators below see each as a query of its own: a
group-by Basic aggregates each set probe anew. What comes back is passed up under one tag: that of the first set or
stream probe that came from above, or one of its own if nobody asked. Later probes from above end at once, without
data; a set-predicate probe passes through unchanged. The end is passed up once, when no more probes will be issued
and all set probes have ended; a stream probe counts as ended when `duration` is over or its source says so. Without
`count` and `duration` a flow control with a period or a trigger never ends: the query's own duration ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from query import plan
from query.batch import Batch
from query.causes import Cause
from query.dataflow.flow import Flow, Probe, ProbeKind
from query.dataflow.operator import Operator
from query.dataflow.registry import register
from query.dataflow.settings import Option, SettingError
from query.plan_hints import did_you_mean, quoted
from runtime.api import Timer

#: Own probes not yet answered; a source slower than the period must not pile them up.
PROBES_OPEN_MAX = 8
SKIPPED = "probe not issued: earlier ones are not answered yet"


@register
class FlowControl(Operator):
    """Issues probes at the times its settings say."""

    TYPE = "flowcontrol"
    IMPLEMENTATION = "Basic"
    OPTIONS: ClassVar = (
        Option(
            "probe",
            "choice",
            "what it asks for: set, all that is there; stream, what arrives from then on",
            "set",
            choices=("set", "stream"),
        ),
        Option("start", "flag", "whether it asks when the query starts", True),
        Option("delay", "number", "seconds it waits before that", 0.0, least=0.0, most=1e6),
        Option("period", "number", "seconds between further probes", least=0.001, most=1e6),
        Option(
            "rows", "integer", "asks after each so many rows that arrived at the watched sources", least=1
        ),
        Option(
            "rate_above",
            "number",
            "asks when the rate of arrival, in rows a second, rises to this",
            least=0.0,
        ),
        Option("rate_below", "number", "asks when the rate has been above this and falls to it", least=0.0),
        Option("interval", "number", "seconds over which the rate is measured", 1.0, least=0.001, most=1e6),
        Option("watch", "texts", "the sources whose rows are counted; all sources below when absent"),
        Option("count", "integer", "probes in all; no limit when absent", least=1),
        Option(
            "duration", "number", "seconds after which it asks no more and streams end", least=0.0, most=1e9
        ),
    )

    @classmethod
    def check(cls, options: Mapping[str, Any], spec: plan.Operator, opgraph: plan.Opgraph) -> None:
        names = [operator.name for operator in opgraph.operators]
        for name in options["watch"] or ():
            if name not in names:
                raise SettingError("watch", f"there is no operator {quoted(name)}", did_you_mean(name, names))

    def open(self) -> None:
        options = self.options
        self._kind = ProbeKind(options["probe"])
        self._repeats = any(
            options[name] is not None for name in ("period", "rows", "rate_above", "rate_below")
        )
        #: The tag under which everything is passed up.
        self._tag: int | None = None
        self._asked = False
        self._open: set[int] = set()
        self._issued = 0
        self._over = False
        self._told_end = False
        self._since_rows = 0
        self._interval_rows = 0
        #: Whether the rate was at its upper bound, and above its lower one, when last measured.
        self._fast = self._above_low = False
        #: One timer for each thing that waits: start, period, interval, duration.
        self._timers: dict[str, Timer] = {}

    def start(self) -> None:
        options = self.options
        self._watch()
        if options["start"] and options["delay"]:
            self._later("start", options["delay"])
        elif options["start"]:
            self._issue()
        elif not self._repeats:
            self._over = True
        if options["period"] is not None:
            self._later("period", options["delay"] + options["period"])
        if options["rate_above"] is not None or options["rate_below"] is not None:
            self._later("interval", options["interval"])
        if options["duration"] is not None:
            self._later("duration", options["duration"])
        self._end_if_done()

    def probe(self, probe: Probe) -> None:
        if probe.kind is ProbeKind.SET_PREDICATE:
            super().probe(probe)
        elif self._asked or self._told_end:
            self.emit_end(probe.tag)
        else:
            self._asked = True
            self._tag = probe.tag

    def process(self, batch: Batch, tag: int, port: int) -> Flow:
        if tag in self._open:
            return self.emit(batch, self._up())
        if self._told_end or self._over:
            self.drop(batch.num_rows, "arrived after the duration of the flow control", Cause.OUTSIDE)
            return Flow.DONE
        return self.emit(batch, tag)

    def finish(self, tag: int) -> None:
        if tag in self._open:
            self._open.discard(tag)
            self._end_if_done()
        elif tag > 0 and not self._told_end:
            self.emit_end(tag)

    def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _up(self) -> int:
        if self._tag is None:
            self._tag = self.context.next_tag()
        return self._tag

    def _issue(self) -> bool:
        """Asks once more, if it still may. Returns False: it is called as a task of one turn."""
        if self._over:
            return False
        if len(self._open) >= PROBES_OPEN_MAX:
            self.drop(1, SKIPPED, Cause.NOT_READ)
            return False
        self._issued += 1
        if self._issued == self.options["count"] or not self._repeats:
            self._over = True
        tag = self.context.next_tag()
        self._open.add(tag)
        super().probe(Probe(self._kind, tag))
        return False

    def _end_if_done(self) -> None:
        if self._over and not self._open and not self._told_end:
            self._told_end = True
            self.close()
            self.emit_end(self._up())

    # -- what makes it ask

    def _later(self, what: str, delay_s: float) -> None:
        self._timers[what] = self.context.clock.call_later(delay_s, self._due, what)

    def _due(self, what: str) -> None:
        del self._timers[what]
        self.context.guard(lambda: self._happened(what))

    def _happened(self, what: str) -> None:
        if what == "duration":
            self._over = True
            if self._kind is ProbeKind.STREAM:
                self._open.clear()
        elif what == "interval":
            self._measure()
            self._later("interval", self.options["interval"])
        else:
            self._issue()
            if what == "period" and not self._over:
                self._later("period", self.options["period"])
        self._end_if_done()

    def _watch(self) -> None:
        if not any(self.options[name] is not None for name in ("rows", "rate_above", "rate_below")):
            return
        below = {operator.name: operator for operator in self.below()}
        names = self.options["watch"] or [name for name, operator in below.items() if not operator.inputs]
        for name in names:
            if name not in below:
                raise SettingError("watch", f"there is no operator {name!r} below {self.name!r}")
            below[name].watchers.append(self._arrived)

    def _arrived(self, rows: int) -> None:
        self._interval_rows += rows
        self._since_rows += rows
        wanted = self.options["rows"]
        if wanted is not None and self._since_rows >= wanted and not self._over:
            self._since_rows %= wanted
            # The source is in the middle of delivering: ask when it is done.
            self.context.schedule(self._issue)

    def _measure(self) -> None:
        """Compares the rate with its bounds; each crossing asks once."""
        rate = self._interval_rows / self.options["interval"]
        self._interval_rows = 0
        above, below = self.options["rate_above"], self.options["rate_below"]
        was_fast, was_busy = self._fast, self._above_low
        self._fast = above is not None and rate >= above
        self._above_low = below is not None and rate > below
        if (self._fast and not was_fast) or (was_busy and not self._above_low):
            self._issue()
