"""Who a node is: an Ed25519 key pair whose public half hashes to the node id and is certified by the
cluster's authority, so that a node cannot choose its place on the ring (docs/decisions/0008; Castro et al. 2002).

Pure: secrets come in as bytes. A session's proof is the certificate and a signature over both ends' epochs,
so it cannot be replayed in another session.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
SECRET_BYTES = 32
CERTIFICATE_BYTES = PUBLIC_BYTES + SIGNATURE_BYTES
PROOF_BYTES = CERTIFICATE_BYTES + SIGNATURE_BYTES
_CERTIFY = b"pier/1 certificate "
_SESSION = b"pier/1 session "


def public_of(secret: bytes) -> bytes:
    """The public key of an Ed25519 secret of 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def node_id_of(public: bytes) -> bytes:
    """160 bits, the ring's width."""
    return hashlib.sha1(public).digest()


@dataclass(frozen=True, slots=True)
class Authority:
    """The cluster's authority, held by whoever admits nodes; nodes hold only its public key."""

    secret: bytes = field(repr=False)

    @property
    def public(self) -> bytes:
        return public_of(self.secret)

    def certify(self, public: bytes) -> bytes:
        """A certificate for a node's public key."""
        assert len(public) == PUBLIC_BYTES
        return public + Ed25519PrivateKey.from_private_bytes(self.secret).sign(_CERTIFY + public)


@dataclass(frozen=True, slots=True)
class Identity:
    """One node's secret and certificate."""

    secret: bytes = field(repr=False)
    certificate: bytes
    authority_public: bytes

    @classmethod
    def issue(cls, secret: bytes, authority: Authority) -> Identity:
        return cls(secret, authority.certify(public_of(secret)), authority.public)

    @property
    def node_id(self) -> bytes:
        return node_id_of(self.certificate[:PUBLIC_BYTES])

    def prove(self, transcript: bytes) -> bytes:
        """Shows a peer that this node holds the key behind its id, in this session."""
        return self.certificate + Ed25519PrivateKey.from_private_bytes(self.secret).sign(
            _SESSION + transcript
        )


def _verified(public: bytes, signature: bytes, text: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def verify_certificate(certificate: bytes, authority_public: bytes) -> bytes | None:
    """The node id that the certificate grants, or None."""
    if len(certificate) != CERTIFICATE_BYTES:
        return None
    public, signature = certificate[:PUBLIC_BYTES], certificate[PUBLIC_BYTES:]
    return node_id_of(public) if _verified(authority_public, signature, _CERTIFY + public) else None


def verify_proof(proof: bytes, transcript: bytes, authority_public: bytes) -> bytes | None:
    """The node id that the proof shows for this session, or None."""
    if len(proof) != PROOF_BYTES:
        return None
    certificate, signature = proof[:CERTIFICATE_BYTES], proof[CERTIFICATE_BYTES:]
    node_id = verify_certificate(certificate, authority_public)
    if node_id is None or not _verified(certificate[:PUBLIC_BYTES], signature, _SESSION + transcript):
        return None
    return node_id
