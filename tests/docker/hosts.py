"""Hosts that a test can start, pause, cut off, kill and upgrade, each with an address of its own."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pier_node import client
from pier_node.client import Connection
from pier_node.key_files import KeysDir, read_token
from pier_node.tls import client_context

NODE_PORT, CLIENT_PORT, HTTP_PORT = 7700, 7701, 7702
#: The first two are seeds, on every host's list.
SEEDS = ("n1", "n2")
#: Rows of each host's own table.
ROWS = 50
#: How often nodes look at their key files.
KEY_CHECK_S = 0.5
CONNECT_TIMEOUT_S = 10.0


class Hosts(Protocol):
    """A driver: containers or network namespaces."""

    keys: KeysDir

    async def start(self, name: str, release: str) -> None:
        """Starts a node, or starts it again with the data it had."""
        ...

    async def stop(self, name: str) -> None:
        """Tells a node to leave, and waits for its end."""
        ...

    async def kill(self, name: str) -> None: ...

    async def pause(self, name: str) -> None: ...

    async def resume(self, name: str) -> None: ...

    async def cut(self, name: str) -> None:
        """Takes a host off the network."""
        ...

    async def mend(self, name: str) -> None: ...

    def host(self, name: str) -> str:
        """Its numeric address."""
        ...

    async def log(self, name: str) -> str: ...


@dataclass(frozen=True, slots=True)
class Folders:
    """What every driver prepares on disk for its hosts."""

    root: Path
    owner: int

    def keys(self) -> KeysDir:
        keys = KeysDir(self.root / "keys")
        keys.make(["localhost"])
        self.give(keys.path)
        return keys

    def give(self, path: Path) -> None:
        """Hands a file, or a folder with all in it, to the nodes' user."""
        for each in (path, *path.rglob("*")):
            if each.stat().st_uid != self.owner:
                os.chown(each, self.owner, self.owner)

    def of(self, name: str) -> tuple[Path, Path]:
        """A host's data directory and the folder with its own table; made on first use."""
        data, source = self.root / name / "data", self.root / name / "logs"
        if not data.exists():
            data.mkdir(parents=True)
            source.mkdir()
            lines = "".join(f"{name},{n}\n" for n in range(ROWS))
            (source / "fw.csv").write_text("host,n\n" + lines)
            self.give(self.root / name)
        return data, source


def environment(source: str) -> dict[str, str]:
    """What every node is told, apart from where its keys and data are."""
    return {
        "PIER_PRESET": "local",
        "PIER_NODE_LISTEN": f"0.0.0.0:{NODE_PORT}",
        "PIER_CLIENT_LISTEN": f"0.0.0.0:{CLIENT_PORT}",
        "PIER_HTTP_LISTEN": f"0.0.0.0:{HTTP_PORT}",
        "PIER_NODE_JOIN": ",".join(f"{seed}:{NODE_PORT}" for seed in SEEDS),
        "PIER_NODE_SOURCES": f"fw=csv:{source}",
        "PIER_SECURITY_KEYRING_CHECK_S": str(KEY_CHECK_S),
        "PIER_LOG_FORMAT": "json",
    }


class Door:
    """How the test gets in: the cluster's own authority and its administrator's word."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._tls: ssl.SSLContext = client_context(hosts.keys.tls_authority)
        self._token = read_token(hosts.keys.token)

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[Connection]:
        host = self._hosts.host(name)
        opened = client.connect(
            host,
            CLIENT_PORT,
            token=self._token,
            tls=self._tls,
            server_name="localhost",
            timeout_s=CONNECT_TIMEOUT_S,
        )
        async with opened as conn:
            yield conn
