"""Recursive routing: messages in from above or from the previous hop, out to the next hop or up at the owner.

At each hop the message is shown to the upcalls, once. A message for this node that it may not deliver yet (see
`ownership`) is held. What a silent hop did not take goes another way and says whom it found silent, so that
the next does not wait for the same node as long again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from overlay.bamboo.core import Core, State
from overlay.bamboo.hops import MISSES_MAX, Hops, Pending
from overlay.bamboo.messages import HOPS_MAX, SILENT_MAX, Find, Found, Hop, Join
from overlay.bamboo.ownership import Ownership
from overlay.bamboo.payloads import Payloads
from overlay.bamboo.peer import Peer
from overlay.bamboo.probes import DOUBT_S, Probes
from overlay.ring import NodeRef, WireArc, from_wire, to_wire
from overlay.router import Passage
from runtime.api import Address

#: Messages waiting until this node may deliver: a join lasts a few round trips.
HELD_MAX = 1_024
#: Next hops tried for one message at one node before it is given up here.
TRIES_MAX = 8


class Forwarder:
    __slots__ = ("_core", "_held", "_hops", "_ownership", "_payloads", "_probes", "on_join")

    def __init__(self, core: Core, probes: Probes, ownership: Ownership, payloads: Payloads) -> None:
        self._core = core
        self._probes = probes
        self._ownership = ownership
        self._payloads = payloads
        self._hops = Hops(core, probes, self._reroute)
        #: With the previous hop, and whether the upcalls have seen it.
        self._held: list[tuple[Hop, NodeRef, bool]] = []
        #: Answers a join that has reached the node closest to the joiner; set by `join`.
        self.on_join: Callable[[Join], None]
        ownership.settled.append(self._flush)
        core.messenger.on(Hop, self._on_hop)

    def submit(self, key: int, payload: Any, sequence: int, receipt: bool, again: bool = False) -> None:
        """A message of this node's own begins its way, perhaps not for the first time."""
        me = self._core.me
        self._process(Hop(to_wire(key), me, me.id, sequence, 0, receipt, payload, again=again), key, me)

    def _on_hop(self, sender: Address, hop: Hop) -> None:
        core = self._core
        peer = core.view.peers.get(sender)
        if peer is not None and peer.ref.id == hop.via:
            peer.heard(core.runtime.now())
            if peer.suspect:
                core.view.restore(peer)
            previous = peer.ref
        else:
            previous = NodeRef(hop.via, sender)
        if hop.silent:
            self._doubt(hop.silent)
        self._process(hop, from_wire(hop.key), previous)

    def _process(self, hop: Hop, key: int, previous: NodeRef, seen: bool = False) -> None:
        core = self._core
        if core.state is State.IDLE:
            core.count("dropped_idle")
            return
        payload = self._payloads.open(hop.payload)
        if payload is None:
            core.count("dropped_malformed")
            return
        if isinstance(payload, Join):
            self._process_join(hop, key, payload)
            return
        peer = core.view.next_hop(key) if core.state is not State.LEFT else core.view.heir(key)
        if peer is None and not self._ownership.ready(key):
            self._hold(hop, previous, seen)
        elif not isinstance(payload, Find):
            self._pass_on(hop, key, peer, previous, payload, seen)
        elif peer is None:
            self._found(hop, payload)
        else:
            self._hops.send(hop, key, peer, previous)

    def _pass_on(
        self, hop: Hop, key: int, peer: Peer | None, previous: NodeRef, payload: Any, seen: bool
    ) -> None:
        """A message of the layers above: to its upcalls, and then up or on."""
        if self._payloads.ended(hop):
            return
        passage = Passage(key, hop.origin, previous, hop.hops, peer is None, hop.hops == 0)
        if not seen:
            payload = self._payloads.upcall(payload, passage, hop)
            if payload is None:
                return
        if peer is None:
            self._payloads.deliver(payload, passage, hop)
            return
        if payload is not hop.payload:
            hop = msgspec.structs.replace(hop, payload=payload)
        self._hops.send(hop, key, peer, previous)

    def _process_join(self, hop: Hop, key: int, join: Join) -> None:
        """The joiner itself, should the ring still hold an earlier life of it, is no hop of its own join."""
        core = self._core
        if core.state is not State.MEMBER or len(join.path) >= HOPS_MAX:
            core.count("dropped_join")
            return
        join = Join(join.joiner, (*join.path, core.me))
        avoid = (join.joiner.address,)
        peer = core.view.next_hop(key, avoid if join.joiner.address in core.view.peers else ())
        if peer is None:
            self.on_join(join)
        else:
            self._hops.send(msgspec.structs.replace(hop, payload=join), key, peer, core.me, avoid)

    def _found(self, hop: Hop, find: Find) -> None:
        core = self._core
        arc = core.view.arc()
        found = Found(find.token, core.me.id, WireArc(to_wire(arc.start), to_wire(arc.end)))
        if hop.again:
            core.send_again(hop.origin.address, found)
        else:
            core.send(hop.origin.address, found)

    def _reroute(self, pending: Pending) -> None:
        """The next hop was silent: another one, or this node itself if nobody closer is left."""
        core = self._core
        avoid = (*pending.avoid, pending.peer.ref.address)
        if len(avoid) > TRIES_MAX:
            core.count("dropped_tries")
            return
        silent = (*pending.hop.silent, pending.peer.ref.id)[-SILENT_MAX:]
        hop = msgspec.structs.replace(pending.hop, silent=silent)
        peer = core.view.next_hop(pending.key, avoid)
        if peer is not None:
            self._hops.send(hop, pending.key, peer, pending.previous, avoid)
        else:
            self._process(hop, pending.key, pending.previous, seen=True)

    def _doubt(self, silent: tuple[bytes, ...]) -> None:
        """An earlier hop could not reach these. Whoever left a message or ping of ours unanswered too is out of
        use; for the others, unless heard just now, one more silence is enough, and we ask."""
        core = self._core
        before = core.runtime.now() - DOUBT_S
        for peer in [peer for peer in core.view.peers.values() if peer.ref.id in silent and not peer.suspect]:
            if peer.misses > 0:
                self._probes.suspect(peer)
            elif peer.heard_at < before:
                peer.misses = MISSES_MAX - 1
                self._probes.check(peer)

    def _hold(self, hop: Hop, previous: NodeRef, seen: bool) -> None:
        if len(self._held) >= HELD_MAX or not self._core.present:
            self._core.count("dropped_held")
            return
        self._core.count("held")
        self._held.append((hop, previous, seen))

    def _flush(self) -> None:
        if self._held and self._core.state is State.MEMBER:
            held, self._held = self._held, []
            for hop, previous, seen in held:
                self._process(hop, from_wire(hop.key), previous, seen)
