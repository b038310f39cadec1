"""Secret files: whole, for their owner only, and still their owner's after an administrator replaced them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from runtime.native.secret_files import SecretFileError, read_secret, write_secret


def test_a_secret_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    file = tmp_path / "s"
    write_secret(file, "one")
    with pytest.raises(FileExistsError):
        write_secret(file, "two")
    write_secret(file, "two", replace=True)
    assert read_secret(file) == "two" and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file], "something was left behind"


def test_a_file_open_to_others_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s"
    write_secret(file, "one")
    file.chmod(0o640)
    with pytest.raises(SecretFileError, match="chmod 600"):
        read_secret(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_replaced_secret_stays_its_owners(tmp_path: Path) -> None:
    file = tmp_path / "s"
    write_secret(file, "one")
    os.chown(file, 10001, 10001)
    write_secret(file, "two", replace=True)
    assert (file.stat().st_uid, file.stat().st_gid) == (10001, 10001)
