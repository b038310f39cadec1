"""How much one client may ask of a node and hold of it: requests a second, bytes published a second, and everything
that stays at the node on its behalf.

What is beyond is refused and says which knob it was; published bytes beyond the rate are not refused but slowed
down, by granting credit later. Clients are told apart by the name of their token or, without one, by their address.
Everything held, refused or slowed down is counted by client and shown in the node's status.

Invariant: what a client holds is taken before it is there and given back when it is gone, by whoever keeps it.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

#: Clients whose counts are kept; the one that was quiet longest makes room.
CLIENTS_MAX = 256


class Hold(enum.Enum):
    """What a client can hold of a node: its name in figures, what people call it, and the knob that bounds it."""

    CONNECTIONS = ("connections", "connections", "client.connections_per_client_max")
    QUERIES = ("queries", "queries at once", "client.queries_max")
    PUBLICATIONS = ("publications", "publications at once", "client.publications_max")
    LOGS = ("logs", "result logs", "client.logs_max")
    LOG_BYTES = ("log_bytes", "bytes in result logs", "client.logs_bytes_max")
    STAGED_BYTES = (
        "staged_bytes",
        "bytes of loads that wait to be settled",
        "client.staged_bytes_per_client_max",
    )
    BACKLOG_BYTES = ("backlog_bytes", "bytes of answers nobody reads", "client.backlog_bytes_per_client_max")
    INPUT_BYTES = ("input_bytes", "bytes of unfinished messages", "client.input_bytes_per_client_max")

    def __init__(self, figure: str, words: str, knob: str) -> None:
        self.figure = figure
        self.words = words
        self.knob = knob


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Zero, or nothing named, means no limit."""

    requests_per_s: float = 0.0
    request_burst: float = 1.0
    publish_bytes_per_s: float = 0.0
    #: The most that one client may hold, over all its connections.
    holds_max: Mapping[Hold, int] = field(default_factory=dict)


@dataclass(slots=True)
class Bucket:
    """A token bucket: fills at `per_s` up to `burst`."""

    per_s: float
    burst: float
    left: float
    at_s: float

    def take(self, now_s: float) -> bool:
        """One, if there is one."""
        self._fill(now_s)
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True

    def owe(self, now_s: float, amount: float) -> float:
        """Takes the amount whether it is there or not; returns how long until it is paid back."""
        self._fill(now_s)
        self.left -= amount
        return max(0.0, -self.left / self.per_s)

    def _fill(self, now_s: float) -> None:
        self.left = min(self.burst, self.left + max(0.0, now_s - self.at_s) * self.per_s)
        self.at_s = now_s


@dataclass(frozen=True, slots=True)
class ClientFigures:
    """What one client did and holds, and what was held against it."""

    requests: int
    rate_limited: int
    rights_refused: int
    published_bytes: int
    publish_delays: int
    #: By what it is: how much of it is there now, and how often more was refused.
    held: Mapping[str, int]
    limited: Mapping[str, int]


@dataclass(slots=True)
class ShareTotals:
    """The same for all clients that ever came, also those whose counts are no longer kept."""

    rights_refused: int = 0
    rate_limited: int = 0
    limited: int = 0


