"""A cluster's own certificate authority for client connections: made once, trusted by its clients.

Keys go in and out as PEM bytes; files are the business of `key_files.py`. Clients check that the authority signed a
node's certificate and that it is for the name they connect to. Each host can have its own; one that all nodes share,
for all their names, spares the copying and lets whoever takes it from one host pose as the others.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

#: An authority outlives the hardware; a node certificate is renewed with `pier keys rotate tls`.
AUTHORITY_DAYS = 3650
NODE_DAYS = 825
#: In every certificate of a node: who is on the same machine need not know what it is called outside.
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
#: Clocks differ; a certificate is valid a little before it is made.
_EARLY = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class SignedKey:
    """A certificate and its private key, both PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


def new_authority(cluster: str) -> SignedKey:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"PIER cluster {cluster}")])
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(certificate, key)


def issue(authority: SignedKey, names: Sequence[str]) -> SignedKey:
    """A certificate for nodes reached under these host names and addresses, and on their own machine."""
    names = tuple(dict.fromkeys((*names, *LOOPBACK_NAMES)))
    signer = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "PIER node")])
    certificate = (
        _builder(subject, issuer.subject, key, NODE_DAYS)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    return _pem(certificate, key)


def names_of(certificate: bytes) -> list[str]:
    """The names and addresses a certificate was issued for."""
    shown = x509.load_pem_x509_certificate(certificate)
    names = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> SignedKey:
    return SignedKey(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
