"""The machines: real node processes, each in a network namespace of its own where those can be had.

Without namespaces everything happens on loopback, and nobody can be cut from anybody.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import trio
from pyarrow import csv

from bench.havoc.questions import own_rows
from pier_node.client import Connection
from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir, ClusterNode
from tests.docker.hosts import Door
from tests.docker.namespaces import Namespaces

RELEASE = "0.1.0"
#: Not part of a node's identity and memory: what a copy of a disk would not run with.
PROCESS_FILES = ("node.lock", "node.json", "node.log", "pier.toml")


class Machines(Protocol):
    """Hosts named n1, n2, …"""

    async def start(self, name: str) -> None: ...

    async def kill(self, name: str) -> None: ...

    async def leave(self, name: str) -> None: ...

    async def pause(self, name: str) -> None: ...

    async def resume(self, name: str) -> None: ...

    def wipe(self, name: str) -> None:
        """Forgets all that a host that does not run ever stored: it is another node when it starts."""
        ...

    async def clone(self, name: str, copy: str) -> None:
        """Starts a second machine with a copy of the first one's disk."""
        ...

    def runs(self, name: str) -> bool: ...

    def open(self, name: str) -> object:
        """A connection, as an asynchronous context manager."""
        ...

    async def log(self, name: str) -> str: ...


class NamespaceMachines(Namespaces):
    """Each host has an address of its own, so that two of them can be cut from each other."""

    @property
    def door(self) -> Door:
        return Door(self)

    async def start(self, name: str, release: str = RELEASE) -> None:
        await super().start(name, release)

    async def leave(self, name: str) -> None:
        await self.stop(name)

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[Connection]:
        async with self.door.open(name) as conn:
            yield conn


@dataclass(slots=True)
class LocalMachines:
    """Processes on loopback, in a cluster directory."""

    folder: Path
    _started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __enter__(self) -> LocalMachines:
        return self

    def __exit__(self, *args: object) -> None:
        for process in self._started.values():
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    @property
    def _directory(self) -> ClusterDir:
        return ClusterDir(self.folder / "cluster")

    def _node(self, name: str) -> ClusterNode:
        return self._directory.node(int(name[1:]))

    async def start(self, name: str) -> None:
        node = self._node(name)
        if not node.config_file.exists():
            source = self.folder / f"{node.name}.csv"
            if not source.exists():
                csv.write_csv(own_rows(name), source)
            processes.prepare(self._directory, int(name[1:]), [f"fw=csv:{self.folder}/{{name}}.csv"])
        alive = [each for each in self._directory.nodes() if each.data.is_running()]
        (self._started[name],) = processes.start_missing([*alive, node])

    async def kill(self, name: str) -> None:
        self._started[name].kill()
        await trio.to_thread.run_sync(self._started[name].wait)

    async def leave(self, name: str) -> None:
        self._started[name].terminate()
        await trio.to_thread.run_sync(self._started[name].wait)

    async def pause(self, name: str) -> None:
        self._started[name].send_signal(signal.SIGSTOP)

    async def resume(self, name: str) -> None:
        self._started[name].send_signal(signal.SIGCONT)

    def wipe(self, name: str) -> None:
        for each in self._node(name).data.path.iterdir():
            if each.name not in PROCESS_FILES:
                shutil.rmtree(each) if each.is_dir() else each.unlink()

    async def clone(self, name: str, copy: str) -> None:
        original, twin = self._node(name), self._node(copy)
        shutil.rmtree(twin.data.path, ignore_errors=True)
        shutil.copy(self.folder / f"{original.name}.csv", self.folder / f"{twin.name}.csv")
        processes.prepare(self._directory, int(copy[1:]), [f"fw=csv:{self.folder}/{{name}}.csv"])
        copy_disk(original.data.path, twin.data.path)
        await self.start(copy)

    def runs(self, name: str) -> bool:
        return name in self._started and self._started[name].poll() is None

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[Connection]:
        state = self._node(name).running()
        if state is None:
            raise ConnectionRefusedError(f"{name} does not run")
        async with processes.connect_to(self._directory, state) as conn:
            yield conn

    async def log(self, name: str) -> str:
        return self._node(name).log_file.read_text()


def copy_disk(original: Path, twin: Path) -> None:
    """What a copied machine has: identity, memory, journals; not the locks of a process that runs elsewhere."""
    shutil.copytree(original, twin, ignore=shutil.ignore_patterns(*PROCESS_FILES), dirs_exist_ok=True)
