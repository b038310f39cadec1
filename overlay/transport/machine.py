"""UdpCC: messages in, sealed datagrams out, and back, over an unreliable network (PIER 3.1.3).

Sans-IO: no socket, no clock, no task. The owner drives it with

    send(now, to, payload, token)         accepts a message
    receive_datagrams(now, batch)         what the socket yielded
    handle_timer(now)                     when `next_timer()` has come
    datagrams_to_send(now)                after any of the above
    next_timer()                          after `datagrams_to_send`
    take_delivered(), take_settled()      messages that arrived; messages acknowledged or failed

Every accepted message is settled exactly once: True when the peer's machine acknowledged it, False when the
peer is dead or the message was refused. Messages are delivered at most once, in no order. A peer silent
for `config.dead_after_s()` while something is under way to it is dead. Nothing that arrives can raise; what
is refused is counted by reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from overlay.transport.backlog import Backlog
from overlay.transport.config import DEFAULT, TransportConfig
from overlay.transport.congestion import CongestionFactory, NewReno
from overlay.transport.greeting import Challenges
from overlay.transport.handshake import Handshake
from overlay.transport.identity import Identity
from overlay.transport.keyring import Keyring
from overlay.transport.ledger import Ledger, Token
from overlay.transport.outbound import Outbound
from overlay.transport.peer import Peer
from overlay.transport.peer_table import PeerTable
from overlay.transport.seal import Keys, Sealer
from overlay.transport.session import Session
from overlay.transport.statistics import Counters, Statistics
from overlay.transport.versions import Others, Versions
from overlay.transport.wire import (
    DATA,
    DATA_HEADER_BYTES,
    DELAY_UNIT_S,
    HAS_ACK,
    HAS_SEGMENT,
    HELLO,
    OPEN,
    PACKET,
    RANGE,
    completed,
    parse_ranges,
)


class UdpCC:
    def __init__(
        self,
        *,
        node_id: bytes,
        epoch: bytes,
        keyring: Keyring | None = None,
        identity: Identity | None = None,
        config: TransportConfig = DEFAULT,
        make_control: CongestionFactory = NewReno,
        versions: Versions | None = None,
    ) -> None:
        """`epoch` is drawn at random at each start. Without `identity` any node id is believed; without
        `keyring` anybody is, so that is for loopback only."""
        assert identity is None or identity.node_id == node_id, "the node id follows from the identity"
        self._config = config
        self._keys = Keys(keyring)
        self._sealer = Sealer(self._keys, node_id, epoch)
        self._ledger = Ledger()
        self._challenges = Challenges(self._keys.challenge_secret(node_id, epoch, node_id + epoch))
        self._peers = PeerTable(config, self._ledger, make_control, self._void_challenges)
        self._by_address = self._peers.by_address
        self._versions = versions or Versions()
        self._handshake = Handshake(
            self._sealer,
            self._keys,
            self._challenges,
            identity,
            self._peers,
            self._ledger,
            self._versions,
        )
        self._delivered: list[tuple[str, list[bytes]]] = []

    def _void_challenges(self) -> None:
        self._challenges.floor = self._sealer.counter - 1

    # -- messages out

    @property
    def backlogs(self) -> Mapping[str, Backlog]:
        """What waits for each peer. A message that fits into the `room` of the segment being gathered may be
        added there directly: the quick way for all messages of a datagram but the first."""
        return self._peers.backlogs

    def send(self, now: float, to: str, payload: bytes, token: Token = None) -> None:
        """Accepts a message, or settles it as failed when it exceeds a bound."""
        peer = self._by_address.get(to) or self._peers.meet(now, to)
        if peer is None:
            return self._refuse("peers_full", token)
        config = self._config
        backlog = peer.outbound.backlog
        size = len(payload)
        if size > config.message_bytes_max:
            return self._refuse("message_too_large", token)
        if backlog.bytes + size > config.backlog_bytes_max:
            return self._refuse("backlog_full", token)
        if self._ledger.backlog_bytes + size > config.backlog_total_bytes_max:
            return self._refuse("backlog_total_full", token)
        backlog.add(payload, token)
        peer.used_at = now
        return self._peers.mark(peer)

    def _refuse(self, reason: str, token: Token) -> None:
        self._ledger.counters.messages_sent += 1
        self._ledger.counters.refuse(reason)
        self._ledger.settle(1, [] if token is None else [token], False)

    def datagrams_to_send(self, now: float, whole: bool = False) -> list[tuple[str, list[bytes]]]:
        """Datagrams by peer. The owner hands all of them to the network. `whole`: only full ones, because
        more messages are coming; to be asked again without."""
        handshake = self._handshake
        out = handshake.replies
        handshake.replies = []
        peers = self._peers
        dirty, peers.dirty = peers.dirty, []
        for peer in dirty:
            peer.dirty = False
            if peer.gone:
                continue
            datagrams = self._datagrams_of(now, peer, whole)
            if datagrams:
                out.append((peer.address, datagrams))
            if whole:
                peers.mark(peer)
            else:
                peers.arm(peer)
        counters = self._ledger.counters
        for _, datagrams in out:
            counters.datagrams_sent += len(datagrams)
        counters.send_calls += len(out)
        return out

    def _datagrams_of(self, now: float, peer: Peer, whole: bool) -> list[bytes]:
        session = peer.session
        if session is None:
            if not peer.hello_first:
                peer.outbound.progress_at = now
                peer.greet = True
            return [self._handshake.hello(now, peer)] if peer.greet else []
        datagrams: list[bytes] = []
        if session.offered and peer.outbound.busy:
            # Sealed first: the peer admits nothing numbered before it.
            datagrams.append(self._handshake.open(peer, session))
        datagrams += peer.packets(now, self._sealer, session, whole)
        if peer.greet:
            datagrams.append(self._handshake.hello(now, peer))
        return datagrams

    # -- datagrams in

    def receive_datagrams(self, now: float, batch: Sequence[tuple[str, bytes]]) -> None:
        counters = self._ledger.counters
        counters.datagrams_received += len(batch)
        by_address = self._by_address
        for address, datagram in batch:
            kind = datagram[0] if datagram else 0
            if kind == DATA:
                peer = by_address.get(address)
                session = peer.session if peer is not None else None
                if peer is None or session is None:
                    counters.drop("no_session")
                elif len(datagram) <= DATA_HEADER_BYTES:
                    counters.drop("truncated")
                else:
                    self._receive_data(now, peer, session, datagram)
            elif kind in (HELLO, OPEN):
                self._handshake.receive(now, address, datagram)
            else:
                counters.drop("unknown_version" if kind & 0xF0 != DATA & 0xF0 else "unknown_kind")

    def _receive_data(self, now: float, peer: Peer, session: Session, datagram: bytes) -> None:
        packet = session.open(self._keys, datagram)
        if isinstance(packet, str):
            return self._ledger.counters.drop(packet)
        if len(packet) < PACKET.size:
            return self._ledger.counters.drop("malformed")
        flags, pn, pn_span, sn, sn_span, ack, delay, run, ranges = PACKET.unpack_from(packet)
        if not session.confirmed:
            session.confirmed = True
            peer.end_greeting()
        peer.used_at = now
        if flags & HAS_ACK:
            outbound = peer.outbound
            # All datagrams of one flush say the same.
            if (ranges or ack != outbound.last_ack) and not self._acknowledged(
                now, outbound, packet, ack, delay * DELAY_UNIT_S, run, ranges
            ):
                return self._ledger.counters.drop("malformed")
        if flags & HAS_SEGMENT:
            start = PACKET.size + ranges * RANGE.size
            messages = peer.inbound.receive(now, pn, pn_span, sn, sn_span, flags, packet, start)
            if messages:
                self._ledger.counters.messages_received += len(messages)
                self._delivered.append((peer.address, messages))
        if not peer.dirty:
            peer.dirty = True
            self._peers.dirty.append(peer)
        return None

    def _acknowledged(
        self, now: float, outbound: Outbound, packet: bytes, ack: int, delay_s: float, run: int, count: int
    ) -> bool:
        newest = completed(ack, outbound.pn_next)
        ranges = parse_ranges(packet, newest, run, count)
        if ranges is None or not outbound.acknowledged(now, ranges, delay_s):
            return False
        outbound.last_ack = ack
        return True

    # -- time

    def next_timer(self) -> float | None:
        return self._peers.next_deadline()

    def handle_timer(self, now: float) -> None:
        for peer in self._peers.due(now):
            self._handle_deadline(now, peer)

    def _handle_deadline(self, now: float, peer: Peer) -> None:
        outbound = peer.outbound
        if 0.0 < outbound.loss_at <= now:
            outbound.handle_losses(now)
        reassembly = peer.inbound.reassembly
        if 0.0 < reassembly.expires_at <= now and not reassembly.expire(now):
            return self._peers.forget(peer)
        if outbound.in_flight or peer.hello_first:
            if outbound.timeout_at() <= now:
                if not outbound.time_out(now):
                    self._ledger.counters.peers_dead += 1
                    return self._peers.forget(peer)
                peer.greet = True
        elif not peer.busy and peer.used_at + self._config.peer_idle_s <= now:
            return self._peers.forget(peer)
        return self._peers.mark(peer)

    def timeout_s(self, to: str) -> float:
        """What the next message to that peer would wait for a sign of life before it is sent again."""
        peer = self._peers.by_address.get(to)
        return self._config.timeout_initial_s if peer is None else peer.outbound.rtt.timeout_s

    # -- events and the rest

    def take_delivered(self) -> list[tuple[str, list[bytes]]]:
        """Messages received since the last call, by the datagram that brought or completed them."""
        delivered, self._delivered = self._delivered, []
        return delivered

    def take_settled(self) -> list[tuple[Sequence[Token], bool]]:
        """Tokens of messages settled since the last call."""
        settled, self._ledger.settled = self._ledger.settled, []
        return settled

    def use_keyring(self, keyring: Keyring) -> None:
        """Goes over to another ring while running; sessions last."""
        self._keys = self._handshake.keys = Keys(keyring)
        self._sealer.use(self._keys)
        for peer in self._peers.by_address.values():
            if peer.session is not None:
                peer.session.rekey(self._sealer)

    @property
    def keys(self) -> Keys:
        return self._keys

    def revoke(self, node_ids: frozenset[bytes]) -> None:
        """These nodes, and only these, are let in no more; sessions with them end now."""
        self._handshake.revoked = node_ids
        for peer in list(self._peers.by_address.values()):
            if peer.session is not None and peer.session.remote_id in node_ids:
                self._peers.forget(peer)

    def is_revoked(self, node_id: bytes) -> bool:
        return node_id in self._handshake.revoked

    def peer_id(self, address: str) -> bytes | None:
        """The node id at an address, once a session with it is up."""
        peer = self._peers.by_address.get(address)
        return peer.session.remote_id if peer is not None and peer.session is not None else None

    def close(self) -> None:
        """Settles everything as failed."""
        for peer in list(self._peers.by_address.values()):
            self._peers.forget(peer)

    @property
    def settled_waiting(self) -> bool:
        """`take_settled` would yield something."""
        return bool(self._ledger.settled)

    @property
    def counters(self) -> Counters:
        """For the owner to add to."""
        return self._ledger.counters

    @property
    def versions(self) -> Versions:
        return self._versions

    @property
    def others(self) -> Others:
        """Peers that speak no version of ours."""
        return self._handshake.others

    def statistics(self) -> Statistics:
        ledger = self._ledger
        others = {address: str(versions) for address, versions in self.others.by_address.items()}
        return ledger.counters.snapshot(
            len(self._peers.by_address), ledger.backlog_bytes, ledger.reassembly_bytes, others
        )
