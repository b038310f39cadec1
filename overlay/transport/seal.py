"""Sealing: packets out of one node under one key and one counter, and back open at its peers (docs/decisions/0008).

A sender's AES-GCM key is derived from the ring key, its node id and the random epoch of this start; the
nonce is one counter that runs on over all peers, all ring keys and all kinds of datagram. Hence no
(key, nonce) pair repeats: within a life the counter differs, between lives the epoch and so the key does,
between ring keys the key does. After 2**24 datagrams the key moves on to its next generation, far below
the 2**28 that RFC 9001 B.1 allows one AES-GCM key for datagrams of this size.

Without a ring the same form carries a checksum instead: integrity against accidents, for loopback only.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol, TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from overlay.transport.keyring import KEY_ID_BYTES, Keyring

COUNTER_BYTES = 8
EPOCH_BYTES = 8
NODE_ID_BYTES = 20
#: log2 of the datagrams sealed under one generation of a key.
GENERATION_BITS = 24
#: The end of the counter, never reached: 2**63 datagrams at a million a second take 292,000 years.
COUNTER_MAX = 1 << 63
#: The id under which the checksum stands in for a key.
PLAIN_KEY_ID = bytes(KEY_ID_BYTES)
NONCE_PAD = bytes(12 - COUNTER_BYTES)


class Cipher(Protocol):
    """`decrypt` raises `InvalidTag` for anything that `encrypt` did not make with the same arguments."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...


class Checksum:
    """CRC-32 of everything that a cipher would authenticate."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
        return data + zlib.crc32(data, zlib.crc32(associated_data)).to_bytes(4, "big")

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
        body = data[:-4]
        if zlib.crc32(body, zlib.crc32(associated_data)).to_bytes(4, "big") != data[-4:]:
            raise InvalidTag
        return body


#: Bytes that a seal adds to a body.
SEAL_BYTES = 16
#: (ring key, node id, epoch, generation) to the sender's cipher.
CipherFactory: TypeAlias = Callable[[bytes, bytes, bytes, int], Cipher]


def derive_secret(secret: bytes, purpose: bytes, node_id: bytes, epoch: bytes, generation: int = 0) -> bytes:
    info = b"pier/1 " + purpose + node_id + epoch + generation.to_bytes(8, "big")
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def make_cipher(secret: bytes, node_id: bytes, epoch: bytes, generation: int) -> Cipher:
    return AESGCM(derive_secret(secret, b"datagram", node_id, epoch, generation))


class Keys:
    """The ring as the wire needs it: by key id. Empty means the checksum."""

    __slots__ = ("_make", "_secrets", "count", "sealing_id")

    def __init__(self, ring: Keyring | None, make: CipherFactory = make_cipher) -> None:
        self._make = make
        self._secrets = {key.key_id: key.secret for key in ring.keys} if ring else {}
        #: The id of the key that seals.
        self.sealing_id = ring.first.key_id if ring else PLAIN_KEY_ID
        self.count = len(self._secrets)

    def cipher(self, key_id: bytes, node_id: bytes, epoch: bytes, generation: int) -> Cipher | None:
        """None for a key that this ring does not have."""
        secret = self._secrets.get(key_id)
        if secret is not None:
            return self._make(secret, node_id, epoch, generation)
        return Checksum() if key_id == self.sealing_id == PLAIN_KEY_ID else None

    def challenge_secret(self, node_id: bytes, epoch: bytes, fallback: bytes) -> bytes:
        """What challenges are authenticated with; only this node in this life needs it."""
        secret = self._secrets.get(self.sealing_id, fallback)
        return derive_secret(secret, b"challenge", node_id, epoch)


class Sealer:
    """Everything one node sends in one life passes here."""

    __slots__ = ("_cipher", "_generation_end", "_keys", "counter", "epoch", "key_id", "node_id")

    def __init__(self, keys: Keys, node_id: bytes, epoch: bytes) -> None:
        assert len(node_id) == NODE_ID_BYTES and len(epoch) == EPOCH_BYTES
        self.node_id = node_id
        self.epoch = epoch
        #: The next number; it starts at 1 so that 0 can mean none.
        self.counter = 1
        self.use(keys)

    def use(self, keys: Keys) -> None:
        """Seals with another ring's first key from now on; the counter runs on."""
        self._keys = keys
        self.key_id = keys.sealing_id
        self._enter_generation()

    def _enter_generation(self) -> None:
        generation = self.counter >> GENERATION_BITS
        cipher = self._keys.cipher(self.key_id, self.node_id, self.epoch, generation)
        assert cipher is not None, "the sealing key is in the ring"
        self._cipher = cipher
        self._generation_end = (generation + 1) << GENERATION_BITS

    def seal(self, prefix: bytes, body: bytes, binding: bytes) -> bytes:
        """A datagram: prefix, counter, sealed body. `binding` is authenticated but not sent."""
        counter = self.counter
        if counter >= self._generation_end:
            assert counter < COUNTER_MAX
            self._enter_generation()
        self.counter = counter + 1
        number = counter.to_bytes(8, "big")
        header = prefix + number
        return header + self._cipher.encrypt(NONCE_PAD + number, body, header + binding)


class Opener:
    """One sender's datagrams under one ring key, opened. `cipher` is for counters in `low` ... `high`; the one
    before it is kept for latecomers."""

    __slots__ = ("_make", "_previous", "cipher", "high", "low")

    def __init__(self, make: Callable[[int], Cipher], generation: int) -> None:
        self._make = make
        self._previous: Cipher | None = None
        self._enter(make(generation), generation)

    def _enter(self, cipher: Cipher, generation: int) -> None:
        self.cipher = cipher
        self.low = generation << GENERATION_BITS
        self.high = (generation + 1 << GENERATION_BITS) - 1

    @classmethod
    def of(cls, keys: Keys, key_id: bytes, node_id: bytes, epoch: bytes, counter: int) -> Opener | None:
        """None for a key that this ring does not have."""
        if keys.cipher(key_id, node_id, epoch, 0) is None:
            return None

        def make(generation: int) -> Cipher:
            cipher = keys.cipher(key_id, node_id, epoch, generation)
            assert cipher is not None
            return cipher

        return cls(make, counter >> GENERATION_BITS)

    def open(self, number: bytes, counter: int, sealed: bytes, associated_data: bytes) -> bytes | None:
        """The body, or None when it was not sealed by that sender under that key. `number` is the counter as
        it was on the wire."""
        generation, current = counter >> GENERATION_BITS, self.low >> GENERATION_BITS
        if generation == current:
            cipher = self.cipher
        elif generation == current - 1 and self._previous is not None:
            cipher = self._previous
        else:
            cipher = self._make(generation)
        try:
            body = cipher.decrypt(NONCE_PAD + number, sealed, associated_data)
        except InvalidTag:
            return None
        if generation > current:
            self._previous = self.cipher if generation == current + 1 else None
            self._enter(cipher, generation)
        return body
