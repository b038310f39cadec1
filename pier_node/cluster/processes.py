"""Starting, watching and stopping the node processes of a cluster directory.

Nodes are processes of their own, in sessions of their own: they outlive the command that started them. What
they are up to is asked over the client protocol, never guessed by waiting.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

import trio

from pier_node import client
from pier_node.cluster.directory import ClusterDir, ClusterNode
from pier_node.config.addresses import join_address, split_address
from pier_node.data_dir import NodeState
from pier_node.protocol.messages import RingIs, StatusIs
from pier_node.tls import client_context

HOST = "127.0.0.1"
#: More processes than this on one machine are a mistake in -n.
NODES_MAX = 256
#: How long a process may take to open its door, and the ring to close, plus something for each node.
START_TIMEOUT_S = 60.0
START_TIMEOUT_PER_NODE_S = 5.0
#: A node that has not left the ring by then is killed.
STOP_TIMEOUT_S = 10.0
#: Between two questions whether something has happened.
POLL_S = 0.05
_QUESTION_TIMEOUT_S = 5.0
#: Members a node is told to join through; one live one is enough.
_GATEWAYS_MAX = 8
_LOG_TAIL_BYTES = 2_000


class ClusterError(Exception):
    """The cluster cannot be started or stopped; the message says which node and why."""


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One node as `pier cluster status` shows it."""

    node: ClusterNode
    state: NodeState | None
    status: StatusIs | None


def prepare(directory: ClusterDir, count: int, sources: Sequence[str] = ()) -> list[ClusterNode]:
    """Makes the folders and configurations of nodes that do not exist yet; returns all nodes, in order."""
    wanted = [directory.node(number) for number in range(1, count + 1)]
    fresh = [node for node in wanted if not node.config_file.exists()]
    for node, (port, client_port) in zip(fresh, free_ports(len(fresh)), strict=True):
        node.data.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        node.config_file.write_text(_toml(directory, node, port, client_port, sources))
    return directory.nodes()


def start_missing(nodes: Sequence[ClusterNode]) -> list[subprocess.Popen[bytes]]:
    """Starts every node that does not run. The first node of a cold cluster starts the ring, all others join."""
    alive = [state.address for node in nodes if (state := node.running()) is not None]
    started = []
    for node in nodes:
        if not node.data.is_running():
            started.append(spawn(node, alive[:_GATEWAYS_MAX]))
            alive.append(_listen_address(node))
    return started


async def wait_formed(
    directory: ClusterDir, nodes: Sequence[ClusterNode], spawned: Sequence[subprocess.Popen[bytes]]
) -> RingIs:
    """Waits until every node is on one ring, as the first and the last of them see it."""
    timeout_s = START_TIMEOUT_S + START_TIMEOUT_PER_NODE_S * len(nodes)
    missing = "none answered yet"
    with trio.move_on_after(timeout_s):
        while True:
            _check_spawned(nodes, spawned)
            states = [node.running() for node in nodes]
            if None not in states:
                rings = [await _ring(directory, state) for state in (states[0], states[-1]) if state]
                wanted = {state.node_id for state in states if state}
                if all(ring is not None and wanted <= {entry.id for entry in ring.nodes} for ring in rings):
                    assert rings[0] is not None
                    return rings[0]
                missing = f"{[len(ring.nodes) if ring else 0 for ring in rings]} of {len(nodes)} on the ring"
            await trio.sleep(POLL_S)
    raise ClusterError(f"the ring did not form within {timeout_s:g} s: {missing}")


async def report(directory: ClusterDir) -> list[NodeReport]:
    """What every node says of itself; a node that runs but does not answer has no status."""
    reports: dict[str, NodeReport] = {}

    async def ask(node: ClusterNode) -> None:
        state = node.running()
        status = None if state is None else await _status(directory, state)
        reports[node.name] = NodeReport(node, state, status)

    async with trio.open_nursery() as nursery:
        for node in directory.nodes():
            nursery.start_soon(ask, node)
    return [reports[name] for name in sorted(reports)]


