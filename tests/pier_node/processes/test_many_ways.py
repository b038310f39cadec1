"""Real nodes found by name, over IPv6, seen by a supervisor: joining, health, metrics, logs with query ids."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from pier_node.client import connect, sync
from pier_node.config.addresses import split_address
from pier_node.data_dir import NodeState
from tests.pier_node.processes.test_node_process import clean_environment, node

pytestmark = pytest.mark.processes

PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def whole_ring(states: list[NodeState]) -> None:
    """Waits until every node sees all of them."""
    wanted = {state.node_id for state in states}
    with trio.fail_after(PATIENCE_S):
        for state in states:
            async with connect(*split_address(state.client_address)) as conn:
                while not (await conn.status()).joined:
                    await trio.sleep(0.05)
                while {entry.id for entry in (await conn.ring(whole=True)).nodes} != wanted:
                    await trio.sleep(0.05)


def test_seeds_with_the_same_list_of_names_come_up_from_nothing(tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    joins = [word for port in ports for word in ("--join", f"localhost:{port}")]
    with ExitStack() as running:
        states = [
            running.enter_context(node(tmp_path / str(port), "--listen", f"127.0.0.1:{port}", *joins))[1]
            for port in ports
        ]
        late = node(tmp_path / "late", *joins, "--join", "nowhere.invalid:7700")
        states.append(running.enter_context(late)[1])
        trio.run(whole_ring, states)


def test_a_ring_over_ipv6(tmp_path: Path) -> None:
    with (
        node(tmp_path / "a", "--listen", "[::1]:0", "--client", "[::1]:0") as (_, first),
        node(tmp_path / "b", "--listen", "[::1]:0", "--join", first.address) as (_, second),
    ):
        assert first.address.startswith("[::1]:") and first.client_address.startswith("[::1]:")
        trio.run(whole_ring, [first, second])


def health(http: str, *flags: str) -> int:
    command = [sys.executable, "-m", "cli.main", "health", "--http", http, *flags]
    return subprocess.run(command, capture_output=True, check=False, env=clean_environment()).returncode


def test_a_supervisor_sees_a_node(tmp_path: Path) -> None:
    http = f"127.0.0.1:{free_port()}"
    flags = ["--set", f"http.listen={http}", "--set", "log.level=debug"]
    with node(tmp_path / "a", *flags, "--join", "nowhere.invalid:7700"):
        assert health(http) == 0
        assert health(http, "--ready") == 1
    assert health(http) == 1
    with node(tmp_path / "b", *flags) as (process, state):
        with sync.connect(*split_address(state.client_address)) as conn:
            answer = conn.query("SELECT 1 AS one")
            assert answer.table().to_pylist() == [{"one": 1}]
            account = answer.account
        assert account is not None
        assert health(http, "--ready") == 0
        with urllib.request.urlopen(f"http://{http}/metrics", timeout=PATIENCE_S) as page:
            families = {each.name: each for each in text_string_to_metric_families(page.read().decode())}
        assert families["pier_ring_joined"].samples[0].value == 1
        assert families["pier_queries_ended"].samples[0].value == 1
        assert families["pier_transport_messages_sent"].type == "counter"
        process.terminate()
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr]
        told = [line["event"] for line in lines if line.get("query") == account.query]
        assert told == ["query started", "query runs here", "query is over here", "query ended"]
        (ended,) = [line for line in lines if line["event"] == "query ended"]
        assert (ended["ended"], ended["asked"], ended["rows"]) == ("complete", 1, 1)


def test_status_is_watched(tmp_path: Path) -> None:
    with node(tmp_path) as (_, state):
        command = [sys.executable, "-m", "cli.main", "status", "--node", state.client_address]
        watch = [*command, "--watch", "0.2", "--count", "2"]
        run = subprocess.run(watch, capture_output=True, text=True, check=True, env=clean_environment())
        assert run.stdout.count("on the ring") == 2 and "clients.sessions.requests" in run.stdout
        run = subprocess.run(
            [*watch, "--format", "json"], capture_output=True, text=True, check=True, env=clean_environment()
        )
        first, second = map(json.loads, run.stdout.splitlines())
        assert second["clients.sessions.requests"] > first["clients.sessions.requests"]
