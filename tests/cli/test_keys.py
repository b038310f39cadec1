"""`pier keys`: makes everything once, rotates in two steps, never shows a secret."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cli.main import main
from overlay.transport.identity import CERTIFICATE_BYTES, verify_certificate
from pier_node.certificates import names_of
from pier_node.data_dir import DataDir
from pier_node.key_files import KeysDir, read_keyring, read_nodes, read_public_hex, read_tokens
from pier_node.tls import server_context


def roles(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [json.loads(line)["role"] for line in capsys.readouterr().out.splitlines()]


def test_a_rotation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--dir", str(tmp_path / "k"), "--format", "json"]
    assert main(["keys", "new", *where]) == 0
    assert roles(capsys) == ["seals"]
    first = read_keyring(tmp_path / "k" / "keyring.json").first
    assert main(["keys", "rotate", *where]) == 0
    assert roles(capsys) == ["seals", "staged"]
    assert main(["keys", "rotate", *where]) == 0
    assert roles(capsys) == ["seals", "opens"]
    ring = read_keyring(tmp_path / "k" / "keyring.json")
    assert ring.first != first and first in ring.keys
    assert main(["keys", "rotate", "--retire", *where]) == 0
    assert roles(capsys) == ["seals"]
    assert main(["keys", "list", *where]) == 0
    captured = capsys.readouterr()
    assert ring.first.secret.hex() not in captured.out + captured.err


def test_keys_are_not_made_over_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "--dir", str(tmp_path)]) == 0
    before = (tmp_path / "keyring.json").read_bytes()
    assert main(["keys", "new", "--dir", str(tmp_path)]) == 1
    assert "exists" in capsys.readouterr().err
    assert (tmp_path / "keyring.json").read_bytes() == before


def test_secrets_are_for_their_owner_only(tmp_path: Path) -> None:
    assert main(["keys", "new", "--dir", str(tmp_path)]) == 0
    for path in tmp_path.iterdir():
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o644 if path.suffix in (".pem", ".public") else 0o600), path


def test_a_node_is_certified_for_another_host(tmp_path: Path) -> None:
    keys, data = tmp_path / "keys", tmp_path / "data"
    assert main(["keys", "new", "--dir", str(keys)]) == 0
    assert main(["keys", "certify", "--dir", str(keys), "--data-dir", str(data)]) == 0
    certificate = read_public_hex(DataDir(data).certificate, CERTIFICATE_BYTES)
    authority = read_public_hex(KeysDir(keys).authority_public, 32)
    assert verify_certificate(certificate, authority) is not None


def test_tokens_are_made_rotated_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--dir", str(tmp_path)]
    assert main(["keys", "new", *where]) == 0
    capsys.readouterr()
    feeder = ["--role", "publish", "--namespace", "fw", "--limit", "time_s=5", "--days", "1"]
    assert main(["keys", "new", "token", "feeder", *feeder, *where]) == 0
    word = capsys.readouterr().out.strip()
    book = read_tokens(KeysDir(tmp_path).tokens)
    client = book.client_of(word, 0.0)
    assert (
        client is not None and client.publishes_into("fw") and not client.asks and client.limits.time_s == 5.0
    )
    assert main(["keys", "list", "token", "--format", "json", *where]) == 0
    listed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["key"] for row in listed] == ["admin", "feeder"] and "time_s=5" in listed[1]["note"]
    assert main(["keys", "rotate", "token", "feeder", *where]) == 0
    second = capsys.readouterr().out.strip()
    assert main(["keys", "rotate", "token", "feeder", "--retire", *where]) == 0
    book = read_tokens(KeysDir(tmp_path).tokens)
    assert book.client_of(word, 0.0) is None and book.client_of(second, 0.0) is not None
    assert main(["keys", "revoke", "token", "feeder", *where]) == 0
    assert main(["keys", "revoke", "token", "feeder", *where]) == 1
    assert "there are: admin" in capsys.readouterr().err


def test_a_node_is_revoked_by_the_start_of_its_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = ["--dir", str(tmp_path / "keys")]
    assert main(["keys", "new", *keys]) == 0
    assert main(["keys", "new", "node", "--data-dir", str(tmp_path / "d"), "--note", "db1", *keys]) == 0
    capsys.readouterr()
    assert main(["keys", "list", "node", "--format", "json", *keys]) == 0
    (row,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (row["role"], row["note"]) == ("certified", "db1")
    assert main(["keys", "revoke", "node", row["key"][:8], *keys]) == 0
    assert list(read_nodes(KeysDir(tmp_path / "keys").revoked)) == [row["key"]]
    assert main(["keys", "revoke", "node", "zz", *keys]) == 2


def test_a_key_is_taken_out_but_not_the_one_in_use(tmp_path: Path) -> None:
    where = ["--dir", str(tmp_path)]
    assert main(["keys", "new", *where]) == 0
    assert main(["keys", "rotate", *where]) == 0
    first, staged = read_keyring(tmp_path / "keyring.json").keys
    assert main(["keys", "revoke", "key", first.key_id.hex(), *where]) == 1
    assert main(["keys", "revoke", "key", staged.key_id.hex(), *where]) == 0
    assert read_keyring(tmp_path / "keyring.json").keys == (first,)


def test_the_tls_certificate_is_renewed_for_the_same_names(tmp_path: Path) -> None:
    keys = KeysDir(tmp_path)
    assert (
        main(["keys", "new", "--dir", str(tmp_path), "--name", "db1.example.net", "--name", "192.0.2.7"]) == 0
    )
    before = keys.tls_certificate.read_bytes()
    assert main(["keys", "rotate", "tls", "--dir", str(tmp_path)]) == 0
    after = keys.tls_certificate.read_bytes()
    assert after != before and names_of(after) == names_of(before)
    assert {"db1.example.net", "192.0.2.7"} <= set(names_of(after))
    server_context(keys.tls_certificate, keys.tls_key)


@pytest.mark.parametrize(
    "words",
    [
        ["revoke"],
        ["revoke", "token"],
        ["new", "token"],
        ["new", "token", "x", "--role", "publish"],
        ["new", "token", "a b"],
        ["new", "token", "x", "--limit", "speed=3"],
        ["rotate", "node"],
    ],
)
def test_half_a_command_is_wrong_usage(words: list[str], tmp_path: Path) -> None:
    assert main(["keys", *words, "--dir", str(tmp_path)]) == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1, "keys": []}', "\x00"])
def test_a_damaged_keyring_is_named(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ring.json"
    file.write_text(text)
    file.chmod(0o600)
    assert main(["keys", "list", "--keyring", str(file)]) == 1
    assert str(file) in capsys.readouterr().err


def test_a_keyring_open_to_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "--dir", str(tmp_path)]) == 0
    (tmp_path / "keyring.json").chmod(0o644)
    assert main(["keys", "list", "--dir", str(tmp_path)]) == 1
    assert "chmod 600" in capsys.readouterr().err


def test_each_host_has_a_certificate_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--dir", str(tmp_path / "k")]
    assert main(["keys", "new", *where, "--name", "a.example.net", "--name", "b.example.net"]) == 0
    assert "whoever takes it from one host can pose as the others" in capsys.readouterr().err
    data = [DataDir(tmp_path / name) for name in ("db1", "db2")]
    for number, each in enumerate(data, 1):
        named = ["--name", f"db{number}.example.net", "--name", f"10.0.0.{number}"]
        assert main(["keys", "new", "node", *where, "--data-dir", str(each.path), *named]) == 0
    names = [set(names_of(each.tls_certificate.read_bytes())) for each in data]
    assert {"db1.example.net", "10.0.0.1", "127.0.0.1"} <= names[0] and "db2.example.net" not in names[0]
    assert {"db2.example.net", "10.0.0.2"} <= names[1]
    assert stat.S_IMODE(data[0].tls_key.stat().st_mode) == 0o600
    before = data[0].tls_certificate.read_bytes(), data[1].tls_certificate.read_bytes()
    assert main(["keys", "rotate", "tls", *where, "--data-dir", str(data[0].path)]) == 0
    assert set(names_of(data[0].tls_certificate.read_bytes())) == names[0]
    assert data[0].tls_certificate.read_bytes() != before[0]
    assert data[1].tls_certificate.read_bytes() == before[1]
    server_context(data[0].tls_certificate, data[0].tls_key)


def test_who_does_not_check_names_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "new", "--dir", str(tmp_path / "k")]) == 0
    authority = str(tmp_path / "k" / "tls-authority.pem")
    at = ["status", "--node", "127.0.0.1:1", "--connect-timeout", "5"]
    assert main([*at, "--tls-ca", authority]) == 1
    assert "WARNING" not in capsys.readouterr().err
    assert main([*at, "--tls-ca", authority, "--tls-any-name"]) == 1
    assert (
        "WARNING: --tls-any-name: the name in the node's certificate is not checked"
        in capsys.readouterr().err
    )
    assert main([*at, "--tls-any-name"]) == 2
