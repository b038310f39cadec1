"""Hosts as network namespaces: each with its own address, all on one bridge, processes inside.

The bridge stands in a namespace of its own, so that no packet filter of the machine has a say in what passes it; the
machine itself is one more host on it.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

import trio

from tests.docker.hosts import Folders, environment

ROOT = Path(__file__).resolve().parents[2]
#: Hosts that a subnet holds here.
HOSTS_MAX = 32
STOP_TIMEOUT_S = 15.0
_NUMBERS = itertools.count()


def why_not() -> str:
    """Why network namespaces cannot be had here; empty when they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "there is no ip command"
    probe = f"pier-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"ip netns add: {made.stderr.strip()}"
    link = ["ip", "link", "add", "name", f"pp{os.getpid()}", "type", "bridge"]
    bridged = subprocess.run(link, capture_output=True, text=True, check=False)
    subprocess.run(["ip", "link", "del", f"pp{os.getpid()}"], capture_output=True, check=False)
    subprocess.run(["ip", "netns", "del", probe], capture_output=True, check=False)
    return f"no bridge: {bridged.stderr.strip()}" if bridged.returncode else ""


def ip(*words: str) -> None:
    run = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert run.returncode == 0, f"ip {' '.join(words)}: {run.stderr.strip()}"


class Namespaces:
    """One bridge and its hosts; a context manager that takes all of it away again."""

    def __init__(self, root: Path) -> None:
        self._folders = Folders(root, os.getuid())
        self.keys = self._folders.keys()
        self._root = root
        # The kernel takes a namespace's cables away in its own time: the next one has other names and another subnet.
        number = next(_NUMBERS)
        self._tag = f"{os.getpid() % 100_000}{number % 16:x}"
        self._hub = f"pier{self._tag}hub"
        self._subnet = f"10.{200 + os.getpid() % 40}.{(os.getpid() // 40 + number) % 250}"
        self._running: dict[str, Popen[bytes]] = {}
        self._releases: dict[str, str] = {}
        self._made: list[str] = []

    def __enter__(self) -> Namespaces:
        try:
            self._build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _build(self) -> None:
        ip("netns", "add", self._hub)
        ip("-n", self._hub, "link", "add", "name", "br0", "type", "bridge")
        ip("-n", self._hub, "link", "set", "br0", "up")
        self._cable("test", None)
        ip("addr", "add", f"{self._subnet}.254/24", "dev", self._link("own"))
        ip("link", "set", self._link("own"), "up")

    def __exit__(self, *args: object) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()
        for space in (*map(self._namespace, self._made), self._hub):
            subprocess.run(["ip", "netns", "del", space], capture_output=True, check=False)
            shutil.rmtree(Path("/etc/netns") / space, ignore_errors=True)
        with suppress(OSError):
            Path("/etc/netns").rmdir()

    def host(self, name: str) -> str:
        return f"{self._subnet}.{name[1:]}"

    async def start(self, name: str, release: str) -> None:
        if name not in self._made:
            self._make(name)
        self._releases[name] = release
        data, source = self._folders.of(name)
        told = {key: value for key, value in os.environ.items() if not key.startswith("PIER_")}
        told |= environment(str(source / "fw.csv"))
        told |= {
            "PIER_NODE_DATA_DIR": str(data),
            "PIER_SECURITY_KEYS_DIR": str(self.keys.path),
            "PIER_NODE_ADVERTISE": f"{name}:7700",
            "PYTHONPATH": os.pathsep.join([str(self._release(release)), str(ROOT)]),
        }
        with (self._root / f"{name}.log").open("ab") as log:
            self._running[name] = Popen(
                ["ip", "netns", "exec", self._namespace(name), sys.executable, "-m", "cli.main", "node"],
                env=told,
                # Not this tree's folder: an editable install leaves metadata there that would come first.
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def stop(self, name: str) -> None:
        self._running[name].terminate()
        await self._wait(name)

    async def kill(self, name: str) -> None:
        self._running[name].kill()
        await self._wait(name)

    async def pause(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGSTOP)

    async def resume(self, name: str) -> None:
        self._running[name].send_signal(signal.SIGCONT)

    async def cut(self, name: str) -> None:
        ip("-n", self._hub, "link", "set", self._link(name), "down")

    async def mend(self, name: str) -> None:
        ip("-n", self._hub, "link", "set", self._link(name), "up")

    async def cut_one_way(self, name: str, other: str) -> None:
        """The one is not heard by the other any more; all others hear both."""
        # A route out: a rule against what comes in is asked after the table of local addresses, and stops nothing.
        ip("-n", self._namespace(name), "route", "add", "blackhole", f"{self.host(other)}/32")

    async def cut_pair(self, one: str, other: str) -> None:
        """Neither hears the other any more; all others hear both."""
        for here, there in ((one, other), (other, one)):
            await self.cut_one_way(here, there)

    async def mend_pair(self, one: str, other: str) -> None:
        for here, there in ((one, other), (other, one)):
            ip("-n", self._namespace(here), "route", "del", "blackhole", f"{self.host(there)}/32")

    def runs(self, name: str) -> bool:
        return name in self._running and self._running[name].poll() is None

    def wipe(self, name: str) -> None:
        """Empties the disk of a host that does not run."""
        data, _ = self._folders.of(name)
        shutil.rmtree(data)
        data.mkdir()

    async def clone(self, name: str, copy: str) -> None:
        """A second machine with a copy of the first one's disk: identity, memory, logs; not a process's lock."""
        (data, logs), (copied, copied_logs) = self._folders.of(name), self._folders.of(copy)
        shutil.rmtree(copied)
        shutil.copytree(data, copied, ignore=shutil.ignore_patterns("node.lock", "node.json"))
        shutil.copytree(logs, copied_logs, dirs_exist_ok=True)
        await self.start(copy, self._releases[name])

    async def log(self, name: str) -> str:
        return (self._root / f"{name}.log").read_text()

    async def _wait(self, name: str) -> None:
        with trio.fail_after(STOP_TIMEOUT_S):
            await trio.to_thread.run_sync(self._running[name].wait)
        del self._running[name]

    def _namespace(self, name: str) -> str:
        return f"pier{self._tag}{name}"

    def _link(self, name: str) -> str:
        return f"pv{self._tag}{name}"

    def _make(self, name: str) -> None:
        """A namespace with one end of a cable; the other end is in the bridge."""
        space = self._namespace(name)
        ip("netns", "add", space)
        self._made.append(name)
        self._cable(name, space)
        ip("-n", space, "addr", "add", f"{self.host(name)}/24", "dev", "eth0")
        ip("-n", space, "link", "set", "eth0", "up")
        ip("-n", space, "link", "set", "lo", "up")
        # What `ip netns exec` shows as /etc/hosts: names for everybody.
        names = "".join(f"{self._subnet}.{n} n{n}\n" for n in range(1, HOSTS_MAX))
        folder = Path("/etc/netns") / space
        folder.mkdir(parents=True)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{names}")

    def _cable(self, name: str, space: str | None) -> None:
        """From the bridge to `eth0` of a namespace, or to this machine."""
        link = self._link(name)
        far = ["name", "eth0", "netns", space] if space else ["name", self._link("own")]
        ip("link", "add", link, "netns", self._hub, "type", "veth", "peer", *far)
        ip("-n", self._hub, "link", "set", link, "master", "br0", "up")

    def _release(self, version: str) -> Path:
        """What makes this tree another release: the metadata that an installed one would have."""
        folder = self._root / f"release-{version}" / f"pier-{version}.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: pier\nVersion: {version}\n")
        return folder.parent