async def stop(directory: ClusterDir, timeout_s: float = STOP_TIMEOUT_S) -> tuple[int, int]:
    """Ends every node: politely, then not. Returns how many there were, and how many had to be killed."""
    running = [node for node in directory.nodes() if node.data.is_running()]
    for node in running:
        _signal(node, signal.SIGTERM)
    with trio.move_on_after(timeout_s):
        while any(node.data.is_running() for node in running):
            await trio.sleep(POLL_S)
    stubborn = [node for node in running if node.data.is_running()]
    for node in stubborn:
        _signal(node, signal.SIGKILL)
    with trio.move_on_after(timeout_s):
        while any(node.data.is_running() for node in stubborn):
            await trio.sleep(POLL_S)
    return len(running), len(stubborn)


def _signal(node: ClusterNode, number: signal.Signals) -> None:
    """Signals the process that holds the node's lock; the lock guards against a process id used again."""
    pid = node.data.holder()
    if pid is not None and node.data.is_running():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def spawn(node: ClusterNode, gateways: Sequence[str]) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIER_")}
    environment["PIER_NODE_JOIN"] = ",".join(gateways)
    with node.log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "pier_node", str(node.config_file)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def _check_spawned(nodes: Sequence[ClusterNode], spawned: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in spawned:
        if process.poll() is not None:
            config_file = str(process.args[-1]) if isinstance(process.args, list) else ""
            log = Path(config_file).with_name("node.log")
            tail = (
                log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip() if log.exists() else ""
            )
            raise ClusterError(f"a node ended with code {process.returncode}; {log} says:\n{tail}")


def _toml(
    directory: ClusterDir, node: ClusterNode, port: int, client_port: int, sources: Sequence[str]
) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    listed = ", ".join(quoted(source.replace("{name}", node.name)) for source in sources)
    lines = [
        'preset = "local"',
        "[node]",
        f'listen = "{join_address(HOST, port)}"',
        f"data_dir = {quoted(str(node.data.path.resolve()))}",
        f"state_file = {quoted(str(node.data.state_file.resolve()))}",
        f"sources = [{listed}]",
        "[client]",
        f'listen = "{join_address(HOST, client_port)}"',
    ]
    if directory.keys.keyring.exists():
        lines += ["[security]", f"keys_dir = {quoted(str(directory.keys.path.resolve()))}"]
    return "\n".join(lines) + "\n"


def _listen_address(node: ClusterNode) -> str:
    return str(tomllib.loads(node.config_file.read_text())["node"]["listen"])


def free_ports(count: int) -> list[tuple[int, int]]:
    """Pairs of UDP and TCP ports that are free now; all held until all are found, so that none comes twice."""
    with ExitStack() as held:
        pairs = []
        for _ in range(count):
            pair = []
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                probe = held.enter_context(socket.socket(socket.AF_INET, kind))
                probe.bind((HOST, 0))
                pair.append(probe.getsockname()[1])
            pairs.append((pair[0], pair[1]))
        return pairs


def connect_to(directory: ClusterDir, state: NodeState) -> AbstractAsyncContextManager[client.Connection]:
    """A connection to one node of the cluster, with the cluster's own keys."""
    host, port = split_address(state.client_address)
    keys = directory.client_keys()
    if keys is None:
        return client.connect(host, port, timeout_s=_QUESTION_TIMEOUT_S)
    tls = client_context(keys.authority)
    return client.connect(host, port, tls=tls, token=keys.token, timeout_s=_QUESTION_TIMEOUT_S)


async def _status(directory: ClusterDir, state: NodeState) -> StatusIs | None:
    """None when the node does not answer, and in time."""
    with trio.move_on_after(_QUESTION_TIMEOUT_S):
        try:
            async with connect_to(directory, state) as conn:
                return await conn.status()
        except client.PierError:
            return None
    return None


async def _ring(directory: ClusterDir, state: NodeState) -> RingIs | None:
    with trio.move_on_after(_QUESTION_TIMEOUT_S):
        try:
            async with connect_to(directory, state) as conn:
                return await conn.ring(whole=True)
        except client.PierError:
            return None
    return None
