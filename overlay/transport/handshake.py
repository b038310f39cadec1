"""Sessions begun: greetings from peers in, greetings to peers and sessions out (see `greeting`).

Nothing here keeps anything for a sender who has not shown, by a seal of the ring, that it belongs to the
cluster, and, by the echo of a challenge, that it is there now. With an identity, the peer must also prove
that its node id is its own.
"""

from __future__ import annotations

from overlay.transport.greeting import (
    BODY_BYTES,
    Challenges,
    Hello,
    Open,
    parse_hello,
    parse_open,
    transcript,
)
from overlay.transport.identity import Identity, verify_proof
from overlay.transport.ledger import Ledger
from overlay.transport.peer import Peer
from overlay.transport.peer_table import PeerTable
from overlay.transport.seal import Keys, Opener, Sealer
from overlay.transport.session import Session
from overlay.transport.versions import Others, Versions
from overlay.transport.wire import HELLO, LONG_HEADER_BYTES, LONG_PREFIX_BYTES, OPEN


class Handshake:
    __slots__ = (
        "_challenges",
        "_identity",
        "_ledger",
        "_peers",
        "_sealer",
        "_versions",
        "keys",
        "others",
        "replies",
        "revoked",
    )

    def __init__(
        self,
        sealer: Sealer,
        keys: Keys,
        challenges: Challenges,
        identity: Identity | None,
        peers: PeerTable,
        ledger: Ledger,
        versions: Versions,
    ) -> None:
        self._sealer = sealer
        self.keys = keys
        self._challenges = challenges
        self._identity = identity
        self._peers = peers
        self._ledger = ledger
        self._versions = versions
        #: Peers that speak no version of ours.
        self.others = Others()
        #: Node ids that are refused, whatever they prove.
        self.revoked: frozenset[bytes] = frozenset()
        #: Answers to greetings, at most one for each datagram received.
        self.replies: list[tuple[str, list[bytes]]] = []

    # -- out

    def _seal(self, kind: int, body: bytes) -> bytes:
        sealer = self._sealer
        return sealer.seal(bytes([kind]) + sealer.key_id + sealer.node_id + sealer.epoch, body, b"")

    def _proof(self, remote_epoch: bytes) -> bytes:
        if self._identity is None:
            return b""
        return self._identity.prove(transcript(self._sealer.epoch, remote_epoch, self._sealer.counter))

    def hello(self, now: float, peer: Peer) -> bytes:
        """A greeting to a peer without a session, or that has not answered in one."""
        peer.hello_last = self._sealer.counter
        peer.hello_first = peer.hello_first or peer.hello_last
        peer.greeted_at = now
        peer.greet = False
        return self._seal(HELLO, self._request(peer).to_bytes())

    def _request(self, peer: Peer) -> Hello:
        return Hello(peer.session.flow if peer.session else 0, versions=self._versions)

    def open(self, peer: Peer, session: Session) -> bytes:
        """What an initiator sends in front of its data until the peer confirms the session."""
        assert session.challenge is not None
        # An OPEN whose challenge has become void is answered like a HELLO.
        peer.hello_last = self._sealer.counter
        peer.hello_first = peer.hello_first or peer.hello_last
        proof = self._proof(session.remote_epoch)
        greeting = Open(session.remote_epoch, session.flow, *session.challenge, proof, self._versions)
        return self._seal(OPEN, greeting.to_bytes())

    def _reply(self, address: str, node_id: bytes, epoch: bytes, echo: int, known: bool, room: int) -> None:
        """`room` is the length of the greeting that this answers, its seal left out. Whoever sent it has shown no more
        than that somebody once made it, so no answer is longer."""
        if room < BODY_BYTES:
            return self._ledger.counters.drop("short_greeting")
        counter = self._sealer.counter
        mac = self._challenges.mac(address, node_id, epoch, counter)
        hello = Hello(0, echo, epoch, known, mac, self._proof(epoch), self._versions)
        self.replies.append((address, [self._seal(HELLO, hello.to_bytes())]))
        return None

    # -- in

    def receive(self, now: float, address: str, datagram: bytes) -> None:
        """A HELLO or an OPEN."""
        drop = self._ledger.counters.drop
        if len(datagram) <= LONG_HEADER_BYTES:
            return drop("truncated")
        key_id, node_id, epoch = datagram[1:5], datagram[5:25], datagram[25:LONG_PREFIX_BYTES]
        number = datagram[LONG_PREFIX_BYTES:LONG_HEADER_BYTES]
        counter = int.from_bytes(number, "big")
        opener = Opener.of(self.keys, key_id, node_id, epoch, counter)
        if opener is None:
            return drop("wrong_key")
        body = opener.open(number, counter, datagram[LONG_HEADER_BYTES:], datagram[:LONG_HEADER_BYTES])
        if body is None:
            return drop("bad_seal")
        if epoch == self._sealer.epoch:
            return drop("reflected")
        if node_id in self.revoked:
            return drop("revoked_id")
        if datagram[0] == HELLO:
            hello = parse_hello(body)
            if hello is None:
                return drop("malformed")
            if not hello.echo:
                return self._requested(address, node_id, epoch, counter, hello, len(body))
            return self._replied(now, address, node_id, epoch, counter, hello)
        greeting = parse_open(body)
        if greeting is None:
            return drop("malformed")
        return self._opened(now, address, node_id, epoch, counter, greeting, len(body))

    def _spoken(self, address: str, versions: Versions) -> bool:
        """Whether there is a version that both speak; if not, that is noted."""
        if self._versions.common(versions) is not None:
            return True
        self._ledger.counters.drop("other_version")
        self.others.met(address, versions)
        return False

    def _proven(self, proof: bytes, node_id: bytes, epoch: bytes, counter: int) -> bool:
        if self._identity is None:
            return True
        text = transcript(epoch, self._sealer.epoch, counter)
        return verify_proof(proof, text, self._identity.authority_public) == node_id

    def _requested(
        self, address: str, node_id: bytes, epoch: bytes, counter: int, hello: Hello, room: int
    ) -> None:
        # One that speaks no version of ours is answered too: so it learns why there is no session.
        self._spoken(address, hello.versions)
        peer = self._peers.by_address.get(address)
        session = peer.session if peer is not None else None
        known = session is not None and session.remote_epoch == epoch and session.flow == hello.flow
        self._reply(address, node_id, epoch, counter, known, room)

    def _replied(
        self, now: float, address: str, node_id: bytes, epoch: bytes, counter: int, hello: Hello
    ) -> None:
        drop = self._ledger.counters.drop
        peer = self._peers.by_address.get(address)
        if peer is None or not peer.hello_first or not peer.hello_first <= hello.echo <= peer.hello_last:
            return drop("stale_greeting")
        if hello.to_epoch != self._sealer.epoch:
            return drop("other_life")
        if not self._proven(hello.proof, node_id, epoch, counter):
            return drop("forged_id")
        if not self._spoken(address, hello.versions):
            return self._peers.forget(peer)
        peer.outbound.timeouts = 0
        self._peers.mark(peer)
        session = peer.session
        if session is not None and session.remote_epoch == epoch:
            if hello.known:
                return peer.end_greeting() if session.confirmed else None
            if session.offered:
                # Our OPEN has not arrived, or came too late for its challenge.
                session.challenge = (counter, hello.mac)
                return peer.outbound.recall()
        elif session is None and hello.echo == peer.hello_last:
            peer.outbound.rtt.sample(now, now - peer.greeted_at)
        restarted = session is not None and session.remote_epoch != epoch
        session = Session(self._sealer, hello.echo, node_id, epoch, counter)
        session.challenge = (counter, hello.mac)
        self.others.agreed(address)
        return peer.begin(session, restarted)

    def _opened(
        self, now: float, address: str, node_id: bytes, epoch: bytes, counter: int, greeting: Open, room: int
    ) -> None:
        drop = self._ledger.counters.drop
        if greeting.to_epoch != self._sealer.epoch:
            return drop("other_life")
        if not self._challenges.made(address, node_id, epoch, greeting):
            return drop("forged_challenge")
        peer = self._peers.by_address.get(address)
        session = peer.session if peer is not None else None
        if session is not None and session.remote_epoch == epoch and session.flow == greeting.flow:
            return drop("repeated_open")
        crossed = session is not None and session.offered and session.remote_epoch == epoch
        if crossed:
            # Both greeted at once: the smaller yields, so that both keep the same session. Two lives of one id
            # differ by their epochs.
            if (self._sealer.node_id, self._sealer.epoch) > (node_id, epoch):
                return drop("crossed_open")
        elif session is not None:
            if greeting.challenge < session.born:
                return drop("stale_challenge")
        elif greeting.challenge <= self._challenges.floor:
            drop("stale_challenge")
            return self._reply(address, node_id, epoch, counter, False, room)
        if not self._proven(greeting.proof, node_id, epoch, counter):
            return drop("forged_id")
        if not self._spoken(address, greeting.versions):
            return None
        peer = peer or self._peers.meet(now, address)
        if peer is None:
            return drop("peers_full")
        restarted = crossed or (session is not None and session.remote_epoch != epoch)
        peer.begin(Session(self._sealer, greeting.flow, node_id, epoch, counter), restarted)
        peer.used_at = now
        self.others.agreed(address)
        self._peers.mark(peer)
        return None
