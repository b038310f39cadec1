"""When a node's part in an aggregation is over: what it holds has arrived, and nothing more is to be expected.

A query of one epoch (one-shot, PIER Appendix B) ends as soon as it can. With Optimal timing a node is done when its
state has arrived, the root when all are in. With Timeout nobody can know: the root, and in a hierarchy every node,
stays until nothing has come for two timeouts, which is as long as the level below may hold something back. A
continuous query (Appendix C) ends when its last epoch has had its time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from query.aggregation.strategy import Strategy, Structure, Timing
from runtime.api import Runtime, Timer

#: A node that heard nothing for so many timeouts will not hear more.
QUIET_TIMEOUTS = 2.0
EARLY_S = 1e-6


@dataclass(frozen=True, slots=True)
class Standing:
    """How a node stands in its last epoch."""

    is_root: bool
    #: It has passed something on, and that was all there will be.
    has_given: bool
    is_complete: bool
    #: It has nothing more to give, and all that it gave has arrived.
    is_settled: bool


class Ending:
    """Calls `over` once."""

    __slots__ = (
        "_last_s",
        "_lasts_until_s",
        "_one_shot",
        "_over",
        "_quiet_s",
        "_runtime",
        "_standing",
        "_strategy",
        "_timer",
    )

    def __init__(
        self,
        runtime: Runtime,
        strategy: Strategy,
        one_shot: bool,
        lasts_s: float,
        timeout_s: float,
        standing: Callable[[], Standing | None],
        over: Callable[[], None],
    ) -> None:
        """`lasts_s` is the time from now to the end of the last epoch; `standing` is None before it."""
        self._runtime = runtime
        self._strategy = strategy
        self._one_shot = one_shot
        self._lasts_until_s = runtime.now() + lasts_s
        self._quiet_s = QUIET_TIMEOUTS * timeout_s
        self._last_s = runtime.now()
        self._standing = standing
        self._over: Callable[[], None] | None = over
        self._timer: Timer | None = None

    def touched(self) -> None:
        """Something came."""
        self._last_s = self._runtime.now()

    def sooner(self, by_s: float) -> None:
        """The last epoch ends earlier than was thought."""
        self._lasts_until_s -= by_s

    def look(self) -> None:
        """Ends it if it is time, or sets a timer for when it will be."""
        standing = None if self._over is None else self._standing()
        if standing is None or not standing.is_settled:
            return
        self._stop_timer()
        wait_s = self._due_s(standing) - self._runtime.now()
        self._timer = self._runtime.call_later(max(0.0, wait_s), self._again, None)

    def close(self) -> None:
        self._over = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _again(self, _: None) -> None:
        self._timer = None
        standing = None if self._over is None else self._standing()
        if self._over is None or standing is None or not standing.is_settled:
            return
        # A timer may come a rounding error early.
        if self._due_s(standing) <= self._runtime.now() + EARLY_S:
            over, self._over = self._over, None
            over()
        else:
            self.look()

    def _due_s(self, standing: Standing) -> float:
        strategy = self._strategy
        if strategy.timing is Timing.TIMEOUT:
            least_s = self._last_s if self._one_shot else self._lasts_until_s
            stays = standing.is_root or strategy.structure is Structure.HIERARCHY
            return max(least_s, self._last_s + self._quiet_s) if stays else least_s
        if self._one_shot and strategy.timing is Timing.OPTIMAL and standing.is_complete:
            return self._runtime.now()
        return self._lasts_until_s + (0.0 if standing.has_given else self._quiet_s)
