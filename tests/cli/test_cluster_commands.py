"""The commands as a person types them, against real processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.main import main
from pier_node.cluster.directory import ClusterDir

pytestmark = pytest.mark.processes
QUERY = """
%opgraph(all) {
    %operator(s) { type = scan  implementation = DHT  ns = rep }
    %operator(r) { type = result  sources[0] = s }
}
"""


@pytest.fixture
def three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Path]:
    """A cluster of three."""
    directory = tmp_path / "c"
    assert main(["cluster", "start", "-n", "3", "--dir", str(directory), "--format", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["state"] for row in rows] == ["alive"] * 3
    try:
        yield directory
    finally:
        assert main(["cluster", "stop", "--dir", str(directory)]) == 0


def test_publish_then_ask_then_lose_a_node(
    three: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ["--dir", str(three)]
    data, query = tmp_path / "rep.csv", tmp_path / "q.ufl"
    data.write_text("src,score\n" + "".join(f"10.0.0.{n},{n}\n" for n in range(50)))
    query.write_text(QUERY)
    assert main(["publish", "rep", str(data), "--key", "src", *at]) == 0
    assert main(["ufl", str(query), "--format", "json", *at]) == 0
    captured = capsys.readouterr()
    got = sorted(json.loads(line)["score"] for line in captured.out.splitlines())
    assert got == list(range(50))
    account = json.loads(captured.err.splitlines()[-1])
    assert account["asked"] == 3 == account["answered"] + account["empty"]
    assert main(["tables", "--format", "json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["table"] == "rep"
    assert main(["ring", "--format", "json", *at]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3

    victim = ClusterDir(three).running()[0]
    os.kill(victim.pid, signal.SIGKILL)
    os.waitpid(victim.pid, 0)
    assert main(["cluster", "status", *at, "--format", "json"]) == 1
    states = [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()]
    assert states == ["dead", "alive", "alive"]
    assert main(["status", *at]) == 0, "the commands do not find a node that lives"
    assert main(["cluster", "start", *at]) == 0
    assert main(["cluster", "status", *at]) == 0


def test_the_demo(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A short form: three nodes, no Spark."""
    report = tmp_path / "report.html"
    assert main(["demo", "-n", "3", "--epochs", "2", "--no-spark", "--report", str(report)]) == 0
    out = capsys.readouterr().out
    assert "epoch 2 · 3 of 3 nodes" in out or "epoch 1 · 3 of 3 nodes" in out
    assert "botnet" in out and "2 of 3 nodes answered, 1 absent" in out
    assert "Summary of 100,000 old events" in out and "Stopped 2 nodes" in out
    page = report.read_text()
    assert page.count("<svg") == 2 and page.count("<rect") > 30 and "after a node was killed" in page
