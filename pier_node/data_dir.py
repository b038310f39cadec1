"""What one node keeps on disk: who it is, where it is now, and that it is running.

    node.secret         the Ed25519 secret behind its id, so that a restarted node takes its old place on the ring
    node.certificate    what the cluster's authority says of it, where ids are certified
    tls-node.pem  .key  the certificate it shows to clients, where it has one of its own
    node.roster         the members of the ring as it last knew them (`roster_file`)
    node.json           process id, addresses and node id while it runs
    node.lock           locked while it runs; the lock dies with the process, however it dies

The lock keeps two processes from being one node, and tells others whether the process still lives, which a
process id cannot: ids are used again.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from overlay.transport.identity import SECRET_BYTES
from runtime.native.secret_files import SecretFileError, fresh_secret, read_secret, write_secret


class DataDirError(Exception):
    """The directory cannot be used; the message says why."""


class NodeState(msgspec.Struct, frozen=True):
    """What a running node tells whoever looks after it."""

    pid: int
    node_id: str
    address: str
    client_address: str


@dataclass(frozen=True, slots=True)
class DataDir:
    """A node's directory."""

    path: Path

    @property
    def state_file(self) -> Path:
        return self.path / "node.json"

    @property
    def certificate(self) -> Path:
        return self.path / "node.certificate"

    @property
    def tls_certificate(self) -> Path:
        return self.path / "tls-node.pem"

    @property
    def tls_key(self) -> Path:
        return self.path / "tls-node.key"

    def lock(self) -> int:
        """Makes the directory if need be and claims it for this process; keep the descriptor open."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self.path / "node.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DataDirError(f"cannot use {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise DataDirError(f"another node runs with {self.path}; give each its own --data-dir") from None
        os.truncate(descriptor, 0)
        os.write(descriptor, str(os.getpid()).encode())
        return descriptor

    def holder(self) -> int | None:
        """The process that holds, or last held, the directory."""
        try:
            return int((self.path / "node.lock").read_text())
        except (OSError, ValueError):
            return None

    def is_running(self) -> bool:
        """Whether a process holds the directory right now."""
        try:
            descriptor = os.open(self.path / "node.lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
        return False

    def secret(self) -> bytes:
        """The node's secret; made on first use."""
        secret = self.known_secret()
        if secret is None:
            secret = fresh_secret(SECRET_BYTES)
            write_secret(self.path / "node.secret", secret.hex() + "\n")
        return secret

    def known_secret(self) -> bytes | None:
        """The node's secret if it has one already."""
        path = self.path / "node.secret"
        try:
            secret = bytes.fromhex(read_secret(path).strip())
        except FileNotFoundError:
            return None
        except SecretFileError as error:
            raise DataDirError(str(error)) from None
        except ValueError:
            secret = b""
        if len(secret) != SECRET_BYTES:
            raise DataDirError(f"{path} is damaged; remove it to give this node a new id")
        return secret

    def state(self) -> NodeState | None:
        return read_state(self.state_file)


def write_state(path: Path, state: NodeState) -> None:
    write_secret(path, msgspec.json.encode(state).decode() + "\n", replace=True)


def read_state(path: Path) -> NodeState | None:
    """A state file's content; None when there is none, or it is none."""
    try:
        return msgspec.json.decode(read_secret(path), type=NodeState)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
