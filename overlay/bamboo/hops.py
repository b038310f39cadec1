"""One hop: a message in with the peer that is to have it, out over the wire, and back if the peer stays silent.

What was passed on is kept until the peer's transport has acknowledged it. A peer that is silent for its RTT-based
timeout is taken out of use and the message handed back to go another way; the last hop, whose silence would
change the owner, gets the message a second time first. A peer that was heard since is not silent: the message
waits in a queue, and so do we; only a step on the way is passed by in the end, and it stays in use.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.bamboo.core import Core
from overlay.bamboo.messages import HOPS_MAX, Hop
from overlay.bamboo.peer import Peer
from overlay.bamboo.probes import Probes
from overlay.ring import NodeRef
from runtime.api import Address, Notice, Timer

#: Messages waiting for the next hop's acknowledgement; more means that the network, not the ring, is full.
PENDING_MAX = 8_192
#: Unacknowledged messages at which a possible owner is taken out of use.
MISSES_MAX = 2
#: Times a step on the way that lives is waited for before the message goes another way.
QUEUED_MAX = 2


class Pending:
    """One message handed to a next hop. `avoid` are those not to be tried again."""

    __slots__ = ("again", "avoid", "done", "hop", "key", "peer", "previous", "queued", "sent_at", "timer")

    timer: Timer

    def __init__(self, hop: Hop, key: int, peer: Peer, previous: NodeRef, avoid: tuple[Address, ...]) -> None:
        self.hop = hop
        self.key = key
        self.peer = peer
        self.previous = previous
        self.avoid = avoid
        self.again = False
        self.done = False
        #: When it was sent or last waited for, and how often it was found to be in a queue.
        self.sent_at = 0.0
        self.queued = 0


class Hops:
    __slots__ = ("_core", "_count", "_probes", "silent")

    def __init__(self, core: Core, probes: Probes, silent: Callable[[Pending], None]) -> None:
        self._core = core
        self._probes = probes
        self._count = 0
        #: Takes back what could not be handed on.
        self.silent = silent

    def send(
        self, hop: Hop, key: int, peer: Peer, previous: NodeRef, avoid: tuple[Address, ...] = ()
    ) -> None:
        core = self._core
        if hop.hops >= HOPS_MAX:
            core.count("dropped_hops")
        elif self._count >= PENDING_MAX:
            core.count("dropped_pending")
        else:
            self._count += 1
            self._transmit(Pending(hop, key, peer, previous, avoid))

    def _transmit(self, pending: Pending) -> None:
        core = self._core
        hop = pending.hop
        self._wait(pending)
        onward = Hop(
            hop.key,
            hop.origin,
            core.me.id,
            hop.sequence,
            hop.hops + 1,
            hop.receipt,
            hop.payload,
            hop.silent,
            hop.again,
        )
        core.messenger.send(pending.peer.ref.address, onward, self._notice(pending, pending.sent_at))

    def _wait(self, pending: Pending) -> None:
        core = self._core
        pending.sent_at = core.runtime.now()
        wait_s = core.view.timeout_s(pending.peer, core.config.hop_timeout_floor_s)
        pending.timer = core.runtime.call_later(wait_s, self._late, pending)

    def _notice(self, pending: Pending, sent_at: float) -> Notice:
        """Each transmission is acknowledged for itself, so each is a measurement, however late."""
        core = self._core
        peer, again = pending.peer, pending.again

        def acknowledged(ok: bool) -> None:
            if ok:
                now = core.runtime.now()
                peer.heard(now)
                core.view.acknowledged(peer, now - sent_at)
                if peer.suspect:
                    # Late: the message may have gone another way, but the peer lives.
                    core.view.restore(peer)
                if not pending.done:
                    self._close(pending)
            elif not pending.done and again == pending.again:
                # The transport has given up on the last transmission.
                self._pass_by(pending)

        return acknowledged

    def _close(self, pending: Pending) -> None:
        pending.done = True
        pending.timer.cancel()
        self._count -= 1

    def _late(self, pending: Pending) -> None:
        """Whoever is only a step on the way is passed by; the owner is asked once more, unless another message
        met its silence already."""
        core = self._core
        leaves = core.view.leaves
        peer = pending.peer
        owner = leaves.holds(peer) and leaves.spans(pending.key)
        if peer.heard_at > pending.sent_at and core.view.peers.get(peer.ref.address) is peer:
            self._queued(pending, owner)
            return
        peer.misses += 1
        if owner and not pending.again and peer.misses < MISSES_MAX:
            core.count("hops_repeated")
            pending.again = True
            self._transmit(pending)
            self._probes.warn(peer)
            return
        self._pass_by(pending)

    def _queued(self, pending: Pending, owner: bool) -> None:
        """The peer lives, and has the message or will have it."""
        core = self._core
        pending.queued += 1
        core.count("hops_queued")
        if owner or pending.queued <= QUEUED_MAX:
            self._wait(pending)
        else:
            self._close(pending)
            core.count("hops_rerouted")
            self.silent(pending)

    def _pass_by(self, pending: Pending) -> None:
        core = self._core
        peer = pending.peer
        self._close(pending)
        core.count("hops_rerouted")
        if core.view.peers.get(peer.ref.address) is peer:
            self._probes.suspect(peer)
        self.silent(pending)
