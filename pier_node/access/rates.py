"""How much one client may ask of a node: requests a second, queries at once, bytes published a second.

Requests beyond are refused and say which knob it was; published bytes beyond are not refused but slowed down,
by granting credit later. Clients are told apart by the name of their token or, without one, by their address.
Everything refused or slowed down is counted by client and shown in the node's status.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

#: Clients whose counts are kept; the one that was quiet longest makes room.
CLIENTS_MAX = 256


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Zero means no limit."""

    requests_per_s: float = 0.0
    request_burst: float = 1.0
    queries_max: int = 0
    publish_bytes_per_s: float = 0.0


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
    """What one client did, and what was held against it."""

    queries: int
    requests: int
    rate_limited: int
    queries_limited: int
    rights_refused: int
    published_bytes: int
    publish_delays: int


class Share:
    """One client's part of a node, over all its connections."""

    __slots__ = (
        "_limits",
        "_published",
        "_requests",
        "publish_delays",
        "published_bytes",
        "queries",
        "queries_limited",
        "rate_limited",
        "requests",
        "rights_refused",
    )

    def __init__(self, limits: RateLimits, now_s: float) -> None:
        self._limits = limits
        self._requests = Bucket(limits.requests_per_s, limits.request_burst, limits.request_burst, now_s)
        per_s = limits.publish_bytes_per_s
        self._published = Bucket(per_s, per_s, per_s, now_s)
        self.queries = self.requests = self.rate_limited = self.queries_limited = 0
        self.rights_refused = self.published_bytes = self.publish_delays = 0

    def request(self, now_s: float) -> str | None:
        """Counts a request; the knob that forbids it, or None."""
        self.requests += 1
        if self._limits.requests_per_s and not self._requests.take(now_s):
            self.rate_limited += 1
            return f"client.requests_per_s = {self._limits.requests_per_s:g}"
        return None

    def query(self) -> str | None:
        """The knob that forbids one more query at once, or None; then it counts as running until `query_ended`."""
        if self._limits.queries_max and self.queries >= self._limits.queries_max:
            self.queries_limited += 1
            return f"client.queries_max = {self._limits.queries_max}"
        self.queries += 1
        return None

    def query_ended(self) -> None:
        assert self.queries > 0, "a query ended that never began"
        self.queries -= 1

    def published(self, now_s: float, size_bytes: int) -> float:
        """Bytes were taken from the client; how long to wait before it may send as many more."""
        self.published_bytes += size_bytes
        if not self._limits.publish_bytes_per_s:
            return 0.0
        delay_s = self._published.owe(now_s, size_bytes)
        self.publish_delays += delay_s > 0.0
        return delay_s

    def figures(self) -> ClientFigures:
        return ClientFigures(
            self.queries,
            self.requests,
            self.rate_limited,
            self.queries_limited,
            self.rights_refused,
            self.published_bytes,
            self.publish_delays,
        )


class Shares:
    """All clients of a node."""

    def __init__(self, limits: RateLimits) -> None:
        self._limits = limits
        self._shares: OrderedDict[str, Share] = OrderedDict()

    def of(self, client: str, now_s: float) -> Share:
        share = self._shares.pop(client, None) or Share(self._limits, now_s)
        self._shares[client] = share
        while len(self._shares) > CLIENTS_MAX:
            # A forgotten client that still has sessions keeps its share; only the listing loses it.
            self._shares.popitem(last=False)
        return share

    def figures(self) -> dict[str, ClientFigures]:
        return {client: share.figures() for client, share in sorted(self._shares.items())}
