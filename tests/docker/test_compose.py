"""`docker/compose.yaml` for real: keys are made, a seed and three nodes find each other, logs grow, somebody asks.

Spark's image is a gigabyte and takes minutes to build the first time: its part runs if PIER_TESTS_SPARK_IMAGE is set.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.docker.engine import DOCKER, base_tag, image, spark_image, why_not
from tests.docker.story import OLD

pytestmark = pytest.mark.processes

NODES = 3
PATIENCE_S = 120.0
JOB_S = 400.0
ASK = ["pier", "sql", "--node", "127.0.0.1:7701", "--format", "json"]
KEYS = ["--tls-ca", "/keys/tls-authority.pem", "--tls-name", "node", "--token-file", "/keys/client.token"]
FEED = (
    "spark-submit --master spark://spark-master:7077 $(pier-spark --path) feed seen '/logs/*.log' --key src"
    f" --nodes seed:7701 {' '.join(KEYS)}"
)
WITH_SPARK = bool(os.environ.get("PIER_TESTS_SPARK_IMAGE"))


def compose_command() -> list[str]:
    """The plugin or the program of old; empty when there is neither."""
    plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    if plugin.returncode == 0:
        return ["docker", "compose"]
    program = shutil.which("docker-compose")
    return [program] if program else []


class Composed:
    """The file as it stands, with images, a port and a project of its own."""

    def __init__(self, command: list[str], images: dict[str, str]) -> None:
        self._command = [*command, "-f", str(DOCKER / "compose.yaml")]
        self._command += ["--profile", "spark"] if WITH_SPARK else []
        project = f"pier-test-{os.getpid()}"
        self._told = {**os.environ, **images, "PIER_PORT": "0", "COMPOSE_PROJECT_NAME": project}

    def __call__(self, *words: str, timeout_s: float = PATIENCE_S) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *words],
            env=self._told,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def must(self, *words: str, timeout_s: float = PATIENCE_S) -> str:
        done = self(*words, timeout_s=timeout_s)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr[-2000:]}"
        return done.stdout

    def ask(self, question: str) -> tuple[dict[str, int], dict[str, int | str]]:
        """The first row and the account; both empty when it could not be asked yet."""
        done = self("exec", "-T", "seed", *ASK, *KEYS, question)
        if done.returncode or not done.stdout.strip():
            return {}, {}
        row, account = json.loads(done.stdout.splitlines()[0]), json.loads(done.stderr.splitlines()[-1])
        return (row[0] if isinstance(row, list) else row), account


@contextmanager
def composed(command: list[str], images: dict[str, str]) -> Iterator[Composed]:
    compose = Composed(command, images)
    try:
        compose.must("up", "-d", "--no-build", "--scale", f"node={NODES}")
        yield compose
    except BaseException:
        print(compose("logs", "--tail", "20").stdout)
        raise
    finally:
        compose("down", "-v", "--timeout", "5")


def test_the_composed_cluster_answers_and_is_fed(tmp_path: Path) -> None:
    reason, command = why_not(), compose_command()
    if reason or not command:
        pytest.skip(f"no containers here: {reason or 'there is no docker compose'}")
    images = {"BASE": base_tag(), "PIER_IMAGE": image(tmp_path, OLD)}
    if WITH_SPARK:
        images["PIER_SPARK_IMAGE"] = spark_image(tmp_path)
    with composed(command, images) as compose:
        everybody_answers(compose)
        if WITH_SPARK:
            job = compose("exec", "-T", "spark-master", "sh", "-c", FEED, timeout_s=JOB_S)
            # spark-submit passes what a Python job says on stderr on to its stdout.
            said = job.stdout + job.stderr
            told = [line for line in said.splitlines() if line.startswith('{"table"')]
            assert job.returncode == 0, said[-4_000:]
            assert told, said[-4_000:]
            fed = json.loads(told[0])
            assert fed["rows"] == fed["lines"]["parsed"] > 0
            row, account = compose.ask("SELECT count(*) AS n FROM seen")
            assert (row["n"], account["ended"]) == (fed["rows"], "complete")
        compose.must("down", "-v", "--timeout", "5")
        assert compose.must("ps", "-q") == "", "something is left"


def everybody_answers(compose: Composed) -> None:
    """Every node has lines of its own log, and all are in one answer."""
    until_s = time.monotonic() + PATIENCE_S
    row, account = compose.ask("SELECT count(*) AS n FROM fw")
    while account.get("asked") != NODES + 1 or account.get("ended") != "complete" or not row.get("n"):
        assert time.monotonic() < until_s, (row, account)
        time.sleep(0.5)
        row, account = compose.ask("SELECT count(*) AS n FROM fw")
