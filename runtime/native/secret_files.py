"""Files that only their owner may read: keyrings, node keys, tokens."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

#: Larger than any secret file of ours.
SECRET_BYTES_MAX = 64 * 1024


class SecretFileError(OSError):
    """The file is open to others, or too large to be a secret."""


def read_secret(path: str | Path) -> str:
    """The text of a file of mode 0600 or stricter; refuses any other."""
    with Path(path).open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_IMODE(status.st_mode) & 0o077:
            raise SecretFileError(
                f"{path}: mode {stat.S_IMODE(status.st_mode):04o} lets others in; chmod 600 it"
            )
        data = file.read(SECRET_BYTES_MAX + 1)
    if len(data) > SECRET_BYTES_MAX:
        raise SecretFileError(f"{path}: more than {SECRET_BYTES_MAX} bytes")
    return data.decode()


def write_secret(path: str | Path, text: str, *, replace: bool = False) -> None:
    """Writes a file of mode 0600, whole or not at all. An existing one is kept unless `replace`; its owner stays its
    owner, so that an administrator does not lock a node out of its own keys."""
    path = Path(path)
    if not replace and path.exists():
        raise FileExistsError(f"{path} exists")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            if os.geteuid() == 0 and path.exists():
                before = path.stat()
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def fresh_secret(size: int) -> bytes:
    """Random bytes from the operating system."""
    return secrets.token_bytes(size)
