"""TLS settings for clients and for the door: who shows what, who trusts whom."""

from __future__ import annotations

import ssl
from pathlib import Path


class TlsError(Exception):
    """Certificates or keys that cannot be used; the message names the file."""


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    reload_server_context(context, certificate, key)
    return context


def certificate_bytes(certificate: Path) -> bytes:
    try:
        return certificate.read_bytes()
    except OSError as error:
        raise TlsError(f"cannot read {certificate}: {error.strerror}") from None


def reload_server_context(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    """Connections from now on are shown this certificate."""
    try:
        # A pair that does not fit would leave a context in use with half of each, so it is tried on another first.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
        context.load_cert_chain(certificate, key)
    except OSError as error:
        raise TlsError(f"cannot use {certificate} with {key}: {error}") from None


def client_context(authority: Path | None = None, *, check_names: bool = True) -> ssl.SSLContext:
    """Trusts a cluster's own authority, or the system's when none is given, and takes a certificate for the name it was
    issued for. Without `check_names` any certificate of a cluster's authority will do: then whoever has the key of one
    host can pose as any other, and gets the tokens of those who connect to it."""
    if authority is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = check_names
        try:
            context.load_verify_locations(authority)
        except OSError as error:
            raise TlsError(f"cannot use the authority {authority}: {error}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
