"""A node as a real process: starting, stopping, being refused, being itself again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pier_node.client import ConnectionLost, Unavailable, sync
from pier_node.config.addresses import split_address
from pier_node.data_dir import DataDir, NodeState

pytestmark = pytest.mark.processes

#: Runs until somebody ends it.
FOLLOW = """%opgraph(main) {
    %operator(s) { type = scan implementation = Local table = fw }
    %operator(f) { type = flowcontrol probe = stream sources[0] = s }
    %operator(out) { type = result sources[0] = f }
}"""


@contextmanager
def node(data: Path, *flags: str) -> Iterator[tuple[subprocess.Popen[str], NodeState]]:
    """A node process, up: it has said so itself."""
    command = [sys.executable, "-m", "cli.main", "node", "--preset", "local", "--listen", "127.0.0.1:0"]
    command += ["--client", "127.0.0.1:0", "--data-dir", str(data), "--state", str(data / "node.json")]
    process = subprocess.Popen(
        [*command, "--log-format", "json", *flags], stderr=subprocess.PIPE, text=True, env=clean_environment()
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if json.loads(line)["event"] == "node is up":
                break
        state = DataDir(data).state()
        assert state is not None, "the node is up without a state file"
        yield process, state
    finally:
        process.kill()
        process.communicate()


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PIER_")}


def test_a_node_answers_and_leaves_cleanly(tmp_path: Path) -> None:
    with node(tmp_path, "--source", "fw=firewall:/var/log/x") as (process, state):
        host, port = split_address(state.client_address)
        with sync.connect(host, port) as conn:
            status = conn.status()
            assert (status.pid, status.id, status.joined) == (process.pid, state.node_id, True)
            assert status.sources == ("fw=firewall:/var/log/x",)
            assert status.figures["overlay.dht.store.objects"] == 0
            assert conn.ring(whole=True).nodes[0].arc_start != ""
            answer = conn.query(FOLLOW, "ufl")
            process.send_signal(signal.SIGTERM)
            with pytest.raises((ConnectionLost, Unavailable)):
                answer.table()
        assert process.wait(10) == 0
    assert not (tmp_path / "node.json").exists()
    assert not DataDir(tmp_path).is_running()


def test_a_restarted_node_is_the_same_node(tmp_path: Path) -> None:
    with node(tmp_path) as (process, first):
        process.kill()
        process.wait()
        assert not DataDir(tmp_path).is_running(), "a killed node looks alive"
    with node(tmp_path) as (_, second):
        assert second.node_id == first.node_id


def test_two_nodes_cannot_be_one(tmp_path: Path) -> None:
    with node(tmp_path):
        command = [sys.executable, "-m", "cli.main", "node", "--data-dir", str(tmp_path)]
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert "another node runs with" in second.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with node(tmp_path / "a") as (_, state):
        for flag, address, knob in (
            ("--listen", state.address, "node.listen"),
            ("--client", state.client_address, "client.listen"),
        ):
            base = {"--listen": "127.0.0.1:0", "--client": "127.0.0.1:0", flag: address}
            flags = [word for pair in base.items() for word in pair]
            command = [sys.executable, "-m", "cli.main", "node", *flags]
            second = subprocess.run(command, capture_output=True, text=True, check=False)
            assert second.returncode == 1
            assert f"{knob}: cannot listen on {address}: Address already in use" in second.stderr


def test_a_node_without_keys_stays_on_loopback() -> None:
    command = [sys.executable, "-m", "cli.main", "node", "--listen", "0.0.0.0:0"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=clean_environment())
    assert run.returncode == 1
    assert "--keyring" in run.stderr and "loopback" in run.stderr
