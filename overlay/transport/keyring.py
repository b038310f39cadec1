"""The cluster's keys: the first seals, all open, so that they rotate while the ring runs (docs/decisions/0008).

Pure functions from ring to ring; reading and writing the file, fresh random bytes and the clock belong to
the caller (`runtime.native.secret_files` keeps the file at mode 0600). A rotation takes two steps, because
no node may seal with a key that another cannot yet open:

    1. `rotate` stages a new key behind the first; every node reads the file and can open with it.
    2. `rotate` again promotes the staged key to the front; every node reads the file and seals with it.

Older keys stay behind it until `KEYS_MAX` or `retire` drops them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Keys in a ring: the one in use, the one being staged, and a few that slow nodes may still use.
KEYS_MAX = 8
KEY_BYTES = 32
KEY_ID_BYTES = 4
#: A keyring file of the largest ring has about 1.2 kB.
TEXT_BYTES_MAX = 16_384
VERSION = 1


class KeyringError(ValueError):
    """The text is not a keyring; the message says what is wrong and never shows key material."""


@dataclass(frozen=True, slots=True)
class Key:
    secret: bytes = field(repr=False)
    #: Unix time of its making; tells a staged key (newer than the first) from a retired one.
    made_s: int

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise KeyringError(f"a key has {KEY_BYTES} bytes, not {len(self.secret)}")

    @property
    def key_id(self) -> bytes:
        """Names the key on the wire and in listings without telling anything of it."""
        return hashlib.sha256(b"pier key id" + self.secret).digest()[:KEY_ID_BYTES]


@dataclass(frozen=True, slots=True)
class Keyring:
    """At least one key; the first seals."""

    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        if not 1 <= len(self.keys) <= KEYS_MAX:
            raise KeyringError(f"a keyring has 1 to {KEYS_MAX} keys, not {len(self.keys)}")
        if len({key.key_id for key in self.keys}) != len(self.keys):
            raise KeyringError("a key is listed twice")

    @property
    def first(self) -> Key:
        return self.keys[0]

    @property
    def staged(self) -> Key | None:
        """The newest key that opens but does not seal yet."""
        newer = [key for key in self.keys[1:] if key.made_s > self.first.made_s]
        return max(newer, key=lambda key: key.made_s) if newer else None


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One line of `pier keys list`."""

    key_id: str
    made_s: int
    role: str


def new(secret: bytes, made_s: int) -> Keyring:
    """A ring of one key; `secret` is fresh from the operating system."""
    return Keyring((Key(secret, made_s),))


def rotate(ring: Keyring, secret: bytes, made_s: int) -> Keyring:
    """The next step of a rotation: stages a key made of `secret`, or promotes the staged one."""
    staged = ring.staged
    if staged is not None:
        return Keyring((staged, *(key for key in ring.keys if key is not staged)))
    fresh = Key(secret, max(made_s, ring.first.made_s + 1))
    return Keyring((ring.first, fresh, *ring.keys[1 : KEYS_MAX - 1]))


def retire(ring: Keyring) -> Keyring:
    """Drops the keys older than the first: what was sealed with them opens no more."""
    return Keyring(tuple(key for key in ring.keys if key.made_s >= ring.first.made_s))


def rows(ring: Keyring) -> Sequence[KeyRow]:
    def role(key: Key) -> str:
        if key is ring.first:
            return "seals"
        return "staged" if key.made_s > ring.first.made_s else "opens"

    return [KeyRow(key.key_id.hex(), key.made_s, role(key)) for key in ring.keys]


def to_text(ring: Keyring) -> str:
    keys = [{"key": key.secret.hex(), "made_s": key.made_s} for key in ring.keys]
    return json.dumps({"version": VERSION, "keys": keys}, indent=2) + "\n"


def from_text(text: str) -> Keyring:
    if len(text) > TEXT_BYTES_MAX:
        raise KeyringError(f"a keyring file has at most {TEXT_BYTES_MAX} characters")
    try:
        document = json.loads(text)
        if document["version"] != VERSION:
            raise KeyringError(f"keyring version {document['version']!r} is not {VERSION}")
        keys = tuple(Key(bytes.fromhex(entry["key"]), int(entry["made_s"])) for entry in document["keys"])
    except KeyringError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise KeyringError(f"not a keyring: {type(error).__name__}") from None
    return Keyring(keys)
