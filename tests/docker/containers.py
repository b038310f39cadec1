"""Hosts as containers on a private network, started as the guide says: non-root, read-only root, no capabilities."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import trio

from tests.docker.engine import docker
from tests.docker.hosts import Folders, environment

#: The user of the image.
USER = 10001
STOP_TIMEOUT_S = 15
#: Whose health the engine looks at.
WATCHED = "n1"


class Containers:
    """One network and its containers; a context manager that takes all of it away again."""

    def __init__(self, root: Path, images: dict[str, str]) -> None:
        """`images`: the tag of each release."""
        self._user = USER if os.geteuid() == 0 else os.getuid()
        self._folders = Folders(root, self._user)
        self.keys = self._folders.keys()
        self._images = images
        self._tag = f"pier-test-{os.getpid()}"
        self._subnet = f"10.{150 + os.getpid() % 40}.{os.getpid() // 40 % 250}"
        self._made: list[str] = []

    def __enter__(self) -> Containers:
        docker("network", "create", "--subnet", f"{self._subnet}.0/24", self._tag)
        return self

    def __exit__(self, *args: object) -> None:
        for name in self._made:
            subprocess.run(
                ["docker", "rm", "-f", "-v", self._container(name)], capture_output=True, check=False
            )
        subprocess.run(["docker", "network", "rm", self._tag], capture_output=True, check=False)

    def host(self, name: str) -> str:
        return f"{self._subnet}.{100 + int(name[1:])}"

    async def start(self, name: str, release: str) -> None:
        container = self._container(name)
        if name in self._made:
            await self._docker("rm", "-f", container)
        else:
            self._made.append(name)
        data, source = self._folders.of(name)
        told = environment("/logs/fw.csv") | {"PIER_NODE_ADVERTISE": f"{self.host(name)}:7700"}
        words = [
            "run",
            "-d",
            "--name",
            container,
            "--user",
            str(self._user),
            "--read-only",
            "--cap-drop",
            "ALL",
        ]
        words += ["--network", self._tag, "--ip", self.host(name), "--network-alias", name]
        # Each check starts a Python: often for one of them, so that the test need not wait, and rarely for the others.
        words += ["--health-interval", "3s" if name == WATCHED else "60s", "-v", f"{self.keys.path}:/keys:ro"]
        words += ["-v", f"{data}:/data", "-v", f"{source}:/logs:ro"]
        words += [word for key, value in told.items() for word in ("-e", f"{key}={value}")]
        await self._docker(*words, self._images[release])

    async def stop(self, name: str) -> None:
        await self._docker("stop", "-t", str(STOP_TIMEOUT_S), self._container(name))

    async def kill(self, name: str) -> None:
        await self._docker("kill", "-s", "KILL", self._container(name))

    async def pause(self, name: str) -> None:
        await self._docker("pause", self._container(name))

    async def resume(self, name: str) -> None:
        await self._docker("unpause", self._container(name))

    async def cut(self, name: str) -> None:
        await self._docker("network", "disconnect", self._tag, self._container(name))

    async def mend(self, name: str) -> None:
        where = ["--ip", self.host(name), "--alias", name]
        await self._docker("network", "connect", *where, self._tag, self._container(name))

    async def log(self, name: str) -> str:
        logged = subprocess.run(
            ["docker", "logs", "--tail", "30", self._container(name)], capture_output=True, check=False
        )
        return (logged.stdout + logged.stderr).decode(errors="replace")

    async def inspect(self, name: str, what: str) -> str:
        return await self._docker("inspect", "-f", what, self._container(name))

    async def run(self, name: str, *words: str) -> str:
        """A command inside a container."""
        return await self._docker("exec", self._container(name), *words)

    async def _docker(self, *words: str) -> str:
        return await trio.to_thread.run_sync(docker, *words)

    def _container(self, name: str) -> str:
        return f"{self._tag}-{name}"
