"""What a long computation is charged in simulated time (PIER 3.1.4).

A run must give the same trace on every machine, so by default the charge is declared, not measured: a constant,
or what `estimate` says of the function. With a `stopwatch` the real time is measured, as PIER did; such runs
are not repeatable, and their trace hash means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
#: Computations are what takes "longer than a few milliseconds" (PIER 3.1.2).
COST_S = 0.010


@dataclass(frozen=True, slots=True)
class ComputeModel:
    cost_s: float = COST_S
    #: Seconds that a function is going to take; None: `cost_s` for each.
    estimate: Callable[[Callable[[], Any]], float] | None = None
    #: For hosts that are slower than the one that simulates, or shared with other work.
    fudge_factor: float = 1.0
    #: A clock to measure with, from an edge of the program.
    stopwatch: Callable[[], float] | None = None

    def run(self, fn: Callable[[], T]) -> tuple[T | Exception, float]:
        """The function's result or exception, and the seconds it is charged."""
        started = self.stopwatch() if self.stopwatch is not None else 0.0
        try:
            result: T | Exception = fn()
        except Exception as error:
            result = error
        if self.stopwatch is not None:
            cost_s = self.stopwatch() - started
        else:
            cost_s = self.estimate(fn) if self.estimate is not None else self.cost_s
        return result, max(0.0, cost_s) * self.fudge_factor
