"""Greetings: how two nodes come to share a session, in one round trip and without trusting anything old.

    initiator                                   responder (keeps nothing yet)
      HELLO   flow, echo 0               --->
                                         <---   HELLO   echo of the counter, challenge
      OPEN    flow, challenge; DATA ...  --->   session
                                         <---   DATA ...

The initiator knows the answer is fresh because it echoes the counter of a greeting still open; the responder
knows the OPEN is fresh because its challenge is newer than the last session it forgot, and was made for
this address, node id and epoch. Both ends then hold each other's epoch, which every DATA is bound to without
carrying it. `flow` is the initiator's number for the session; a HELLO sent into an existing session
carries its flow, and the answer says whether the responder still has it.

Each greeting says which versions its sender speaks. All have the same length, filled up where there is no proof of
identity: so the answer to a greeting that somebody recorded and sends from elsewhere is no longer than the greeting.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from struct import Struct

from overlay.transport.identity import PROOF_BYTES
from overlay.transport.versions import BEFORE, VERSIONS, Versions, parse_versions

_HELLO = Struct(">QQ8s?8s")
_OPEN = Struct(">8sQQ8s")
MAC_BYTES = 8
NO_EPOCH = bytes(8)
NO_MAC = bytes(MAC_BYTES)
#: Then the versions, then the proof of identity or zeros. Anything behind it is for later versions.
BODY_BYTES = max(_HELLO.size, _OPEN.size) + VERSIONS.size + PROOF_BYTES
NO_PROOF = bytes(PROOF_BYTES)
#: Greetings of before versions were told: bare, or with a proof.
_BEFORE = (0, PROOF_BYTES)


@dataclass(frozen=True, slots=True)
class Hello:
    flow: int
    #: Counter of the greeting this answers; 0 in a request.
    echo: int = 0
    #: Epoch of whom this answers.
    to_epoch: bytes = NO_EPOCH
    #: The responder has the session that the request named.
    known: bool = False
    mac: bytes = NO_MAC
    proof: bytes = b""
    versions: Versions = BEFORE

    def to_bytes(self) -> bytes:
        head = _HELLO.pack(self.flow, self.echo, self.to_epoch, self.known, self.mac)
        return (head + self.versions.to_bytes() + self.proof).ljust(BODY_BYTES, b"\0")


@dataclass(frozen=True, slots=True)
class Open:
    to_epoch: bytes
    flow: int
    #: Counter of the HELLO that brought the challenge, and its authenticator.
    challenge: int
    mac: bytes
    proof: bytes = b""
    versions: Versions = BEFORE

    def to_bytes(self) -> bytes:
        head = _OPEN.pack(self.to_epoch, self.flow, self.challenge, self.mac)
        return (head + self.versions.to_bytes() + self.proof).ljust(BODY_BYTES, b"\0")


def parse_hello(body: bytes) -> Hello | None:
    tail = _tail(body, _HELLO.size)
    if tail is None:
        return None
    flow, echo, to_epoch, known, mac = _HELLO.unpack_from(body)
    return Hello(flow, echo, to_epoch, known, mac, *tail)


def parse_open(body: bytes) -> Open | None:
    tail = _tail(body, _OPEN.size)
    if tail is None:
        return None
    to_epoch, flow, challenge, mac = _OPEN.unpack_from(body)
    return Open(to_epoch, flow, challenge, mac, *tail)


def _tail(body: bytes, start: int) -> tuple[bytes, Versions] | None:
    """The proof and the versions that follow a greeting's head."""
    if len(body) - start in _BEFORE:
        return body[start:], BEFORE
    if len(body) < BODY_BYTES:
        return None
    proof_at = start + VERSIONS.size
    proof = body[proof_at : proof_at + PROOF_BYTES]
    return (b"" if proof == NO_PROOF else proof), parse_versions(body, start)


class Challenges:
    """Makes and checks challenges without remembering any."""

    __slots__ = ("_secret", "floor")

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        #: Challenges up to this counter are refused: a session opened by one of them may have been forgotten,
        #: and with it the window that refuses its replays.
        self.floor = 0

    def mac(self, address: str, node_id: bytes, epoch: bytes, counter: int) -> bytes:
        text = node_id + epoch + counter.to_bytes(8, "big") + address.encode()
        return blake2b(text, key=self._secret, digest_size=MAC_BYTES).digest()

    def made(self, address: str, node_id: bytes, epoch: bytes, greeting: Open) -> bool:
        """Whether this node, in this life, challenged that peer so."""
        return compare_digest(self.mac(address, node_id, epoch, greeting.challenge), greeting.mac)


def transcript(prover_epoch: bytes, verifier_epoch: bytes, counter: int) -> bytes:
    """What a proof of identity signs: unique to the session and the direction."""
    return prover_epoch + verifier_epoch + counter.to_bytes(8, "big")
