"""A local cluster's directory: one folder a node, and the keys they share.

    D/n01/        the node's data directory (`data_dir.py`), its pier.toml and its node.log
    D/keys/       if `pier keys new --dir D/keys` made them, the nodes use them

Everything there is to know about the cluster is in these files: any `pier` command may look at it, and it
survives whatever happens to the process that started it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pier_node.data_dir import DataDir, NodeState
from pier_node.key_files import KeysDir, read_token


@dataclass(frozen=True, slots=True)
class ClusterNode:
    """One node of a cluster, running or not."""

    name: str
    data: DataDir

    @property
    def config_file(self) -> Path:
        return self.data.path / "pier.toml"

    @property
    def log_file(self) -> Path:
        return self.data.path / "node.log"

    def running(self) -> NodeState | None:
        """Where the node is, if it is up."""
        return self.data.state() if self.data.is_running() else None


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """What a client of the cluster needs."""

    authority: Path
    token: str


@dataclass(frozen=True, slots=True)
class ClusterDir:
    """The directory."""

    path: Path

    @property
    def keys(self) -> KeysDir:
        return KeysDir(self.path / "keys")

    def nodes(self) -> list[ClusterNode]:
        """All nodes that were ever started here, in order of their names."""
        folders = sorted(self.path.glob("n[0-9]*")) if self.path.is_dir() else []
        return [ClusterNode(folder.name, DataDir(folder)) for folder in folders if folder.is_dir()]

    def node(self, number: int) -> ClusterNode:
        name = f"n{number:02}"
        return ClusterNode(name, DataDir(self.path / name))

    def running(self) -> list[NodeState]:
        return [state for node in self.nodes() if (state := node.running()) is not None]

    def client_keys(self) -> ClientKeys | None:
        if not self.keys.tls_authority.exists():
            return None
        return ClientKeys(self.keys.tls_authority, read_token(self.keys.token))


def default_cluster_dir() -> Path:
    """Where `pier cluster` keeps its nodes when no directory is named."""
    state_home = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state_home) / "pier" / "cluster"
