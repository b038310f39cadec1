"""Whether the peer of a connection is still there: a question after silence, the end after more of it.

The owner tells what it heard and asks, now and then, what to do. A TCP stream whose far end lost power stays
open for hours otherwise, and a query would run on for nobody.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LivenessLimits:
    """Shorter finds vanished peers sooner and costs a few bytes more per idle connection."""

    hello_timeout_s: float = 10.0
    ping_after_s: float = 15.0
    gone_after_s: float = 45.0


class Pulse(enum.Enum):
    FINE = "fine"
    ASK = "ask"
    GONE = "gone"


class Liveness:
    """The silence of one peer."""

    __slots__ = ("_asked", "_heard", "_introduced", "_limits", "_since")

    def __init__(self, limits: LivenessLimits, now: float) -> None:
        self._limits = limits
        self._since = self._heard = now
        self._asked = False
        self._introduced = False

    def heard(self, now: float) -> None:
        self._heard = now
        self._asked = False

    def introduced(self) -> None:
        """The hello is through: from here on silence is allowed as long as pings are answered."""
        self._introduced = True

    def check(self, now: float) -> Pulse:
        if not self._introduced:
            # A trickle of bytes does not buy time: the whole hello has one deadline.
            return Pulse.GONE if now - self._since >= self._limits.hello_timeout_s else Pulse.FINE
        silent_s = now - self._heard
        if silent_s >= self._limits.gone_after_s:
            return Pulse.GONE
        if silent_s >= self._limits.ping_after_s and not self._asked:
            self._asked = True
            return Pulse.ASK
        return Pulse.FINE

    def next_check(self) -> float:
        """When `check` may have something new to say."""
        if not self._introduced:
            return self._since + self._limits.hello_timeout_s
        wait_s = self._limits.gone_after_s if self._asked else self._limits.ping_after_s
        return self._heard + wait_s
