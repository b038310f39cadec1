"""Failure detection: who is asked whether it lives, and what follows from the answer or the silence.

Suspicions come in from routing, from maintenance and from others' warnings; candidates from `candidates`.
Each gets pings, with an RTT-based wait that doubles; an answer admits or restores the node, silence takes it
out of use and then buries it. One timer serves all probes of a node: it is set for the earliest deadline only,
and answers do not touch it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from overlay.bamboo.core import Core, State
from overlay.bamboo.messages import Down, LeafAsk, Leaving, Ping, Pong
from overlay.bamboo.peer import Peer
from overlay.bamboo.view import JITTER_FLOOR
from overlay.ring import NodeRef, from_wire
from runtime.api import Address, Timer

#: Probes under way at once. A joining node has some 60; more is somebody feeding us names.
PROBES_MAX = 256
#: Silent candidates whose late answers are still accepted.
GIVEN_UP_MAX = 16
#: Tokens of one probe's attempts follow each other; another probe's are this far away.
TOKEN_STEP = 16
#: A timer that comes this late means that this process was stalled, not its peers: they get their time again.
STALL_S = 0.25
#: How a node is asked, the greater including the less: whether it lives; the same with the word that it is a leaf of
#: ours; for its leaf set.
PING, MEET, EXCHANGE = range(3)
#: Another's word against a node that spoke to us this recently is not heeded.
DOUBT_S = 0.5


class Probe(msgspec.Struct, eq=False):
    """One node being asked, by a ping or a leaf-set exchange."""

    ref: NodeRef
    id: int
    kind: int
    #: Of the first and the last attempt.
    first_token: int = 0
    token: int = 0
    first_sent_at: float = 0.0
    sent_at: float = 0.0
    deadline: float = 0.0
    attempts: int = 0

    def sent_as(self, token: int) -> float | None:
        """When the attempt with this token was sent, or before; None if it was none of this probe's."""
        if token == self.token:
            return self.sent_at
        return self.first_sent_at if self.first_token <= token < self.token else None


