"""What may listen where, and which keys fit together."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.transport.identity import SECRET_BYTES, Identity
from pier_node.config import Config, load
from pier_node.data_dir import DataDir
from pier_node.key_files import KeyFilesError, KeysDir, TlsPair, read_token
from pier_node.security import SecurityError, load_credentials
from runtime.native.secret_files import write_secret

SECRET = bytes(range(SECRET_BYTES))


@pytest.fixture
def keys(tmp_path: Path) -> KeysDir:
    made = KeysDir(tmp_path / "keys")
    made.make(["localhost"])
    return made


def config(keys: KeysDir | None = None, **flags: str) -> Config:
    named = {name.replace("__", "."): value for name, value in flags.items()}
    return load(None, {}, {"security.keys_dir": str(keys.path) if keys else None, **named})


def test_without_keys_only_loopback() -> None:
    found = load_credentials(config(), SECRET, None)
    assert found.keyring is None and found.tls is None and found.tokens is None and len(found.node_id) == 20
    with pytest.raises(SecurityError, match="--keyring"):
        load_credentials(config(node__listen="0.0.0.0:7700"), SECRET, None)
    with pytest.raises(SecurityError, match=r"security\.tls_certificate"):
        load_credentials(config(client__listen="0.0.0.0:7701"), SECRET, None)


def test_a_keys_directory_is_all_it_takes(keys: KeysDir) -> None:
    open_to_all = config(keys, node__listen="0.0.0.0:7700", client__listen="0.0.0.0:7701")
    found = load_credentials(open_to_all, SECRET, None)
    assert found.keyring is not None and found.tls is not None and found.tokens is not None
    assert found.identity is not None and found.identity.node_id == found.node_id


def test_tls_without_a_token_is_not_enough(keys: KeysDir) -> None:
    keys.token.unlink()
    keys.tokens.unlink()
    with pytest.raises(SecurityError, match=r"security\.tokens"):
        load_credentials(config(keys, client__listen="0.0.0.0:7701"), SECRET, None)


def test_the_single_word_stands_beside_the_book(keys: KeysDir, tmp_path: Path) -> None:
    word = tmp_path / "word"
    write_secret(word, "open sesame\n")
    found = load_credentials(config(keys, security__token_file=str(word)), SECRET, None).tokens
    assert found is not None and [token.name for token in found.tokens] == ["admin", "token-file"]
    for secret in ("open sesame", read_token(keys.token)):
        client = found.client_of(secret, 0.0)
        assert client is not None and client.administers
    assert found.client_of("sesame", 0.0) is None


def test_half_a_certificate_is_told(keys: KeysDir) -> None:
    with pytest.raises(SecurityError, match="go together"):
        load_credentials(config(security__tls_key=str(keys.tls_key)), SECRET, None)


def test_a_host_without_the_authority_needs_a_certificate(keys: KeysDir, tmp_path: Path) -> None:
    data = DataDir(tmp_path / "data")
    data.path.mkdir()
    certificate = keys.certify(SECRET).certificate
    keys.authority_secret.unlink()
    with pytest.raises(SecurityError, match="pier keys certify"):
        load_credentials(config(keys), SECRET, data)
    data.certificate.write_text(certificate.hex())
    found = load_credentials(config(keys), SECRET, data)
    assert isinstance(found.identity, Identity)
    with pytest.raises(KeyFilesError, match="is not this node's"):
        load_credentials(config(keys), SECRET[::-1], data)


def test_two_processes_cannot_hold_one_directory(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "d")
    assert not data.is_running()
    data.lock()
    # A lock belongs to the open file, so that a second opening in this process stands for another process.
    assert data.is_running()
    assert data.secret() == data.secret()


def test_a_nodes_own_certificate_goes_before_the_one_that_all_share(keys: KeysDir, tmp_path: Path) -> None:
    data = DataDir(tmp_path / "db1")
    data.path.mkdir()
    assert load_credentials(config(keys), SECRET, data).files.tls_certificate == keys.tls_certificate
    keys.renew_tls(["db1.example.net"], TlsPair(data.tls_certificate, data.tls_key))
    files = load_credentials(config(keys), SECRET, data).files
    assert (files.tls_certificate, files.tls_key) == (data.tls_certificate, data.tls_key)
    named = config(
        keys, security__tls_certificate=str(keys.tls_certificate), security__tls_key=str(keys.tls_key)
    )
    assert load_credentials(named, SECRET, data).files.tls_certificate == keys.tls_certificate
