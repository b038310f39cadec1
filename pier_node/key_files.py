"""A cluster's keys on disk: one directory with everything `pier keys new` makes.

    keyring.json          seals traffic between nodes; every node has it
    authority.secret      certifies node ids; stays with whoever admits nodes
    authority.public      what nodes check certificates against
    tls-authority.pem     what clients trust
    tls-authority.key     signs the nodes' certificate; stays with the authority
    tls-node.pem  .key    the certificate nodes show to clients
    client.token          the word clients say

Nothing here prints a secret; every secret file is readable by its owner only.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from overlay.transport import keyring
from overlay.transport.identity import SECRET_BYTES, Authority, Identity
from overlay.transport.keyring import Keyring, KeyringError
from pier_node.certificates import issue, new_authority
from runtime.native.secret_files import fresh_secret, read_secret, write_secret

TOKEN_BYTES = 24


class KeyFilesError(Exception):
    """Keys that are missing, damaged or already there; the message names the file."""


@dataclass(frozen=True, slots=True)
class KeysDir:
    """A directory of keys."""

    path: Path

    @property
    def keyring(self) -> Path:
        return self.path / "keyring.json"

    @property
    def authority_secret(self) -> Path:
        return self.path / "authority.secret"

    @property
    def authority_public(self) -> Path:
        return self.path / "authority.public"

    @property
    def tls_authority(self) -> Path:
        return self.path / "tls-authority.pem"

    @property
    def tls_certificate(self) -> Path:
        return self.path / "tls-node.pem"

    @property
    def tls_key(self) -> Path:
        return self.path / "tls-node.key"

    @property
    def token(self) -> Path:
        return self.path / "client.token"

    def make(self, names: Sequence[str]) -> Keyring:
        """Makes everything. Refuses where a keyring is: new keys would lock every running node out."""
        if self.keyring.exists():
            raise KeyFilesError(f"{self.keyring} exists; rotate it instead, or choose another --dir")
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = Authority(fresh_secret(SECRET_BYTES))
        write_secret(self.authority_secret, authority.secret.hex() + "\n")
        _write_public(self.authority_public, authority.public.hex() + "\n")
        tls = new_authority(self.path.resolve().parent.name)
        shown = issue(tls, names)
        _write_public(self.tls_authority, tls.certificate.decode())
        write_secret(self.tls_authority.with_suffix(".key"), tls.key.decode())
        _write_public(self.tls_certificate, shown.certificate.decode())
        write_secret(self.tls_key, shown.key.decode())
        write_secret(self.token, secrets.token_urlsafe(TOKEN_BYTES) + "\n")
        ring = keyring.new(fresh_secret(keyring.KEY_BYTES), int(time.time()))
        write_keyring(self.keyring, ring)
        return ring

    def certify(self, node_secret: bytes) -> Identity:
        """A node's identity, certified with the secret half of the authority."""
        return Identity.issue(node_secret, Authority(read_hex(self.authority_secret, SECRET_BYTES)))


def read_keyring(path: Path) -> Keyring:
    try:
        return keyring.from_text(_read(path))
    except KeyringError as error:
        raise KeyFilesError(f"{path}: {error}") from None


def write_keyring(path: Path, ring: Keyring) -> None:
    write_secret(path, keyring.to_text(ring), replace=True)


def rotate_keyring(path: Path) -> Keyring:
    """The next step of a rotation; nodes that watch the file follow."""
    ring = keyring.rotate(read_keyring(path), fresh_secret(keyring.KEY_BYTES), int(time.time()))
    write_keyring(path, ring)
    return ring


def retire_keys(path: Path) -> Keyring:
    ring = keyring.retire(read_keyring(path))
    write_keyring(path, ring)
    return ring


def read_hex(path: Path, size_bytes: int) -> bytes:
    """A key written as hex digits."""
    try:
        data = bytes.fromhex(_read(path).strip())
    except ValueError:
        data = b""
    if len(data) != size_bytes:
        raise KeyFilesError(f"{path} does not hold {size_bytes} bytes in hex")
    return data


def read_public_hex(path: Path, size_bytes: int) -> bytes:
    """The same for what is no secret."""
    try:
        data = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as error:
        raise KeyFilesError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        data = b""
    if len(data) != size_bytes:
        raise KeyFilesError(f"{path} does not hold {size_bytes} bytes in hex")
    return data


def read_token(path: Path) -> str:
    token = _read(path).strip()
    if not token:
        raise KeyFilesError(f"{path} is empty")
    return token


def _read(path: Path) -> str:
    try:
        return read_secret(path)
    except OSError as error:
        raise KeyFilesError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise KeyFilesError(f"{path} is not text") from None


def _write_public(path: Path, text: str) -> None:
    write_secret(path, text, replace=True)
    path.chmod(0o644)
