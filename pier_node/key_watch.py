"""Follows changes of the key files while a node runs: keyring, tokens, revocations, TLS certificate.

Files are looked at every `security.keyring_check_s`. One that cannot be used leaves what is in use in use, and
says so once for each state of the file: half a copy, or a mistake, never takes a node down.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import trio

from pier_node.config import Config
from pier_node.journal import Journal
from pier_node.key_files import KeyFilesError, read_keyring
from pier_node.parts import NodeParts
from pier_node.security import Credentials
from pier_node.tls import TlsError, certificate_bytes, reload_server_context


class _Watched:
    """One thing that files say."""

    def __init__(self, what: str, files: tuple[Path | None, ...], take: Callable[[], None]) -> None:
        self.what = what
        self._files = tuple(file for file in files if file is not None)
        self._take = take
        #: Nothing at first: what changed between the start and the first look is taken up too.
        self._seen: tuple[tuple[int, int, int] | None, ...] | None = None

    def _state(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Changes whenever a file is replaced or written, or becomes another's to read."""
        return tuple(_stamp(file) for file in self._files)

    def look(self, journal: Journal) -> None:
        state = self._state()
        if state == self._seen:
            return
        self._seen = state
        try:
            self._take()
        except (KeyFilesError, TlsError) as error:
            journal.warning(f"keeping the old {self.what}", reason=error)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ctime_ns, found.st_ino, found.st_size


async def watch_keys(config: Config, credentials: Credentials, parts: NodeParts, journal: Journal) -> None:
    """Until cancelled."""
    files = credentials.files
    now: dict[str, object] = {
        "keyring": credentials.keyring,
        "tokens": credentials.tokens,
        "revoked": credentials.revoked,
    }

    def changed(what: str, found: object) -> bool:
        before, now[what] = now.get(what), found
        return before != found

    def take_keyring() -> None:
        assert credentials.keyring_file is not None
        ring = read_keyring(credentials.keyring_file)
        if changed("keyring", ring):
            parts.messenger.use_keyring(ring)
            journal.info("keyring changed", keys=len(ring.keys), seals=ring.first.key_id.hex())

    def take_tokens() -> None:
        book = files.read_tokens()
        if changed("tokens", book):
            parts.server.use_tokens(book)
            journal.info("tokens changed", tokens=len(book.tokens) if book is not None else 0)

    def take_revoked() -> None:
        revoked = files.read_revoked()
        if changed("revoked", revoked):
            parts.messenger.revoke(revoked)
            journal.info("revoked nodes changed", nodes=len(revoked))

    def take_certificate() -> None:
        if credentials.tls is None or files.tls_certificate is None or files.tls_key is None:
            return
        shown = now.get("certificate")
        if changed("certificate", certificate_bytes(files.tls_certificate)):
            reload_server_context(credentials.tls, files.tls_certificate, files.tls_key)
            if shown is not None:
                journal.info("TLS certificate changed")

    watched = [
        _Watched("tokens", (files.tokens, files.token_file), take_tokens),
        _Watched("revoked nodes", (files.revoked,), take_revoked),
        _Watched("TLS certificate", (files.tls_certificate, files.tls_key), take_certificate),
    ]
    if credentials.keyring_file is not None:
        watched.append(_Watched("keyring", (credentials.keyring_file,), take_keyring))
    while True:
        await trio.sleep(config.security.keyring_check_s)
        for each in watched:
            each.look(journal)
