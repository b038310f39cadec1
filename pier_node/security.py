"""From the security section to keys in hand, and the rules of what may listen where (docs/decisions/0008).

Without a keyring a node listens on loopback only; clients from elsewhere need TLS and a token. Each refusal
names the knob that would lift it.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from overlay.transport import Identity, Keyring
from overlay.transport.identity import (
    CERTIFICATE_BYTES,
    PUBLIC_BYTES,
    node_id_of,
    public_of,
    verify_certificate,
)
from pier_node.access.tokens import Token, TokenBook, digest
from pier_node.config.addresses import is_loopback, split_address
from pier_node.config.knobs import Config
from pier_node.data_dir import DataDir
from pier_node.key_files import (
    KeyFilesError,
    KeysDir,
    TlsPair,
    read_keyring,
    read_nodes,
    read_public_hex,
    read_token,
    read_tokens,
)
from pier_node.tls import server_context

#: The name of whoever says the word of `security.token_file`.
TOKEN_FILE_NAME = "token-file"
#: Where nothing is found.
NO_KEYS = KeysDir(Path("/nonexistent"))


class SecurityError(Exception):
    """The node must not start like this; the message says what to set."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a node proves itself with, and what it asks of others."""

    node_id: bytes
    identity: Identity | None = field(repr=False)
    keyring: Keyring | None = field(repr=False)
    keyring_file: Path | None
    tls: ssl.SSLContext | None
    tokens: TokenBook | None
    revoked: frozenset[bytes]
    files: ReloadedFiles


@dataclass(frozen=True, slots=True)
class ReloadedFiles:
    """What a running node looks at again and again."""

    tls_certificate: Path | None
    tls_key: Path | None
    tokens: Path | None
    token_file: Path | None
    #: May not be there yet.
    revoked: Path | None

    def read_tokens(self) -> TokenBook | None:
        """The book, with the bearer of the single word among its administrators."""
        book = read_tokens(self.tokens) if self.tokens is not None else None
        if self.token_file is None:
            return book
        word = Token(TOKEN_FILE_NAME, ("administer",), (digest(read_token(self.token_file)),), 0)
        return TokenBook(tokens=(*(book.tokens if book is not None else ()), word))

    def read_revoked(self) -> frozenset[bytes]:
        return frozenset(map(bytes.fromhex, read_nodes(self.revoked))) if self.revoked else frozenset()


def load_credentials(config: Config, secret: bytes, data: DataDir | None) -> Credentials:
    """Reads every key the configuration names; `secret` is the node's own."""
    named = config.security
    keys = KeysDir(Path(named.keys_dir)) if named.keys_dir else NO_KEYS
    keyring_file = _file(named.keyring, keys.keyring)
    keyring = read_keyring(keyring_file) if keyring_file else None
    identity = _identity(config, secret, keys, data)
    shown = TlsPair(keys.tls_certificate, keys.tls_key)
    own = TlsPair(data.tls_certificate, data.tls_key) if data is not None else shown
    # A node's own certificate goes before the one that all share.
    shown = own if own.exists else shown
    certificate = _file(named.tls_certificate, shown.certificate)
    key = _file(named.tls_key, shown.key)
    if bool(certificate) != bool(key):
        raise SecurityError("security.tls_certificate and security.tls_key go together: one is missing")
    tokens = _file(named.tokens, keys.tokens)
    files = ReloadedFiles(
        certificate,
        key,
        tokens,
        # Beside a book, the word in the keys directory is the administrator's own copy of what the book has.
        _file(named.token_file, keys.token) if named.token_file or tokens is None else None,
        Path(named.revoked) if named.revoked else keys.revoked if named.keys_dir else None,
    )
    found = Credentials(
        identity.node_id if identity else node_id_of(public_of(secret)),
        identity,
        keyring,
        keyring_file,
        server_context(certificate, key) if certificate and key else None,
        files.read_tokens(),
        files.read_revoked(),
        files,
    )
    check_exposure(config, found)
    return found


def check_exposure(config: Config, found: Credentials) -> None:
    """Refuses to listen where strangers could reach an unprotected port."""
    if found.keyring is None and not is_loopback(split_address(config.node.listen)[0]):
        raise SecurityError(
            f"node.listen is {config.node.listen}, but without a keyring a node listens on loopback only; "
            "make keys with `pier keys new` and give --keyring or security.keys_dir"
        )
    if not config.client.listen or is_loopback(split_address(config.client.listen)[0]):
        return
    if found.tls is None or found.tokens is None:
        missing = "security.tls_certificate" if found.tls is None else "security.tokens"
        raise SecurityError(
            f"client.listen is {config.client.listen}, but clients from elsewhere need TLS and a token; "
            f"set {missing}, or security.keys_dir to a directory made with `pier keys new`"
        )


def _identity(config: Config, secret: bytes, keys: KeysDir, data: DataDir | None) -> Identity | None:
    public_file = _file(config.security.authority, keys.authority_public)
    if public_file is None:
        return None
    authority = read_public_hex(public_file, PUBLIC_BYTES)
    if data is not None and data.certificate.exists():
        certificate = read_public_hex(data.certificate, CERTIFICATE_BYTES)
        if verify_certificate(certificate, authority) != node_id_of(public_of(secret)):
            raise KeyFilesError(f"{data.certificate} is not this node's, or not from {public_file}")
        return Identity(secret, certificate, authority)
    if keys.authority_secret.exists():
        return keys.certify(secret)
    raise SecurityError(
        f"{public_file} admits certified nodes only; put this node's certificate into its data directory "
        "with `pier keys certify`"
    )


def _file(named: str, default: Path) -> Path | None:
    """The file a knob names, or the one in the keys directory if it is there."""
    if named:
        return Path(named)
    return default if default.exists() else None
