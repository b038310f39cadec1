"""A cluster's keys on disk: one directory with everything `pier keys new` makes.

    keyring.json          seals traffic between nodes; every node has it
    authority.secret      certifies node ids; stays with whoever admits nodes
    authority.public      what nodes check certificates against
    tls-authority.pem     what clients trust
    tls-authority.key     signs the nodes' certificates; stays with the authority
    tls-node.pem  .key    the certificate that nodes without one of their own show to clients
    tokens.json           who may ask, publish, administer, by the hash of each one's word; every node has it
    client.token          the administrator's own word
    revoked.json          node ids that are not let in any more; every node has it
    nodes.json            nodes certified here, for the list; stays with the authority

Nothing here prints a secret; every secret file is readable by its owner only.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

import msgspec

from overlay.transport import keyring
from overlay.transport.identity import SECRET_BYTES, Authority, Identity
from overlay.transport.keyring import Keyring, KeyringError
from pier_node.access import tokens
from pier_node.access.tokens import Token, TokenBook, TokenBookError
from pier_node.certificates import SignedKey, issue, names_of, new_authority
from runtime.native.secret_files import fresh_secret, read_secret, write_secret

TOKEN_BYTES = 24
#: Revoked nodes of one authority; with more, a new authority is cheaper than the list.
REVOKED_MAX = 1_000
NodeHex: TypeAlias = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$")]
#: The token that `pier keys new` makes for whoever runs the cluster.
ADMINISTRATOR = "admin"


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

    @property
    def tokens(self) -> Path:
        return self.path / "tokens.json"

    @property
    def revoked(self) -> Path:
        return self.path / "revoked.json"

    @property
    def certified(self) -> Path:
        return self.path / "nodes.json"

    def make(self, names: Sequence[str]) -> Keyring:
        """Makes everything. Refuses where a keyring is: new keys would lock every running node out."""
        if self.keyring.exists():
            raise KeyFilesError(f"{self.keyring} exists; rotate it instead, or choose another --dir")
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority = Authority(fresh_secret(SECRET_BYTES))
        write_secret(self.authority_secret, authority.secret.hex() + "\n")
        _write_public(self.authority_public, authority.public.hex() + "\n")
        tls = new_authority(self.path.resolve().parent.name)
        _write_public(self.tls_authority, tls.certificate.decode())
        write_secret(self.tls_authority.with_suffix(".key"), tls.key.decode())
        TlsPair(self.tls_certificate, self.tls_key).write(issue(tls, names))
        word = fresh_word()
        write_secret(self.token, word + "\n")
        administrator = Token(ADMINISTRATOR, ("administer",), (tokens.digest(word),), int(time.time()))
        write_tokens(self.tokens, TokenBook(tokens=(administrator,)))
        ring = keyring.new(fresh_secret(keyring.KEY_BYTES), int(time.time()))
        write_keyring(self.keyring, ring)
        return ring

    def renew_tls(self, names: Sequence[str], pair: TlsPair | None = None) -> list[str]:
        """Another certificate to show to clients, of all nodes or of the one whose pair it is; running nodes take it
        up. Without names, for those of the certificate before; returns them."""
        authority = SignedKey(
            _read_public(self.tls_authority).encode(), _read(self.tls_authority.with_suffix(".key")).encode()
        )
        pair = pair or TlsPair(self.tls_certificate, self.tls_key)
        names = names or names_of(_read_public(pair.certificate).encode())
        pair.write(issue(authority, names))
        return list(names)

    def certify(self, node_secret: bytes) -> Identity:
        """A node's identity, certified with the secret half of the authority."""
        return Identity.issue(node_secret, Authority(read_hex(self.authority_secret, SECRET_BYTES)))

    def record(self, node_id: bytes, note: str) -> None:
        """Remembers a node that was certified for another host."""
        known = read_nodes(self.certified)
        known[node_id.hex()] = NodeRecord(int(time.time()), note)
        write_nodes(self.certified, known)

    def revoke_node(self, node_id: bytes) -> None:
        known = read_nodes(self.revoked)
        if len(known) >= REVOKED_MAX:
            raise KeyFilesError(f"{self.revoked} has {REVOKED_MAX} nodes; make a new authority instead")
        note = read_nodes(self.certified).get(node_id.hex(), NodeRecord(0)).note
        known[node_id.hex()] = NodeRecord(int(time.time()), note)
        write_nodes(self.revoked, known)


@dataclass(frozen=True, slots=True)
class TlsPair:
    """Where a certificate and its key lie."""

    certificate: Path
    key: Path

    def write(self, shown: SignedKey) -> None:
        # The key first: a node that reads in between finds a pair that does not fit, and keeps the old one.
        write_secret(self.key, shown.key.decode(), replace=True)
        _write_public(self.certificate, shown.certificate.decode())

    @property
    def exists(self) -> bool:
        return self.certificate.exists() and self.key.exists()


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


def drop_key(path: Path, key_id: str) -> Keyring:
    """Takes one key out: what is sealed with it opens no more."""
    ring = read_keyring(path)
    if ring.first.key_id.hex() == key_id:
        raise KeyFilesError(f"{path}: {key_id} is the key in use; rotate twice first")
    kept = tuple(key for key in ring.keys if key.key_id.hex() != key_id)
    if len(kept) == len(ring.keys):
        raise KeyFilesError(f"{path}: there is no key {key_id}")
    write_keyring(path, Keyring(kept))
    return Keyring(kept)


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
        data = bytes.fromhex(_read_public(path).strip())
    except ValueError:
        data = b""
    if len(data) != size_bytes:
        raise KeyFilesError(f"{path} does not hold {size_bytes} bytes in hex")
    return data


class NodeRecord(msgspec.Struct, frozen=True):
    """A node that was certified or revoked."""

    at_s: int
    note: str = ""


def read_nodes(path: Path) -> dict[str, NodeRecord]:
    """Node ids in hex; nothing when there is no such file."""
    if not path.exists():
        return {}
    try:
        return msgspec.json.decode(_read(path), type=dict[NodeHex, NodeRecord])
    except msgspec.MsgspecError as error:
        raise KeyFilesError(f"{path} is no list of nodes: {error}") from None


def write_nodes(path: Path, nodes: dict[str, NodeRecord]) -> None:
    write_secret(path, msgspec.json.format(msgspec.json.encode(nodes)).decode() + "\n", replace=True)


def read_tokens(path: Path) -> TokenBook:
    try:
        return tokens.from_text(_read(path))
    except TokenBookError as error:
        raise KeyFilesError(f"{path}: {error}") from None


def write_tokens(path: Path, book: TokenBook) -> None:
    write_secret(path, tokens.to_text(book), replace=True)


def change_tokens(path: Path, change: Callable[[TokenBook], TokenBook]) -> TokenBook:
    """Nodes that watch the file follow."""
    book = read_tokens(path) if path.exists() else TokenBook()
    try:
        book = change(book)
    except TokenBookError as error:
        raise KeyFilesError(f"{path}: {error}") from None
    write_tokens(path, book)
    return book


def fresh_word() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)


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


def _read_public(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except OSError as error:
        raise KeyFilesError(f"cannot read {path}: {error.strerror}") from None


def _write_public(path: Path, text: str) -> None:
    write_secret(path, text, replace=True)
    path.chmod(0o644)