class Share:
    """One client's part of a node, over all its connections."""

    __slots__ = (
        "_held",
        "_limited",
        "_limits",
        "_published",
        "_requests",
        "_totals",
        "client",
        "publish_delays",
        "published_bytes",
        "rate_limited",
        "requests",
        "rights_refused",
    )

    def __init__(
        self,
        limits: RateLimits | None = None,
        now_s: float = 0.0,
        totals: ShareTotals | None = None,
        client: str = "",
    ) -> None:
        self.client = client
        self._limits = limits = limits or RateLimits()
        self._totals = totals or ShareTotals()
        self._requests = Bucket(limits.requests_per_s, limits.request_burst, limits.request_burst, now_s)
        per_s = limits.publish_bytes_per_s
        self._published = Bucket(per_s, per_s, per_s, now_s)
        self._held: dict[Hold, int] = {}
        self._limited: dict[Hold, int] = {}
        self.requests = self.rate_limited = 0
        self.rights_refused = self.published_bytes = self.publish_delays = 0

    def request(self, now_s: float) -> str | None:
        """Counts a request; the knob that forbids it, or None."""
        self.requests += 1
        if self._limits.requests_per_s and not self._requests.take(now_s):
            self.rate_limited += 1
            self._totals.rate_limited += 1
            return f"client.requests_per_s = {self._limits.requests_per_s:g}"
        return None

    def take(self, hold: Hold, amount: int = 1) -> str | None:
        """The words and the knob that forbid to hold so much more, or None; then it counts until it is given back."""
        held, most = self._held.get(hold, 0), self._limits.holds_max.get(hold, 0)
        if most and amount and held + amount > most:
            return self.refused(hold)
        self._held[hold] = held + amount
        return None

    def refused(self, hold: Hold) -> str:
        """Counts a refusal for want of room, and says it."""
        self._limited[hold] = self._limited.get(hold, 0) + 1
        self._totals.limited += 1
        return f"too many {hold.words} of this client ({hold.knob} = {self._limits.holds_max.get(hold, 0)})"

    def give(self, hold: Hold, amount: int = 1) -> None:
        held = self._held.get(hold, 0) - amount
        assert held >= 0, f"{hold.figure} were given back that were never taken"
        self._held[hold] = held

    def adjust(self, hold: Hold, before: int, now: int) -> None:
        """One who holds has more or less than before, whether or not there is room."""
        self._held[hold] = self._held.get(hold, 0) + now - before

    def too_much(self, hold: Hold) -> str | None:
        """The words for it, and a count, when more is held than the limit; for what cannot be refused before it is
        there."""
        most = self._limits.holds_max.get(hold, 0)
        return self.refused(hold) if most and self._held.get(hold, 0) > most else None

    def forbidden(self) -> None:
        """The client wanted what its token does not allow."""
        self.rights_refused += 1
        self._totals.rights_refused += 1

    def published(self, now_s: float, size_bytes: int) -> float:
        """Bytes were taken from the client; how long to wait before it may send as many more."""
        self.published_bytes += size_bytes
        if not self._limits.publish_bytes_per_s:
            return 0.0
        delay_s = self._published.owe(now_s, size_bytes)
        self.publish_delays += delay_s > 0.0
        return delay_s

    @property
    def idle(self) -> bool:
        return not any(self._held.values())

    def figures(self) -> ClientFigures:
        return ClientFigures(
            self.requests,
            self.rate_limited,
            self.rights_refused,
            self.published_bytes,
            self.publish_delays,
            {hold.figure: self._held.get(hold, 0) for hold in Hold},
            {hold.figure: self._limited.get(hold, 0) for hold in Hold},
        )


class Shares:
    """All clients of a node."""

    def __init__(self, limits: RateLimits) -> None:
        self.totals = ShareTotals()
        self._limits = limits
        self._shares: OrderedDict[str, Share] = OrderedDict()

    def of(self, client: str, now_s: float) -> Share:
        share = self._shares.pop(client, None) or Share(self._limits, now_s, self.totals, client)
        self._shares[client] = share
        if len(self._shares) > CLIENTS_MAX:
            self._make_room()
        return share

    def _make_room(self) -> None:
        """The one that holds nothing and was quiet longest goes. Whoever holds something is never forgotten: it would
        have a second share when it comes back. They are bounded by the connections, logs and loads of the node."""
        quiet = next((name for name, share in self._shares.items() if share.idle), None)
        if quiet is not None:
            del self._shares[quiet]

    def figures(self) -> dict[str, ClientFigures]:
        return {client: share.figures() for client, share in sorted(self._shares.items())}
