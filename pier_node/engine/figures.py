"""What became of the queries asked at this node: counts, and how long they took."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: Upper bounds of the durations that are told apart, in seconds: from one hop to a batch job.
DURATION_BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)


@dataclass(slots=True)
class Durations:
    """A histogram; the last bucket is for what took longer than every bound."""

    sum_s: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(DURATION_BOUNDS_S) + 1))

    def add(self, duration_s: float) -> None:
        self.sum_s += duration_s
        self.counts[bisect_left(DURATION_BOUNDS_S, duration_s)] += 1


@dataclass(frozen=True, slots=True)
class QueryStatistics:
    #: Running now: asked here, and in all on this node.
    running: int
    runs: int
    asked: int
    #: By how they ended: complete, partial, cancelled, limit, failed.
    ended: Mapping[str, int]
    #: Not started, by kind of failure: syntax, limit, refused.
    rejected: Mapping[str, int]
    rows: int
    #: Calls of other nodes that this one refused, and remarks it left out.
    runs_refused: int
    remarks_suppressed: int
    durations: Durations
    #: Queries whose answers lacked rows, or had rows left out, by cause.
    causes: Mapping[str, int] = field(default_factory=dict)
    #: Messages of the engine that came here and went nowhere.
    dropped: Mapping[str, int] = field(default_factory=dict)


class QueryFigures:
    """Counts as queries come and go."""

    def __init__(self) -> None:
        self.asked = self.rows = 0
        self.ended: dict[str, int] = {}
        self.rejected: dict[str, int] = {}
        self.causes: dict[str, int] = {}
        self.durations = Durations()

    def finished(self, ended: str, causes: Iterable[str], rows: int, elapsed_s: float) -> None:
        self.ended[ended] = self.ended.get(ended, 0) + 1
        for cause in causes:
            self.causes[cause] = self.causes.get(cause, 0) + 1
        self.rows += rows
        self.durations.add(elapsed_s)

    def refused(self, kind: str) -> None:
        self.rejected[kind] = self.rejected.get(kind, 0) + 1