class Probes:
    __slots__ = (
        "_core",
        "_given_up",
        "_timer",
        "_timer_at",
        "_token",
        "approached",
        "asked",
        "leaf_ask",
        "settle",
        "under_way",
        "welcome",
    )

    def __init__(self, core: Core) -> None:
        self._core = core
        self.under_way: dict[Address, Probe] = {}
        #: Those of them that will stand among the leaves if they answer.
        self.asked: dict[Address, Probe] = {}
        #: Silent candidates, oldest first.
        self._given_up: dict[Address, Probe] = {}
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._token = core.rng.getrandbits(30)
        #: Makes the message of a leaf-set exchange; set by `exchange`.
        self.leaf_ask: Callable[[int], LeafAsk]
        #: Called after each probe that ended, whichever way; set by `ownership`.
        self.settle: Callable[[], None]
        #: Called with an unknown node that spoke to us, as somebody or as a leaf; set by `candidates`.
        self.approached: Callable[[NodeRef], None]
        self.welcome: Callable[[NodeRef, float], None]
        core.messenger.on(Ping, self._on_ping)
        core.messenger.on(Pong, self._on_pong)
        core.messenger.on(Down, self._on_down)

    def begin(self, ref: NodeRef, kind: int) -> None:
        """Starts asking a node, unless that is under way."""
        running = self.under_way.get(ref.address)
        if running is not None and running.kind >= kind and running.ref.id == ref.id:
            return
        if running is None and len(self.under_way) >= PROBES_MAX:
            self._core.count("probes_refused")
            return
        self._send(Probe(ref, from_wire(ref.id), kind))

    def check(self, peer: Peer) -> None:
        self.begin(peer.ref, PING)

    def announce(self) -> None:
        """Tells the leaves that this node takes its place, and repeats to whoever was only asked so far."""
        for probe in list(self.asked.values()):
            probe.attempts = 0
            self._send(probe)
        for peer in self._core.view.leaves.members:
            self.begin(peer.ref, EXCHANGE)

    def suspect(self, peer: Peer) -> None:
        """A peer left a message or two pings unanswered: out of use, its neighbours warned, a probe decides."""
        core = self._core
        if not peer.suspect:
            self._tell_unanswered(peer.ref)
            adjacent = peer is core.view.leaves.successor or peer is core.view.leaves.predecessor
            core.suspect(peer)
            if adjacent:
                self.warn(peer)
        self.check(peer)

    def answered(self, sender: Address, wire_id: bytes, token: int, synced: bool = False) -> Peer | None:
        """Something came straight from a node, with the token of our probe if it answers one (else -1), and with
        its leaf set if `synced`. Returns the peer, if it is one now."""
        core = self._core
        view = core.view
        now = core.runtime.now()
        peer = view.peers.get(sender)
        if peer is not None and peer.ref.id != wire_id:
            # Another node lives at this address now.
            self.gone(peer)
            peer = None
        probe = self.under_way.get(sender)
        if probe is None and self._given_up:
            probe = self._given_up.get(sender)
        sent_at = probe.sent_as(token) if probe is not None and probe.ref.id == wire_id else None
        if peer is not None:
            peer.heard(now)
            if sent_at is not None and (synced or sent_at < peer.agreed_at + core.config.lease_s):
                # A pong keeps an agreement that had not ended when the ping left: the other heard us in time.
                peer.agreed_at = max(peer.agreed_at, sent_at)
            if synced and (sent_at is not None or token < 0):
                peer.synced_at = now
                peer.met = True
            if peer.suspect:
                view.restore(peer)
        if probe is None or sent_at is None:
            return peer
        self._end(sender)
        if self._given_up:
            self._given_up.pop(sender, None)
        near = synced or probe.kind == MEET
        rtt_s = now - sent_at
        if peer is None:
            told = core.state is not State.MEMBER
            peer = Peer(id=probe.id, ref=probe.ref, heard_at=now, met=near, told=told)
            if synced:
                peer.synced_at, peer.agreed_at = now, sent_at
            peer.sample(rtt_s, max(view.jitter, JITTER_FLOOR))
            view.distance.sample(rtt_s)
            if not view.admit(peer, near):
                peer = None
        else:
            view.measured(peer, rtt_s)
            if near:
                peer.met = True
                view.place_near(peer)
        return peer

    def gone(self, peer: Peer, remember: bool = False) -> None:
        """A peer has said goodbye or was replaced: out at once."""
        self._end(peer.ref.address)
        self._core.view.bury(peer, self._core.runtime.now(), remember)

    def _end(self, address: Address) -> None:
        self.under_way.pop(address, None)
        if self.asked:
            self.asked.pop(address, None)

    def _send(self, probe: Probe) -> None:
        core = self._core
        now = core.runtime.now()
        # Far apart, so that no token of one probe lies between two of another.
        probe.token = probe.token + 1 if probe.attempts else self._next_token()
        probe.sent_at = now
        if not probe.attempts:
            probe.first_token, probe.first_sent_at = probe.token, now
        peer = core.view.peers.get(probe.ref.address)
        wait_s = core.view.timeout_s(peer, core.config.probe_timeout_floor_s)
        probe.deadline = now + wait_s * (1 << probe.attempts)
        probe.attempts += 1
        if peer is not None and peer.suspect and probe.attempts >= core.config.probe_attempts_max:
            # The last one decides.
            probe.deadline = max(probe.deadline, probe.first_sent_at + core.config.death_floor_s)
        address = probe.ref.address
        self.under_way[address] = probe
        message: LeafAsk | Ping
        if probe.kind:
            self.asked[address] = probe
        if probe.kind == EXCHANGE:
            message = self.leaf_ask(probe.token)
        else:
            message = Ping(core.me.id, probe.token, core.state is not State.SCOUTING, probe.kind == MEET)
        core.messenger.send(address, message)
        if self._timer is None or self._timer_at > probe.deadline:
            self._arm(probe.deadline)

    def _next_token(self) -> int:
        self._token += TOKEN_STEP
        return self._token

    def _arm(self, deadline: float) -> None:
        core = self._core
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = core.runtime.call_later(deadline - core.runtime.now(), self._sweep, None)

    def _sweep(self, _: None) -> None:
        """Deals with every probe whose time is up, then waits for the next."""
        now = self._core.runtime.now()
        stalled = now > self._timer_at + STALL_S
        self._timer = None
        silent = [probe for probe in self.under_way.values() if probe.deadline <= now]
        for probe in silent:
            if self.under_way.get(probe.ref.address) is not probe:
                continue
            if stalled:
                probe.attempts -= 1
                self._send(probe)
            else:
                self._unanswered(probe)
        if self._timer is None and self.under_way:
            self._arm(min(probe.deadline for probe in self.under_way.values()))
        if silent:
            self.settle()

    def _unanswered(self, probe: Probe) -> None:
        core = self._core
        config = core.config
        peer = core.view.known(probe.ref)
        if peer is None or peer.heard_at <= probe.sent_at:
            self._tell_unanswered(probe.ref)
        if peer is None:
            # A candidate: one more try, since the wait for it was a guess.
            if probe.attempts < config.probe_attempts_suspect:
                self._send(probe)
            else:
                self._give_up(probe)
            return
        if peer.heard_at > probe.sent_at:
            self._lives(probe)
            return
        peer.misses += 1
        if probe.attempts >= config.probe_attempts_suspect:
            self.suspect(peer)
        # A leaf gets one more ping, and a long wait for it, than a node of the table, which costs little if it is lost.
        near = core.view.stands_near(peer)
        if probe.attempts < (config.probe_attempts_max if near else config.probe_attempts_suspect):
            self._send(probe)
        else:
            self._bury(peer, near)

    def _tell_unanswered(self, ref: NodeRef) -> None:
        for handler in self._core.unanswered:
            handler(ref)

    def way_found(self, address: Address) -> None:
        """A node that was silent may be heard by another way now, and is asked at once. That way is longer: round trips
        measured so far say little."""
        peer = self._core.view.peers.get(address)
        if peer is not None:
            peer.deviation_s += max(peer.rtt_s, 0.0)
        probe = self.under_way.get(address) or self._given_up.pop(address, None)
        if probe is not None:
            probe.attempts = 0
            self._send(probe)
        elif peer is not None:
            self.check(peer)

    def _lives(self, probe: Probe) -> None:
        """The peer spoke while its answer was awaited: it is late, not silent. A leaf's answer is still wanted."""
        if probe.kind:
            probe.attempts -= 1
            self._send(probe)
        else:
            self._end(probe.ref.address)

    def _give_up(self, probe: Probe) -> None:
        """A candidate is silent. It may be further away than we thought, so a late answer still counts."""
        core = self._core
        self._end(probe.ref.address)
        core.count("candidates_silent")
        core.view.ignore(probe.ref, core.runtime.now())
        if len(self._given_up) >= GIVEN_UP_MAX:
            del self._given_up[next(iter(self._given_up))]
        self._given_up[probe.ref.address] = probe

    def _bury(self, peer: Peer, near: bool) -> None:
        core = self._core
        self._end(peer.ref.address)
        core.count("buried")
        core.churn.died()
        core.view.bury(peer, core.runtime.now())
        if near:
            for handler in list(core.died):
                handler(peer.ref)

    def _on_ping(self, sender: Address, ping: Ping) -> None:
        core = self._core
        if not core.present:
            if core.state is State.LEFT:
                # Whoever still has us in its table was not told.
                core.messenger.send(sender, Leaving(core.me.id, ()))
            return
        core.named(ping.id, sender)
        core.messenger.send(sender, Pong(core.me.id, ping.token))
        peer = core.view.peers.get(sender)
        if peer is not None and peer.ref.id == ping.id:
            peer.heard(core.runtime.now())
            if peer.suspect:
                core.view.restore(peer)
            if ping.leaf:
                peer.met = True
                core.view.place_near(peer)
            return
        if peer is not None:
            # Another node lives at this address now.
            self.gone(peer)
        if ping.leaf:
            self.welcome(NodeRef(ping.id, sender), -1.0)
        elif ping.placed:
            self.approached(NodeRef(ping.id, sender))

    def _on_pong(self, sender: Address, pong: Pong) -> None:
        self.answered(sender, pong.id, pong.token)

    def _on_down(self, sender: Address, down: Down) -> None:
        peer = self._core.view.known(down.node)
        if peer is not None and not peer.suspect and peer.heard_at < self._core.runtime.now() - DOUBT_S:
            self.check(peer)

    def warn(self, silent: Peer) -> None:
        """Tells the leaves that a neighbour of theirs fell silent, once for each silence."""
        core = self._core
        if not silent.warned:
            silent.warned = True
            for leaf in core.view.leaves.members:
                if leaf is not silent:
                    core.messenger.send(leaf.ref.address, Down(silent.ref))
