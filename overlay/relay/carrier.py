"""What a node does for others: finds out whether it reaches a node for them, and passes messages on.

Only members get here: whoever has no session of the ring is not heard by the transport. A node passes
messages on only between two nodes of which one asked and the other answered, only by the straight path, so
that none goes in a circle, and within a bound of bytes. Looking for a node costs one small message for each
that asks, within a bound of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.relay.messages import Relay, RelayAsk, Relayed, RelayFound, RelayNotice, RelayTried, RelayTry
from overlay.relay.statistics import RelayCounters
from runtime.api import Address, Messenger, Runtime
from runtime.rng import Rng

#: Nodes looked for at once, for all and for one that asks; each for so long.
TRIES_MAX = 256
TRIES_EACH_MAX = 32
TRY_S = 5.0
#: Pairs served; the one unused for longest gives way.
PAIRS_MAX = 4_096
#: Bytes on their way through this node. Room for two messages of the largest size.
CARRYING_BYTES_MAX = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Try:
    asker: Address
    token: int
    target: Address
    since: float


class Carrier:
    """`indirect` tells whether this node itself needs another to reach an address; `identify` which node the
    transport has there."""

    __slots__ = (
        "_counters",
        "_identify",
        "_indirect",
        "_messenger",
        "_pairs",
        "_runtime",
        "_token",
        "_tries",
        "carrying_bytes",
    )

    def __init__(
        self,
        runtime: Runtime,
        messenger: Messenger,
        rng: Rng,
        counters: RelayCounters,
        indirect: Callable[[Address], bool],
        identify: Callable[[Address], bytes],
    ) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._counters = counters
        self._indirect = indirect
        self._identify = identify
        #: By our token, oldest first.
        self._tries: dict[int, _Try] = {}
        self._token = rng.getrandbits(48)
        #: Origin and target, in either order; longest unused first.
        self._pairs: dict[tuple[Address, Address], None] = {}
        self.carrying_bytes = 0
        messenger.on(RelayAsk, self._asked)
        messenger.on(RelayTried, self._tried)
        messenger.on(Relay, self._pass_on)

    @property
    def pairs(self) -> int:
        return len(self._pairs)

    def _asked(self, sender: Address, ask: RelayAsk) -> None:
        now = self._runtime.now()
        while self._tries and now - next(iter(self._tries.values())).since >= TRY_S:
            del self._tries[next(iter(self._tries))]
        mine = sum(1 for each in self._tries.values() if each.asker == sender)
        useless = ask.target in (sender, self._runtime.address) or self._indirect(ask.target)
        if useless or len(self._tries) >= TRIES_MAX or mine >= TRIES_EACH_MAX:
            self._counters.refused_tries += 1
            return
        self._token += 1
        self._tries[self._token] = _Try(sender, ask.token, ask.target, now)
        self._messenger.send(ask.target, RelayTry(self._token, sender, self._identify(sender)))

    def _tried(self, sender: Address, tried: RelayTried) -> None:
        attempt = self._tries.get(tried.token)
        if attempt is None or attempt.target != sender:
            self._counters.refused_unknown += 1
            return
        del self._tries[tried.token]
        self._serve(attempt.asker, attempt.target)
        self._messenger.send(attempt.asker, RelayFound(attempt.token))

    def _serve(self, one: Address, other: Address) -> None:
        pair = (min(one, other), max(one, other))
        self._pairs.pop(pair, None)
        while len(self._pairs) >= PAIRS_MAX:
            del self._pairs[next(iter(self._pairs))]
        self._pairs[pair] = None

    def _pass_on(self, sender: Address, relay: Relay) -> None:
        counters = self._counters
        size = len(relay.payload)
        if (min(sender, relay.to), max(sender, relay.to)) not in self._pairs or self._indirect(relay.to):
            counters.refused_unknown += 1
            self._messenger.send(sender, RelayNotice(relay.call, relay.to, False))
            return
        if self.carrying_bytes + size > CARRYING_BYTES_MAX:
            counters.refused_load += 1
            self._messenger.send(sender, RelayNotice(relay.call, relay.to, False))
            return
        self._serve(sender, relay.to)
        self.carrying_bytes += size

        def told(arrived: bool) -> None:
            self.carrying_bytes -= size
            if arrived:
                counters.carried += 1
                counters.carried_bytes += size
            else:
                counters.carried_failed += 1
            if relay.call or not arrived:
                self._messenger.send(sender, RelayNotice(relay.call, relay.to, arrived))

        self._messenger.send(relay.to, Relayed(sender, relay.payload, self._identify(sender)), told)
