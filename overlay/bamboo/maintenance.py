"""Periodic maintenance: what keeps leaf set and table right whatever was missed.

Nothing comes in but time; pings, leaf-set exchanges and partition checks go out, and `tuning` gets its turns.
Repair is periodic, not a reaction to each failure, so that a congested network is not asked for more.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.bamboo.core import Core, State
from overlay.bamboo.exchange import Exchange
from overlay.bamboo.join import Joiner
from overlay.bamboo.ownership import Ownership
from overlay.bamboo.peer import Peer
from overlay.bamboo.probes import Probes
from overlay.bamboo.tuning import Tuning
from runtime.api import Address

#: Pings of one round; a longer table takes several rounds.
PING_BATCH_MAX = 32
#: Rounds of pinging in one ping period: the pings spread, the timers stay few.
PING_ROUNDS = 4
#: One partition check in so many may go to a gateway: all nodes may have the same one. In a ring of few, where that is
#: nothing and churn soon leaves nobody who remembers the other side, each may.
GATEWAY_EVERY = 8
FEW_PEERS = 32


class Maintenance:
    __slots__ = (
        "_core",
        "_exchange",
        "_exchanged",
        "_joiner",
        "_ownership",
        "_probes",
        "_running",
        "_tuning",
    )

    def __init__(
        self,
        core: Core,
        probes: Probes,
        ownership: Ownership,
        exchange: Exchange,
        joiner: Joiner,
        tuning: Tuning,
    ) -> None:
        self._core = core
        self._probes = probes
        self._ownership = ownership
        self._exchange = exchange
        self._joiner = joiner
        self._tuning = tuning
        self._running = False
        #: The leaves as they were at the last exchange.
        self._exchanged: list[Peer] = []

    def start(self) -> None:
        """Begins each concern at a random point of its first period; they end when the node has left."""
        core = self._core
        if not core.config.maintenance or self._running:
            return
        self._running = True
        config = core.config
        for first_s, task in (
            (core.churn.neighbour_period_s(), self._neighbours),
            (config.leaf_period_floor_s, self._leaves),
            (core.churn.ping_period_s() / PING_ROUNDS, self._pings),
            (config.near_period_floor_s, self._tuning.near),
            (2 * config.near_period_floor_s, self._tuning.far),
            (config.partition_period_s, self._partition),
        ):
            core.runtime.call_later(core.jittered(first_s), self._run, task)

    def _run(self, task: Callable[[], float]) -> None:
        core = self._core
        if not core.present:
            self._running = False
            return
        core.runtime.call_later(core.jittered(task()), self._run, task)

    def _neighbours(self) -> float:
        """Pings the two immediate neighbours if they were silent: theirs are the arcs that would pass to us."""
        core = self._core
        now = core.runtime.now()
        core.churn.watch(len(core.view.peers), now)
        period_s = core.churn.neighbour_period_s()
        for peer in (core.view.leaves.successor, core.view.leaves.predecessor):
            if peer is not None and now - peer.heard_at >= period_s / 2:
                self._probes.check(peer)
        self._ownership.review()
        return period_s

    def _leaves(self) -> float:
        """Compares leaf sets with a random leaf; soon again while the own one changes: where somebody came or went, two
        who came at once may have missed each other."""
        view = self._core.view
        if view.peers and not view.leaves.full and not view.leaves.covers_all:
            # There are more nodes than we have leaves: who are our neighbours?
            self._joiner.ask(self._core.rng.choice(list(view.peers)))
        self._exchange.with_random_leaf()
        changed, self._exchanged = view.leaves.members is not self._exchanged, view.leaves.members
        period_s = self._core.churn.leaf_period_s()
        return min(period_s, self._core.config.leaf_period_floor_s) if changed else period_s

    def _pings(self) -> float:
        """Pings whoever was silent for a ping period, the longest silent first."""
        core = self._core
        period_s = core.churn.ping_period_s()
        before = core.runtime.now() - period_s
        silent = [peer for peer in core.view.peers.values() if peer.heard_at <= before]
        if len(silent) > PING_BATCH_MAX:
            silent = sorted(silent, key=_heard_at)[:PING_BATCH_MAX]
        for peer in silent:
            self._probes.check(peer)
        return period_s / PING_ROUNDS

    def _partition(self) -> float:
        """Asks a node believed down, or now and then a gateway, who our neighbours are."""
        core = self._core
        alone = not core.view.peers
        if core.state is State.MEMBER:
            asked: list[Address] = [ref.address for ref in core.view.down]
            if len(core.view.peers) <= FEW_PEERS or core.rng.randrange(GATEWAY_EVERY) == 0:
                asked += self._joiner.gateways
            if asked:
                self._joiner.ask(core.rng.choice(asked))
        return core.config.alone_period_s if alone else core.config.partition_period_s


def _heard_at(peer: Peer) -> float:
    return peer.heard_at
