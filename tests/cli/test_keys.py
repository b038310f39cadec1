"""`pier keys`: makes everything once, rotates in two steps, never shows a secret."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from cli.main import main
from overlay.transport.identity import CERTIFICATE_BYTES, verify_certificate
from pier_node.data_dir import DataDir
from pier_node.key_files import KeysDir, read_keyring, read_public_hex


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
