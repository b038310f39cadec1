"""A Spark session and a ring of real nodes, each made once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from pyspark.sql import SparkSession

from pier_node.cluster import processes
from pier_node.cluster.directory import ClusterDir
from pyspark_pier.java import use_java
from pyspark_pier.session import pier_session

ROOT = Path(__file__).resolve().parents[2]
NODES = 4


class Ring:
    """Nodes on this machine."""

    def __init__(self, path: Path, count: int, *sources: str) -> None:
        self.directory = ClusterDir(path)
        self.count = count
        self._sources = sources
        self._started: list[processes.subprocess.Popen[bytes]] = []

    def start(self) -> None:
        nodes = processes.prepare(self.directory, self.count, self._sources)
        spawned = processes.start_missing(nodes)
        self._started += spawned
        trio.run(processes.wait_formed, self.directory, nodes, spawned)

    def stop(self) -> None:
        trio.run(processes.stop, self.directory)
        for process in self._started:
            process.kill()
            process.wait()

    @property
    def nodes(self) -> str:
        return ",".join(state.client_address for state in self.directory.running())


@pytest.fixture(scope="session")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ring]:
    ring = Ring(tmp_path_factory.mktemp("ring"), NODES)
    ring.start()
    try:
        yield ring
    finally:
        ring.stop()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    use_java()
    folder = tmp_path_factory.mktemp("spark")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder}",
        "spark.pyspark.python": sys.executable,
    }
    session = pier_session("pier-tests", "local[2,2]", settings)
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
