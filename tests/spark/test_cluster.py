"""The same jobs on a Spark cluster: a master and two workers, started from the installed package."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from pier_node.logs import generate
from pyspark_pier.java import use_java
from tests.spark.conftest import ROOT, Ring
from tests.spark.test_batch import count

pytestmark = pytest.mark.processes

SPARK_HOME = Path(pyspark.__file__).parent
MASTER, WORKERS = "127.0.0.1", ("127.0.0.2", "127.0.0.3")
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master with two workers of one core each."""
    folder = tmp_path_factory.mktemp("cluster")
    use_java()
    with socket.socket() as probe:
        probe.bind((MASTER, 0))
        port = probe.getsockname()[1]
    url = f"spark://{MASTER}:{port}"
    with ExitStack() as opened:
        _daemon(opened, folder, "master", MASTER, "--host", MASTER, "--port", str(port), "--webui-port", "0")
        for host in WORKERS:
            work = str(folder / host)
            _daemon(opened, folder, "worker", host, "--host", host, "-c", "1", "-m", "1g", "-d", work,
                    "--webui-port", "0", url)  # fmt: skip
        _wait(lambda: (folder / f"master-{MASTER}.log").read_text().count("Registering worker") == 2)
        yield url


def _daemon(opened: ExitStack, folder: Path, kind: str, host: str, *arguments: str) -> None:
    environment = {**_environment(), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
    with (folder / f"{kind}-{host}.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(SPARK_HOME / "bin" / "spark-class"),
                f"org.apache.spark.deploy.{kind}.{kind.title()}",
                *arguments,
            ],
            env=environment,
            stdout=log,
            stderr=log,
        )
    opened.callback(process.wait)
    opened.callback(process.terminate)


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": MASTER,
    }


def _wait(true: object) -> None:
    assert callable(true)
    deadline_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline_s, "the cluster does not come up"
        time.sleep(0.1)


def submit(master: str, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master]
    for name, value in {
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.driver.host": MASTER,
        "spark.sql.shuffle.partitions": "2",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }.items():
        command += ["--conf", f"{name}={value}"]
    done = subprocess.run(
        [*command, *arguments], env=_environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return done


def test_two_copies_of_a_task_on_two_workers_add_their_rows_once(
    master: str, ring: Ring, tmp_path: Path
) -> None:
    job, marker = Path(__file__).with_name("speculating_job.py"), tmp_path / "copied"
    speculation = {
        "spark_speculation": "true",
        "spark_speculation_interval": "100ms",
        "spark_speculation_quantile": "0.5",
        "spark_speculation_multiplier": "1.0",
        "spark_speculation_minTaskRuntime": "100ms",
    }
    submit(master, str(job), ring.nodes, str(marker), **speculation)
    assert marker.exists(), "no second copy was run"
    assert count(ring, "speculated") == 20_000


def test_the_command_runs_on_a_cluster_as_it_is(master: str, ring: Ring, tmp_path: Path) -> None:
    (tmp_path / "fw.log").write_bytes(generate("ufw", seed=5, start_us=1_700_000_000_000_000, count=5_000))
    told = subprocess.run(
        [sys.executable, "-m", "pyspark_pier", "--path"],
        env=_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    done = submit(
        master, told.stdout.strip(), "feed", "clustered", str(tmp_path), "--key", "src", "--nodes", ring.nodes
    )
    # spark-submit puts what Python writes to either stream on its standard output.
    facts = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    assert facts["rows"] == facts["lines"]["parsed"] == 5_000 and facts["nodes"] == ring.count
    assert count(ring, "clustered") == 5_000
